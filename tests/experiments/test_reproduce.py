"""From a command to tables, plots and a page."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

import pytest
from markupsafe import escape

from gfn4rec.cli import main
from gfn4rec.errors import RunError, UserError
from gfn4rec.experiments import engines, extra, tuning
from gfn4rec.experiments.engines import Tell
from gfn4rec.experiments.lab import Lab
from gfn4rec.experiments.models import ABLATIONS, ALTERNATIVES, FAIR, MODELS
from gfn4rec.experiments.outcome import Outcome
from gfn4rec.experiments.protocol import BUDGETS, Protocol, read_protocol
from gfn4rec.experiments.published import published, published_for
from gfn4rec.experiments.reproduce import chosen, needs_of
from gfn4rec.experiments.reproductions import REPRODUCTIONS
from gfn4rec.experiments.search import Best, SearchConfig
from gfn4rec.experiments.tasks import JobTask
from gfn4rec.experiments.tuned import read_tuned
from gfn4rec.experiments.tuning import with_published_settings
from gfn4rec.experiments.world import World
from gfn4rec.training.config import Kind
from tests.conftest import Cli
from tests.experiments.conftest import HereEngine
from tests.training.conftest import QUICK, SMALL

CHANGES = {**QUICK, **SMALL, "ranker.first_steps": 1, "num_steps": 6, "evaluate_every": 3}
SETTINGS = [part for key, value in CHANGES.items() for part in ("--set", f"{key}={json.dumps(value)}")]


ByKind: TypeAlias = dict[Kind, dict[str, dict[str, float]]]
TINY = BUDGETS["quick"].model_copy(update={"num_batches": 2})


def command(world: World, out: Path, *names: str) -> list[str]:
    where = ["--data", str(world.data_path), "--simulator", str(world.simulator_path), "--out", str(out)]
    return ["reproduce", *names, *where, "--seeds", "1", *SETTINGS]


@pytest.fixture(scope="module")
def report(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything, made by one process."""
    out = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "open_engine", lambda *_: HereEngine())
        patch.setitem(BUDGETS, "quick", TINY)
        assert main(command(world, out, "all")) == 0
    return out


def test_every_table_is_there_in_three_formats(report: Path) -> None:
    names = {path.stem for path in (report / "tables").glob("*.md")}
    plain = {name for name, each in REPRODUCTIONS.items() if each.tables and each.is_of_paper}
    assert names == plain | {"last-steps"}
    assert len(plain) == 12
    assert {path.stem for path in (report / "tables").glob("*.tex")} == names
    text = (report / "tables" / "online.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text.partition("\n")[2])))
    outcome = _outcome(report, "cf", "online")
    (reward,) = [row["mean"] for row in rows if row["row"] == "CF" and row["column"] == "reward"]
    assert float(reward) == pytest.approx(outcome["figures"]["greedy"]["reward"], rel=1e-4)
    assert "6 steps; 1 seed." in (report / "tables" / "online.md").read_text()


def _outcome(report: Path, policy: str, kind: str) -> dict[str, dict[str, dict[str, float]]]:
    found = [json.loads(path.read_text()) for path in (report / "runs").glob("*/outcome.json")]
    (one,) = [
        each for each in found if (each["job"]["settings"]["policy"], each["job"]["settings"]["kind"]) == (policy, kind)
    ]
    assert isinstance(one, dict)
    return one


def test_plots_and_the_page_are_there(report: Path) -> None:
    assert {path.name for path in (report / "plots").iterdir()} == {
        "frontier.png",
        "curves.png",
        "b_f-plot.png",
        "b_r-plot.png",
        "b_z-plot.png",
    }
    page = (report / "index.html").read_text()
    for each in (REPRODUCTIONS[name] for name in chosen(["all"])):
        assert f">{escape(each.title)}</h2>" in page
    assert "A few slates" in page
    assert "learning_batch = 32" in page  # settings that are not defaults are told
    assert "Quick budget" in page
    start = page.index("<svg")
    ElementTree.fromstring(page[start : page.index("</svg>", start) + 6])
    readme = (report / "README.md").read_text()
    assert "![Reward against coverage](plots/frontier.png)" in readme


def test_each_run_is_made_once(report: Path) -> None:
    needs = {need for name in chosen(["all"]) for need in REPRODUCTIONS[name].needs}
    # b_z = 1 of one sweep is b_r = 0.5 of another.
    assert len(list((report / "runs").glob("*/outcome.json"))) == len(needs) - 1
    assert len(list((report / "runs").glob("ruler-*.json"))) == 1


def test_runs_are_listed(report: Path) -> None:
    with (report / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    (row,) = [row for row in rows if (row["kind"], row["model"]) == ("online", "CF")]
    found = _outcome(report, "cf", "online")
    assert json.loads((report / row["run"] / "outcome.json").read_text()) == found
    assert float(row["reward"]) == pytest.approx(found["figures"]["greedy"]["reward"], abs=1e-4)
    assert row["seed"] == "0"


def test_what_is_not_installed_is_told(
    data_folder: Path, tmp_path: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "scipy" else object())
    told = fails("reproduce", "data", "--data", data_folder, "--out", tmp_path / "report")
    assert told == "gfn4rec: scipy is not installed; get it with: pip install 'gfn4rec[experiments]'\n"


def test_deleted_runs_are_redone_by_the_same_command(
    world: World, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: HereEngine
) -> None:
    shutil.copytree(report, tmp_path / "report")
    runs = sorted((tmp_path / "report" / "runs").glob("*/outcome.json"))
    needed = {path.parent.name for path in runs if json.loads(path.read_text())["job"]["settings"]["policy"] == "cf"}
    assert len(needed) == 2
    for name in needed:
        shutil.rmtree(tmp_path / "report" / "runs" / name)
    monkeypatch.setattr(engines, "open_engine", lambda *_: engine)
    monkeypatch.setitem(BUDGETS, "quick", TINY)
    before = (report / "tables" / "transfer.md").read_text()
    assert main(command(world, tmp_path / "report", "transfer")) == 0
    assert {task.key() for task in engine.items} == needed
    assert (tmp_path / "report" / "tables" / "transfer.md").read_text() == before


def test_processes_of_this_machine_find_the_same(
    world: World, report: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, "quick", TINY)
    result = cli(*command(world, tmp_path / "own", "balance"), "--workers", "2", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["tables"] == ["balance"]
    assert (tmp_path / "own" / "tables" / "balance.csv").read_text() == (report / "tables" / "balance.csv").read_text()
    assert "2 of 2 done" in result.err


def test_the_data_table_needs_no_users(data_folder: Path, tmp_path: Path, cli: Cli) -> None:
    result = cli("reproduce", "data", "--data", data_folder, "--out", tmp_path / "report")
    assert result.code == 0
    assert "synthetic-tiny" in result.out
    assert not (tmp_path / "report" / "simulator").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["onlin"], "no table 'onlin'; did you mean 'online'?"),
        (["online", "--budget", "papr"], "no budget 'papr'; did you mean 'paper'?"),
        (["online", "--set", "b_ff=1"], "unknown key 'b_ff'; did you mean 'b_f'?"),
        (["online", "--engine", "rai"], "choose local or ray"),
        (["online", "--tuned", "nowhere.toml"], "nowhere.toml: no such file"),
        (["online", "--tuned", "x.toml", "--trials", "2"], "give one of them"),
        (["online", "--set", "b_f=abc"], "b_f"),
        (["online", "--set", "num_steps=20"], "nothing would be learned in 20 steps; lower warmup_steps, which is 20"),
        (["online", "--simulator", "nowhere"], "nowhere: not a simulator"),
    ],
)
def test_a_mistake_is_one_line(
    data_folder: Path, tmp_path: Path, fails: Callable[..., str], arguments: list[str], message: str
) -> None:
    assert message in fails("reproduce", *arguments, "--data", data_folder, "--out", tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_an_output_that_is_a_file_is_told_before_any_run(
    world: World, tmp_path: Path, fails: Callable[..., str], engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "open_engine", lambda *_: engine)
    (tmp_path / "file").write_text("mine")
    assert "cannot be written" in fails(*command(world, tmp_path / "file", "balance"))
    assert engine.items == []


def test_ids_of_the_page_are_its_own(report: Path) -> None:
    ids = re.findall(r' id="([^"]+)"', (report / "index.html").read_text())
    assert len(ids) == len(set(ids))


def test_names_come_in_their_order() -> None:
    assert chosen(["claims", "data"]) == ["data", "claims"]
    studies = ["objectives", "frontier", "ablations", "alternatives", "rates"]
    assert chosen(["all"]) == [name for name in REPRODUCTIONS if name not in studies]
    assert chosen(["studies"]) == studies
    assert chosen(["studies", "all"]) == list(REPRODUCTIONS)


def test_the_paper_budget_is_the_papers_protocol() -> None:
    (job, *others) = Protocol(BUDGETS["paper"]).jobs(("online", "PRM"))
    assert len(others) == 4
    training = job.settings.training
    assert (training["num_steps"], training["learning_batch"], training["warmup_steps"]) == (5000, 128, 100)
    assert (training["schedule"], training["buffer_size"], training["newest_share"]) == ("constant", 50_000, 0.5)
    assert job.num_batches == 100
    assert [each.settings.seed for each in others] == [1, 2, 3, 4]
    assert Protocol(BUDGETS["paper"]).jobs(("offline", "PRM"))[0].settings.training["num_steps"] == 10_000


def test_sweeps_fix_the_other_settings() -> None:
    tuned = Protocol(
        BUDGETS["paper"], tuned={"online": {"gfn": {"b_r": 0.05, "b_f": 0.05, "b_z": 2.0, "weight_decay": 0.1}}}
    )
    found = tuned.jobs(("online", "b_f = 0.3"))[0].settings
    assert {key: found.policy_settings[key] for key in ("b_f", "b_r", "b_z")} == {"b_f": 0.3, "b_r": 0.5, "b_z": 1.0}
    assert found.training["weight_decay"] == 0.1
    found = tuned.jobs(("online", "b_r = 0.7"))[0].settings
    assert {key: found.policy_settings[key] for key in ("b_f", "b_r", "b_z")} == {"b_f": 1.0, "b_r": 0.7, "b_z": 1.0}


def test_the_rival_learns_as_the_energy_flow_does() -> None:
    protocol = Protocol(BUDGETS["paper"])
    ours, rival = (protocol.jobs(("online", name))[0].settings.training for name in ("Energy flow", "Boltzmann CF"))
    assert ours == rival
    assert Protocol(BUDGETS["paper"], tuned={"online": {"boltzmann-cf": {"learning_rate": 0.007}}}).jobs(
        ("online", "Boltzmann CF")
    )[0].settings.training == {**ours, "learning_rate": 0.007}


def test_studies_have_the_same_terms_and_one_thing_changed() -> None:
    protocol = Protocol(BUDGETS["paper"])
    ours = protocol.jobs(("online", FAIR["Energy flow"]))[0].settings
    assert ours.training["num_steps"] == 1000
    for name, fair in FAIR.items():
        shown = {"temperature": 0.1} if name == "CF" else {}
        assert protocol.jobs(("online", fair))[0].settings.training == {**ours.training, **shown}
    for name, changes in {**ABLATIONS, **ALTERNATIVES}.items():
        found = protocol.jobs(("online", name))[0].settings
        merged = {**found.training, **found.policy_settings}
        expected = {**ours.training, **ours.policy_settings, **changes}
        assert merged == expected
        assert merged != {**ours.training, **ours.policy_settings}


def test_a_search_first_gives_each_policy_the_same_trials(
    world: World, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[tuple[str, SearchConfig]] = []

    def search(policy: str, config: SearchConfig, *_: object, **__: object) -> Best:
        searched.append((policy, config))
        return Best(policy, {"learning_rate": 0.5 if config.kind == "online" else 0.25}, 1.0, ())

    monkeypatch.setattr(tuning, "search", search)
    needs = needs_of(["online", "balance", "frontier"])
    protocol = tuning.tune(
        Protocol(BUDGETS["paper"], changes={"num_users": 16}), needs, 7, Lab(world, engine), tmp_path
    )
    compared = ["cf", "list-cvae", "prm", "gfn", "boltzmann-cf", "gfn-energy"]
    on_same_terms = [*compared[:4], "gfn", *compared[4:]]  # both of the paper's objectives
    assert [(policy, config.kind, config.num_steps) for policy, config in searched] == [
        *((each, "online", 1000) for each in compared),
        *(("gfn", "offline", 1000) for _ in range(2)),
        *((each, "online", 300) for each in on_same_terms),
    ]
    assert {(config.num_trials, config.changes["num_users"]) for _, config in searched} == {(7, 16)}
    assert [config.changes.get("objective") for _, config in searched[6:8]] == ["db", None]
    for _, config in searched[8:]:
        assert len(config.values["learning_rate"]) == 4
        assert config.start["learning_batch"] == 512
    assert protocol.jobs(("online", "CF"))[0].settings.training["learning_rate"] == 0.5
    assert protocol.jobs(("offline", "GFN4Rec (DB)"))[0].settings.training["learning_rate"] == 0.25
    assert read_tuned(tmp_path / "tuned-online.toml")["PRM"] == {"learning_rate": 0.5}


def test_variants_have_what_was_found_for_what_they_are_variants_of(
    world: World, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def search(policy: str, *_: object, report: Callable[..., None], **__: object) -> Best:
        report("1 of 7 trials", 100, 700)
        searched.append(policy)
        return Best(policy, {"learning_rate": 0.5}, 1.0, ())

    monkeypatch.setattr(tuning, "search", search)
    told: list[str] = []
    before = Protocol(BUDGETS["quick"], tuned={"offline": {"cf": {"learning_rate": 0.3}}})
    protocol = tuning.tune(
        before, needs_of(["b_f", "ablations"]), 7, Lab(world, engine), tmp_path, lambda title, *_: told.append(title)
    )
    assert searched == ["gfn", "gfn-energy"]
    assert told == ["GFN4Rec, online: 1 of 7 trials", "Energy flow, same terms, online: 1 of 7 trials"]
    for name in ("b_f = 0.3", "no exploration"):
        assert protocol.jobs(("online", name))[0].settings.training["learning_rate"] == 0.5
    assert protocol.jobs(("offline", "CF"))[0].settings.training["learning_rate"] == 0.3  # what was known stays
    assert protocol.jobs(("online", "learning rate 0.001"))[0].settings.training["learning_rate"] == 1e-3
    tuned: ByKind = {
        "online": {"gfn": {"b_r": 0.1}, "GFN4Rec": {"b_r": 0.2, "b_z": 0.2}, "b_f = 0.3": {"weight_decay": 0.5}}
    }
    found = Protocol(BUDGETS["quick"], tuned=tuned).jobs(("online", "b_f = 0.3"))[0].settings
    assert (found.policy_settings["b_r"], found.training["weight_decay"]) == (0.5, 0.5)
    other = Protocol(BUDGETS["quick"], tuned=tuned).jobs(("online", FAIR["GFN4Rec"]))[0].settings.policy_settings
    assert (other["b_r"], other["b_z"]) == (0.1, 1.0)  # the table of another model is not its own


def test_a_mistake_in_any_search_is_told_before_the_first(
    world: World, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "search", lambda *_, **__: pytest.fail("searched"))
    late = Protocol(BUDGETS["paper"], changes={"warmup_steps": 400})  # as long as no trial of a study
    with pytest.raises(UserError, match="nothing would be learned in 300 steps"):
        tuning.tune(late, needs_of(["online", "frontier"]), 7, Lab(world, engine), tmp_path)


def test_a_search_starts_where_the_papers_ended(
    world: World, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    def search(policy: str, config: SearchConfig, *_: object, **__: object) -> Best:
        starts.append(config.start)
        return Best(policy, {"b_r": 0.7}, 1.0, ())

    monkeypatch.setattr(tuning, "search", search)
    monkeypatch.setattr(tuning, "published_for", lambda _: published_for("kuairand-1k"))
    protocol = tuning.tune(Protocol(BUDGETS["quick"]), [("online", "GFN4Rec")], 7, Lab(world, engine), tmp_path)
    assert starts == [{"b_r": 0.1, "b_f": 1.0, "b_z": 1.0, "warmup_steps": 20}]
    settings = protocol.jobs(("online", "GFN4Rec"))[0].settings.policy_settings
    assert (settings["b_r"], settings["b_f"]) == (0.7, 1.0)


def test_what_a_row_says_is_not_changed() -> None:
    protocol = read_protocol("quick", 1, None, ["b_f=0.25", "objective=db"])
    settings = protocol.jobs(("online", "b_f = 0.9"))[0].settings.policy_settings
    assert (settings["b_f"], settings["objective"]) == (0.9, "db")
    assert protocol.jobs(("online", "trajectory balance"))[0].settings.policy_settings["objective"] == "tb"
    with_tables = read_protocol("quick", 1, None, ["settings.b_r=0.9", "training.learning_rate=0.9"])
    tuned: ByKind = {"online": {"gfn": {"b_r": 0.1}, "gfn-energy": {"learning_rate": 0.2}}}
    found = replace(with_tables, tuned=tuned)
    assert found.jobs(("online", "b_f = 0.9"))[0].settings.policy_settings["b_r"] == 0.5
    assert found.jobs(("online", "learning rate 0.001"))[0].settings.training["learning_rate"] == 1e-3
    assert found.jobs(("online", "GFN4Rec"))[0].settings.policy_settings["b_r"] == 0.9


def test_cf_and_prm_show_their_top_k_unless_told_otherwise() -> None:
    protocol = Protocol(BUDGETS["quick"], tuned={"online": {"prm": {"temperature": 0.5}}})
    shown = {
        name: protocol.jobs(("online", name))[0].settings.training["temperature"]
        for name in ("CF", "PRM", "ListCVAE", "GFN4Rec", *FAIR.values())
    }
    assert shown == {"CF": 0.0, "PRM": 0.5, "ListCVAE": 1.0, "GFN4Rec": 1.0} | dict.fromkeys(FAIR.values(), 1.0) | {
        FAIR["CF"]: 0.1,
        FAIR["PRM"]: 0.5,
    }
    assert protocol.jobs(("online", "CF"))[0].temperatures == (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.07, 0.05)
    assert protocol.jobs(("online", "PRM"))[0].temperatures == (1.0, 0.7, 0.5, 0.35, 0.25)


def test_sweeps_and_studies_have_seeds_of_their_own() -> None:
    protocol = Protocol(BUDGETS["paper"])
    numbers = {name: len(protocol.jobs(("online", name))) for name in ("CF", "b_r = 0.1", "beta 30", FAIR["CF"])}
    assert numbers == {"CF": 5, "b_r = 0.1": 3, "beta 30": 3, FAIR["CF"]: 3}


def test_a_run_that_fails_leaves_out_its_tables_only(
    world: World, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, engine: HereEngine
) -> None:
    good = JobTask.perform

    def fail_prm(task: JobTask, tell: Tell) -> Outcome | None:
        if task.model == "PRM":
            raise RunError("the loss is nan")
        return good(task, tell)

    monkeypatch.setattr(JobTask, "perform", fail_prm)
    monkeypatch.setattr(engines, "open_engine", lambda *_: engine)
    monkeypatch.setitem(BUDGETS, "quick", TINY)
    result = cli(*command(world, tmp_path / "report", "balance", "offline"))
    assert result.code == 1
    assert "these tables are left out: offline; the first: PRM offline, seed 0 failed: the loss is nan" in result.err
    assert (tmp_path / "report" / "tables" / "balance.md").exists()
    assert not (tmp_path / "report" / "tables" / "offline.md").exists()


def test_changes_go_to_the_models_that_have_them() -> None:
    protocol = read_protocol("quick", 1, None, ["b_f=0.25", "num_users=16", "encoder.dim=16"])
    assert protocol.jobs(("online", "GFN4Rec"))[0].settings.policy_settings["b_f"] == 0.25
    found = protocol.jobs(("offline", "CF"))[0].settings
    assert "b_f" not in found.policy_settings
    assert found.policy_settings["encoder"]["dim"] == 16
    assert found.users.num_users == 16


def test_all_models_can_be_asked_for() -> None:
    protocol = Protocol(BUDGETS["quick"])
    for model in MODELS:
        assert protocol.jobs(("online", model))
    for each in REPRODUCTIONS.values():
        assert all(need[1] in MODELS for need in each.needs)


def test_published_figures() -> None:
    """Sums of all printed columns, added from the paper."""
    movies, videos = published_for("ml-1m"), published_for("kuairand-1k")
    assert movies is not None
    assert videos is not None
    assert sums(movies.online) == pytest.approx(
        {"reward": 9.388, "max_reward": 14.025, "coverage": 398.383, "ild": 3.066}
    )
    assert sums(videos.online) == pytest.approx(
        {"reward": 11.128, "max_reward": 19.93, "coverage": 1011.371, "ild": 2.757}
    )
    assert sums(movies.offline) == pytest.approx(
        {
            "reward": 7.486,
            "max_reward": 11.434,
            "r_ndcg": 2.496,
            "r_mrr": 0.3179,
            "coverage": 292.454,
            "ild": 2.584,
            "test_r_ndcg": 2.242,
            "test_r_mrr": 0.3346,
        }
    )
    assert sums(videos.offline) == pytest.approx(
        {
            "reward": 9.639,
            "max_reward": 19.488,
            "r_ndcg": 1.945,
            "r_mrr": 0.4092,
            "coverage": 829.688,
            "ild": 3.079,
            "test_r_ndcg": 1.77,
            "test_r_mrr": 0.209,
        }
    )
    assert sums(videos.sensitivity["b_f"]) == pytest.approx(
        {"reward": 11.744, "max_reward": 20.299, "coverage": 124.419, "ild": 2.707}
    )
    assert sums(videos.sensitivity["b_r"]) == pytest.approx(
        {"reward": 11.95, "max_reward": 20.237, "coverage": 96.16, "ild": 2.627}
    )
    seconds = {name: row["seconds"] for name, row in videos.time.items()}
    assert seconds == {"CF": 3341, "ListCVAE": 4800, "GFN4Rec": 5500}
    assert published_for("own log") is None
    assert {each.name for each in published()} == {"ML1M", "KR1K"}


def sums(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    return {metric: sum(row[metric] for row in rows.values()) for metric in next(iter(rows.values()))}


def test_gfn_gets_the_papers_settings_unless_others_were_found(world: World) -> None:
    protocol = Protocol(BUDGETS["quick"])
    assert with_published_settings(protocol, world) == protocol  # the paper does not have this data set

    class Movies:
        class data:  # noqa: N801
            name = "ml-1m"

    changed = with_published_settings(protocol, Movies())  # type: ignore[arg-type]
    of_paper = {"b_r": 0.3, "b_f": 0.5, "b_z": 1.0}
    assert changed.tuned == {"online": {"gfn": of_paper}, "offline": {"gfn": of_paper}}
    tuned = Protocol(BUDGETS["quick"], tuned={"online": {"gfn": {"b_r": 0.7}, "cf": {"learning_rate": 0.1}}})
    assert with_published_settings(tuned, Movies()).tuned == {  # type: ignore[arg-type]
        "online": {"gfn": {"b_r": 0.7}, "cf": {"learning_rate": 0.1}},
        "offline": {"gfn": of_paper},
    }

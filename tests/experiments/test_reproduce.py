"""From a command to tables, plots and a page."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markupsafe import escape

from gfn4rec import experiments
from gfn4rec.cli import main
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.errors import RunError
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs import engines
from gfn4rec.experiments.jobs.engines import ReportProgress
from gfn4rec.experiments.jobs.result import JobResult
from gfn4rec.experiments.jobs.tasks import JobTask
from gfn4rec.experiments.paper.models import MODELS
from gfn4rec.experiments.paper.protocol import BUDGETS, Protocol
from gfn4rec.experiments.paper.published import published, published_for
from gfn4rec.experiments.paper.reproductions import REPRODUCTIONS, select
from tests.conftest import Cli
from tests.experiments.conftest import HereEngine
from tests.training.conftest import QUICK, SMALL

CHANGES = {**QUICK, **SMALL, "ranker.first_steps": 1, "num_steps": 6, "evaluate_every": 3}
SETTINGS = [part for key, value in CHANGES.items() for part in ("--set", f"{key}={json.dumps(value)}")]


TINY = BUDGETS["quick"].model_copy(update={"num_batches": 2})


def command(benchmark: Benchmark, out: Path, *names: str) -> list[str]:
    where = ["--data", str(benchmark.data_path), "--simulator", str(benchmark.simulator_path), "--out", str(out)]
    return ["reproduce", *names, *where, "--seeds", "1", *SETTINGS]


@pytest.fixture(scope="module")
def report(benchmark: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything, made by one process."""
    out = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "open_engine", lambda *_: HereEngine())
        patch.setitem(BUDGETS, "quick", TINY)
        assert main(command(benchmark, out, "all")) == 0
    return out


def test_every_table_is_there_in_three_formats(report: Path) -> None:
    names = {path.stem for path in (report / "tables").glob("*.md")}
    plain = {name for name, each in REPRODUCTIONS.items() if each.tables and each.is_of_paper}
    own = {"last-steps", "equal-coverage", "claim-measurements", "online-held-out", "offline-held-out"}
    assert names == plain | own
    assert len(plain) == 13
    assert {path.stem for path in (report / "tables").glob("*.tex")} == names
    text = (report / "tables" / "online.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    result = _result(report, "prm", "online")
    (reward,) = [row["mean"] for row in rows if row["row"] == "PRM" and row["column"] == "reward"]
    assert float(reward) == pytest.approx(result.metrics["greedy"]["reward"], rel=1e-4)
    assert result.held_out is not None
    rows = list(csv.DictReader(io.StringIO((report / "tables" / "online-held-out.csv").read_text())))
    for name, way in (("PRM", "greedy"), ("Popularity", "popularity"), ("Random", "random")):
        (distinct,) = [row["mean"] for row in rows if row["row"] == name and row["column"] == "distinct"]
        assert float(distinct) == result.held_out[way]["distinct"]
    assert ": 6 steps online, 1 seed." in (report / "tables" / "online.md").read_text()


def _result(report: Path, policy: str, mode: str) -> JobResult:
    (path,) = (report / "runs").glob(f"{policy}-{mode}-seed0-*/measurements.jsonl")
    return JobResult.model_validate_json(path.read_text())


def test_plots_and_the_page_are_there(report: Path) -> None:
    assert {path.name for path in (report / "plots").iterdir()} == {
        "frontier.png",
        "curves.png",
        "b_f-plot.png",
        "b_r-plot.png",
        "b_z-plot.png",
    }
    page = (report / "index.html").read_text()
    for section in select(["all"]).values():
        assert f">{escape(section.title)}</h2>" in page
    assert "Example slates" in page
    assert "learning_batch = 32" in page  # settings that are not defaults are listed
    assert "Quick budget" in page
    start = page.index("<svg")
    ElementTree.fromstring(page[start : page.index("</svg>", start) + 6])
    readme = (report / "README.md").read_text()
    assert "![Reward against coverage](plots/frontier.png)" in readme


def test_each_run_is_made_once(report: Path) -> None:
    needs = {need for section in select(["all"]).values() for need in section.needs}
    # b_z = 1 of one sweep is b_r = 0.5 of another.
    assert len(list((report / "runs").glob("*/measurements.jsonl"))) == len(needs) - 1
    assert len((report / "runs" / "oracles.jsonl").read_text().splitlines()) == 1


def test_runs_are_listed(report: Path) -> None:
    with (report / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    (row,) = [row for row in rows if (row["mode"], row["model"]) == ("online", "PRM")]
    result = _result(report, "prm", "online")
    assert JobResult.model_validate_json((report / row["run"] / "measurements.jsonl").read_text()) == result
    assert float(row["reward"]) == pytest.approx(result.metrics["greedy"]["reward"], abs=1e-4)
    assert row["seed"] == "0"


def test_a_missing_package_is_reported(
    data_folder: Path, tmp_path: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "find_spec", lambda name: None if name == "scipy" else object())
    message = fails("reproduce", "data", "--data", data_folder, "--out", tmp_path / "report")
    assert message == "gfn4rec: scipy is not installed; get it with: pip install 'gfn4rec[experiments]'\n"


def test_deleted_runs_are_redone_by_the_same_command(
    benchmark: Benchmark, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: HereEngine
) -> None:
    shutil.copytree(report, tmp_path / "report")
    runs = list((tmp_path / "report" / "runs").glob("prm-*"))
    needed = {JobResult.model_validate_json((run / "measurements.jsonl").read_text()).key for run in runs}
    assert len(needed) == 2
    for run in runs:
        shutil.rmtree(run)
    monkeypatch.setattr(engines, "open_engine", lambda *_: engine)
    monkeypatch.setitem(BUDGETS, "quick", TINY)
    before = (report / "tables" / "transfer.md").read_text()
    assert main(command(benchmark, tmp_path / "report", "transfer")) == 0
    assert {task.key() for task in engine.items} == needed
    assert (tmp_path / "report" / "tables" / "transfer.md").read_text() == before


def test_processes_of_this_machine_find_the_same(
    benchmark: Benchmark, report: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, "quick", TINY)
    result = cli(*command(benchmark, tmp_path / "own", "balance"), "--workers", "2", "--json")
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
        (["online", "--set", "b_ff=1"], "no model has a setting 'b_ff'; did you mean 'b_f'?"),
        (["online", "--set", "pv_wieght=1"], "no model has a setting 'pv_wieght'; did you mean 'pv_weight'?"),
        (["online", "--engine", "rai"], "choose local or ray"),
        (["online", "--tuned", "nowhere.toml"], "nowhere.toml: no such file"),
        (["online", "--tuned", "x.toml", "--trials", "2"], "--tuned and --trials exclude each other"),
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


@pytest.mark.parametrize("place", [".", "tables", "plots"])
def test_an_output_that_is_a_file_is_reported_before_any_run(
    benchmark: Benchmark,
    tmp_path: Path,
    fails: Callable[..., str],
    engine: HereEngine,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    monkeypatch.setattr(engines, "open_engine", lambda *_: engine)
    target = tmp_path / "report"
    if place != ".":
        target.mkdir()
    (target / place).write_text("mine")
    assert "cannot be written" in fails(*command(benchmark, target, "balance"))
    assert engine.items == []


def test_ids_of_the_page_are_its_own(report: Path) -> None:
    ids = re.findall(r' id="([^"]+)"', (report / "index.html").read_text())
    assert len(ids) == len(set(ids))


def test_names_come_in_their_order() -> None:
    assert list(select(["claims", "data"])) == ["data", "claims"]
    studies = ["objectives", "frontier", "ablations", "alternatives", "rates", "authors"]
    assert list(select(["all"])) == [name for name in REPRODUCTIONS if name not in studies]
    assert list(select(["studies"])) == studies
    assert list(select(["studies", "all"])) == list(REPRODUCTIONS)


def test_a_run_that_fails_leaves_out_its_tables_only(
    benchmark: Benchmark, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, engine: HereEngine
) -> None:
    good = JobTask.perform

    def fail_prm(task: JobTask, report: ReportProgress) -> JobResult | None:
        if task.model == "PRM":
            raise RunError("the loss is nan")
        return good(task, report)

    monkeypatch.setattr(JobTask, "perform", fail_prm)
    monkeypatch.setattr(engines, "open_engine", lambda *_: engine)
    monkeypatch.setitem(BUDGETS, "quick", TINY)
    result = cli(*command(benchmark, tmp_path / "report", "balance", "offline"))
    assert result.code == 1
    assert "left out: offline; 1 failed, the first: PRM offline, seed 0 failed: the loss is nan" in result.err
    assert (tmp_path / "report" / "tables" / "balance.md").exists()
    assert not (tmp_path / "report" / "tables" / "offline.md").exists()
    page = (tmp_path / "report" / "index.html").read_text()
    runs = (tmp_path / "report" / "runs.csv").read_text()
    result = cli(*command(benchmark, tmp_path / "report", "offline"))
    assert result.code == 1
    assert "no table could be made, and existing ones are unchanged; 1 failed" in result.err
    assert (tmp_path / "report" / "index.html").read_text() == page
    assert (tmp_path / "report" / "runs.csv").read_text() == runs


def test_all_models_can_be_asked_for() -> None:
    protocol = Protocol(BUDGETS["quick"])
    for model in MODELS:
        assert protocol.jobs(("online", model))
    for each in REPRODUCTIONS.values():
        assert all(need[1] in MODELS for need in each.needs)


def test_published_values() -> None:
    """Sums of all printed columns, added from the paper."""
    movies, videos = published_for("ml-1m", PrepareConfig()), published_for("kuairand-1k", PrepareConfig())
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
    assert published_for("own log", PrepareConfig()) is None
    assert {each.name for each in published()} == {"ML1M", "KR1K"}


@pytest.mark.parametrize(
    ("data_set", "prepared"),
    [
        ("kuairand-pure", PrepareConfig()),
        ("kuairand-27k", PrepareConfig()),
        ("kuairand-1k", PrepareConfig(core=10)),
        ("kuairand-1k", PrepareConfig(slate_size=5)),
        ("kuairand-1k", PrepareConfig(history="responded")),
        ("kuairand-1k", PrepareConfig(session_gap=1800)),
        ("kuairand-1k", PrepareConfig(negatives=1)),
    ],
)
def test_no_published_values_for_what_the_paper_does_not_have(data_set: str, prepared: PrepareConfig) -> None:
    """Its settings are a good start and its claims can be judged all the same."""
    alike = published_for(data_set, prepared)
    assert alike is not None
    assert (alike.name, alike.settings, alike.data_sets) == ("KR1K", {"b_r": 0.1, "b_f": 1.0, "b_z": 1.0}, ())
    assert not any((alike.online, alike.offline, alike.balance, alike.sensitivity, alike.time))


def test_published_values_do_not_depend_on_how_much_is_held_out() -> None:
    prepared = PrepareConfig(val_slates=2)
    assert published_for("kuairand-1k", prepared) is published_for("kuairand-1k", PrepareConfig())


def sums(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    return {metric: sum(row[metric] for row in rows.values()) for metric in next(iter(rows.values()))}

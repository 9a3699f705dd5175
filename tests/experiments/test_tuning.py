"""The search that comes before an experiment."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.errors import UserError
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.campaign import Lab
from gfn4rec.experiments.paper import tuning
from gfn4rec.experiments.paper.models import FAIR, POLICY_OF
from gfn4rec.experiments.paper.protocol import BUDGETS, Protocol
from gfn4rec.experiments.paper.published import published_for
from gfn4rec.experiments.paper.reproductions import needs_of
from gfn4rec.experiments.paper.tuning import with_published_settings
from gfn4rec.experiments.search.search import SearchConfig, SearchResult
from gfn4rec.experiments.search.tuned import read_tuned
from gfn4rec.training.config import Mode
from tests.experiments.conftest import HereEngine

ByMode: TypeAlias = dict[Mode, dict[str, dict[str, float]]]


def test_a_search_first_gives_each_policy_the_same_trials(
    benchmark: Benchmark, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[tuple[str, SearchConfig]] = []

    def search(policy: str, config: SearchConfig, *_: object, **__: object) -> SearchResult:
        searched.append((policy, config))
        return SearchResult(policy, {"learning_rate": 0.5 if config.mode == "online" else 0.25}, 1.0, ())

    monkeypatch.setattr(tuning, "search", search)
    needs = needs_of(["online", "balance", "frontier"])
    protocol = tuning.tune(
        Protocol(BUDGETS["paper"], changes={"num_users": 16, "num_steps": 777}),
        needs,
        7,
        Lab(benchmark, engine),
        tmp_path,
    )
    compared = ["cf", "list-cvae", "prm", "gfn", "boltzmann-cf", "gfn-energy"]
    on_same_terms = [*compared[:4], "gfn", *compared[4:]]  # both of the paper's objectives
    assert [(policy, config.mode, config.num_steps) for policy, config in searched] == [
        *((each, "online", 1000) for each in (*compared[:4], "cf", *compared[4:])),  # CF that shows its top K, too
        *(("gfn", "offline", 1000) for _ in range(2)),
        *((each, "online", 300) for each in on_same_terms),
    ]
    assert {(config.num_trials, config.changes["num_users"]) for _, config in searched} == {(7, 16)}
    assert [config.changes.get("temperature") for _, config in searched[:5]] == [None, None, None, None, 0.0]
    assert searched[0][1].start["temperature"] == 0.1
    assert [config.changes.get("objective") for _, config in searched[7:9]] == ["db", "tb"]
    for _, config in searched[9:]:
        assert len(config.values["learning_rate"]) == 4
        assert config.start["learning_batch"] == 512
    assert protocol.jobs(("online", "CF"))[0].settings.training.model_dump()["learning_rate"] == 0.5
    assert protocol.jobs(("offline", "GFN4Rec (DB)"))[0].settings.training.model_dump()["learning_rate"] == 0.25
    assert read_tuned(tmp_path / "tuned.toml", POLICY_OF)["online"]["PRM"] == {"learning_rate": 0.5}


def test_variants_have_what_was_found_for_what_they_are_variants_of(
    benchmark: Benchmark, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def search(policy: str, *_: object, report: Callable[..., None], **__: object) -> SearchResult:
        report("1 of 7 trials", 100, 700)
        searched.append(policy)
        return SearchResult(policy, {"learning_rate": 0.5}, 1.0, ())

    monkeypatch.setattr(tuning, "search", search)
    reports: list[tuple[str, int, int]] = []
    before = Protocol(BUDGETS["quick"], tuned={"offline": {"cf": {"learning_rate": 0.3}}})
    protocol = tuning.tune(
        before,
        needs_of(["b_f", "ablations"]),
        7,
        Lab(benchmark, engine),
        tmp_path,
        lambda *parts: reports.append(parts),
    )
    assert searched == ["gfn", "gfn-energy"]
    assert reports == [
        ("GFN4Rec, online: 1 of 7 trials", 100, 1400),
        ("Energy GFN, same terms, online: 1 of 7 trials", 800, 1400),
    ]
    for name in ("b_f = 0.3", "no exploration"):
        assert protocol.jobs(("online", name))[0].settings.training.model_dump()["learning_rate"] == 0.5
    assert (
        protocol.jobs(("offline", "CF"))[0].settings.training.model_dump()["learning_rate"] == 0.3
    )  # what was known stays
    assert protocol.jobs(("online", "learning rate 0.003"))[0].settings.training.model_dump()["learning_rate"] == 3e-3
    tuned: ByMode = {
        "online": {"gfn": {"b_r": 0.1}, "GFN4Rec": {"b_r": 0.2, "b_z": 0.2}, "b_f = 0.3": {"weight_decay": 0.5}}
    }
    found = Protocol(BUDGETS["quick"], tuned=tuned).jobs(("online", "b_f = 0.3"))[0].settings
    assert (
        found.policy_settings.model_dump()["b_r"],
        found.training.model_dump()["weight_decay"],
    ) == (0.5, 0.5)
    other = Protocol(BUDGETS["quick"], tuned=tuned).jobs(("online", FAIR["GFN4Rec"]))[0].settings.policy_settings
    # The table of another model is not its own.
    assert (other.model_dump()["b_r"], other.model_dump()["b_z"]) == (0.1, 1.0)


def test_models_whose_settings_are_all_fixed_are_not_searched(
    benchmark: Benchmark, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def search(policy: str, *_: object, **__: object) -> SearchResult:
        searched.append(policy)
        return SearchResult(policy, {"learning_rate": 0.5}, 1.0, ())

    monkeypatch.setattr(tuning, "search", search)
    before = Protocol(BUDGETS["quick"])
    assert tuning.tune(before, needs_of(["authors"]), 7, Lab(benchmark, engine), tmp_path).tuned == {
        "online": {},
        "offline": {},
    }
    tuning.tune(before, needs_of(["authors", "b_f"]), 7, Lab(benchmark, engine), tmp_path)
    assert searched == ["gfn"]


def test_what_was_found_before_stays_in_the_file(
    benchmark: Benchmark, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rate, names in ((0.5, ["online"]), (0.25, ["b_f", "balance"])):
        best = SearchResult("", {"learning_rate": rate}, 1.0, ())
        monkeypatch.setattr(tuning, "search", lambda *_, best=best, **__: best)
        protocol = tuning.tune(Protocol(BUDGETS["quick"]), needs_of(names), 7, Lab(benchmark, engine), tmp_path)
    found = read_tuned(tmp_path / "tuned.toml", POLICY_OF)
    assert found["online"]["PRM"] == {"learning_rate": 0.5}
    assert found["online"]["GFN4Rec"] == found["offline"]["GFN4Rec (DB)"] == {"learning_rate": 0.25}
    assert "PRM" not in protocol.tuned["online"]  # it is asked for by --tuned


def test_a_mistake_in_any_search_is_reported_before_the_first(
    benchmark: Benchmark, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "search", lambda *_, **__: pytest.fail("searched"))
    late = Protocol(BUDGETS["paper"], changes={"warmup_steps": 400})  # as long as no trial of a study
    with pytest.raises(UserError, match="nothing would be learned in 300 steps"):
        tuning.tune(late, needs_of(["online", "frontier"]), 7, Lab(benchmark, engine), tmp_path)


def test_a_search_starts_where_the_papers_ended(
    benchmark: Benchmark, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    def search(policy: str, config: SearchConfig, *_: object, **__: object) -> SearchResult:
        starts.append(config.start)
        return SearchResult(policy, {"b_r": 0.7}, 1.0, ())

    monkeypatch.setattr(tuning, "search", search)
    monkeypatch.setattr(tuning, "published_for", lambda *_: published_for("kuairand-1k", PrepareConfig()))
    protocol = tuning.tune(Protocol(BUDGETS["quick"]), [("online", "GFN4Rec")], 7, Lab(benchmark, engine), tmp_path)
    assert starts == [{"b_r": 0.1, "b_f": 1.0, "b_z": 1.0, "warmup_steps": 20}]
    settings = protocol.jobs(("online", "GFN4Rec"))[0].settings.policy_settings
    assert (settings.model_dump()["b_r"], settings.model_dump()["b_f"]) == (0.7, 1.0)


def test_gfn_gets_the_papers_settings_unless_others_were_found(benchmark: Benchmark) -> None:
    protocol = Protocol(BUDGETS["quick"])
    assert with_published_settings(protocol, benchmark) == protocol  # the paper does not have this data set

    class Movies:
        class data:  # noqa: N801
            name = "ml-1m"
            settings = PrepareConfig()

    changed = with_published_settings(protocol, Movies())  # type: ignore[arg-type]
    of_paper = {"b_r": 0.3, "b_f": 0.5, "b_z": 1.0}
    assert changed.tuned == {"online": {"gfn": of_paper}, "offline": {"gfn": of_paper}}
    tuned = Protocol(BUDGETS["quick"], tuned={"online": {"gfn": {"b_r": 0.7}, "cf": {"learning_rate": 0.1}}})
    assert with_published_settings(tuned, Movies()).tuned == {  # type: ignore[arg-type]
        "online": {"gfn": {"b_r": 0.7}, "cf": {"learning_rate": 0.1}},
        "offline": {"gfn": of_paper},
    }

"""Searches, with a known reward of each combination in place of training."""

import math
import shutil
import statistics
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna
import pytest

from gfn4rec.errors import RunError, UserError
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.campaign import Interrupted, Lab
from gfn4rec.experiments.jobs.job import Job
from gfn4rec.experiments.jobs.result import JobResult
from gfn4rec.experiments.jobs.run_directories import claim_run_directory, mark_run_directory
from gfn4rec.experiments.search import search as search_module
from gfn4rec.experiments.search import trial_task
from gfn4rec.experiments.search.search import SearchConfig, SearchResult, Strategy, check_search, search, search_all
from gfn4rec.experiments.search.spaces import Point, grid_of, points_of
from gfn4rec.experiments.search.trials import open_storage
from gfn4rec.experiments.search.tuned import read_tuned
from tests.experiments.conftest import HereEngine

START: Point = {"learning_rate": 1e-3, "weight_decay": 0.0, "b_r": 0.3, "b_f": 0.5, "b_z": 1.0}
OPTIMUM: Point = {"learning_rate": 1e-4, "weight_decay": 1e-5, "b_r": 1.0, "b_f": 1.5, "b_z": 0.5}
CF_OPTIMUM: Point = {"learning_rate": 1e-4, "weight_decay": 1e-5}


class Nowhere(Benchmark):
    """A benchmark without files."""

    @cached_property
    def identity(self) -> str:
        return "nowhere"

    @property
    def rho(self) -> float:
        return 0.0


def point_of(job: Job) -> Point:
    values = job.settings.model_dump(mode="json")
    settings = {**values["training"], **values["policy_settings"]}
    return {key: settings[key] for key in grid_of(job.settings.policy)}


def nearness(optimum: Point) -> Callable[[Point], float]:
    """A reward that falls with the distance of each setting from its best value."""

    def reward(point: Point) -> float:
        return -sum(abs(math.log10((point[key] + 1e-6) / (optimum[key] + 1e-6))) for key in optimum)

    return reward


class Trainer:
    """Stands for `execute`: shows the reward of its settings at every step, and remembers what it was asked."""

    def __init__(self, reward: Callable[[Point], float]) -> None:
        self.reward = reward
        self.asked: list[Point] = []
        self.last_step: list[int] = []
        self.ends_at: int | None = None

    def __call__(self, job: Job, benchmark: Benchmark, runs: Path, _: str, report: Any) -> JobResult | None:
        point = point_of(job)
        self.asked.append(point)
        self.last_step.append(0)
        with claim_run_directory(job, benchmark, runs) as directory:
            directory.mkdir(exist_ok=True)
            mark_run_directory(job, benchmark, directory)
        num_steps = job.settings.training.num_steps
        for step in range(1, num_steps + 1):
            self.last_step[-1] = step
            report(step, {"reward": self.reward(point)} if job.settings.mode == "online" else {"loss": 1.0})
            if len(self.asked) == self.ends_at and step == num_steps // 2:
                raise KeyboardInterrupt
        return JobResult(
            key=job.key(benchmark),
            job=job,
            data="nothing",
            simulator="none",
            step=num_steps,
            seconds=0.0,
            metrics={"greedy": {"expected_reward": self.reward(point)}},
        )


Searcher = Callable[..., SearchResult]


@pytest.fixture
def searcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Searcher:
    """A search of the gfn policy in a benchmark where a trainer stands for training."""

    def run(
        trainer: Trainer, policy: str = "gfn", out: str = "out", summaries: Path | None = None, **values: Any
    ) -> SearchResult:
        monkeypatch.setattr(trial_task, "execute", trainer)
        at_once = {"warmup_steps": 0} if values.get("mode", "online") == "online" else {}
        changes = {**at_once, **values.pop("changes", {})}
        config = SearchConfig.parse({"num_steps": 4, "changes": changes, **values}, "search")
        lab = Lab(Nowhere(tmp_path, tmp_path), HereEngine(), summaries=summaries)
        return search(policy, config, lab, tmp_path / out)

    return run


def all_different(points: list[Point]) -> bool:
    return len({tuple(point.values()) for point in points}) == len(points)


def test_line_search_finds_the_best_value_of_each_setting(searcher: Searcher) -> None:
    trainer = Trainer(nearness(OPTIMUM))
    best = searcher(trainer, num_trials=100)
    assert best.changes == OPTIMUM
    assert best.value == 0
    assert trainer.asked[0] == START
    # 1 + 2 + 3 + 4 + 3 + 2 in the first round; in the second the last line is known.
    assert len(trainer.asked) == len(best.trials) == 15 + 12
    assert all_different(trainer.asked)
    assert [trial.value for trial in best.trials] == sorted((each.value or 0 for each in best.trials), reverse=True)


def test_line_search_ends_with_a_round_that_changes_nothing(searcher: Searcher) -> None:
    trainer = Trainer(nearness(START))
    best = searcher(trainer, num_trials=100)
    assert best.changes == START
    assert len(trainer.asked) == 15
    for point in trainer.asked:
        assert sum(point[key] != START[key] for key in START) <= 1


def test_line_search_takes_the_best_of_the_trials_it_has(searcher: Searcher) -> None:
    trainer = Trainer(nearness(OPTIMUM))
    best = searcher(trainer, num_trials=4)
    assert [point["learning_rate"] for point in trainer.asked] == [1e-3, 1e-4, 1e-5, 1e-4]
    assert best.changes == {**START, "learning_rate": 1e-4}  # b_r was tried once, further away
    assert len(best.trials) == 4


def test_grid_search_tries_all(searcher: Searcher) -> None:
    few, all_, other = (Trainer(lambda point: point["learning_rate"]) for _ in range(3))
    best = searcher(few, "rerank-cf", strategy="grid", num_trials=5)
    assert len(few.asked) == len(best.trials) == 5
    best = searcher(all_, "rerank-cf", strategy="grid", num_trials=100)  # goes on
    assert len(all_.asked) == 4
    asked = few.asked + all_.asked
    assert len(best.trials) == 9
    assert all_different(asked)
    assert all(point in asked for point in points_of(grid_of("rerank-cf")))
    assert asked != points_of(grid_of("rerank-cf"))
    searcher(other, "rerank-cf", strategy="grid", num_trials=5, seed=1)
    assert other.asked != few.asked


def test_with_fewer_trials_the_first_count(searcher: Searcher) -> None:
    trainer = Trainer(nearness({"learning_rate": 1e-5, "weight_decay": 1e-4}))
    many = searcher(trainer, "rerank-cf", strategy="grid", num_trials=9)
    few = searcher(trainer, "rerank-cf", strategy="grid", num_trials=3)
    assert len(trainer.asked) == 9
    assert [trial.number for trial in sorted(few.trials, key=lambda each: each.number)] == [0, 1, 2]
    assert few.value == max(trial.value or -9 for trial in many.trials if trial.number < 3)


def test_tpe_searches_between_the_values_and_prunes_bad_trials(searcher: Searcher, tmp_path: Path) -> None:
    trainer = Trainer(nearness(CF_OPTIMUM))
    best = searcher(trainer, "rerank-cf", strategy="tpe", num_trials=12, seed=3)
    assert len(trainer.asked) == len(best.trials) == 12
    assert trainer.asked[0] == {"learning_rate": 1e-3, "weight_decay": 0.0}
    assert best.value > trainer.reward(trainer.asked[0])
    rates = [point["learning_rate"] for point in trainer.asked]
    assert all(1e-5 <= rate <= 1e-3 for rate in rates)
    assert len(set(rates)) == 12
    assert {point["weight_decay"] for point in trainer.asked} <= {1e-4, 1e-5, 0.0}

    trials = sorted(best.trials, key=lambda each: each.number)
    pruned = [trial for trial in trials if trial.state == "pruned"]
    assert pruned
    for trial, point, last_step in zip(trials, trainer.asked, trainer.last_step, strict=True):
        done = [each.value or 0 for each in trials[: trial.number] if each.state == "done"]
        is_bad = len(done) >= 5 and trainer.reward(point) < statistics.median(done)
        assert (trial.state == "pruned") == is_bad
        assert last_step == (1 if is_bad else 4)  # no trial is pruned in its first quarter
        assert (trial.value is None) == is_bad
    runs = [path for path in (tmp_path / "out" / "runs").iterdir() if path.is_dir()]
    assert len(runs) == 12 - len(pruned)
    assert all((run / "measurements.jsonl").is_file() for run in runs)


def test_nothing_is_pruned_offline(searcher: Searcher) -> None:
    trainer = Trainer(nearness(CF_OPTIMUM))
    best = searcher(trainer, "rerank-cf", strategy="tpe", num_trials=7, mode="offline", seed=3)
    assert {trial.state for trial in best.trials} == {"done"}


@pytest.mark.parametrize("strategy", ["line", "grid", "tpe"])
def test_an_interrupted_search_is_resumed(searcher: Searcher, strategy: Strategy) -> None:
    values = {"policy": "rerank-cf", "strategy": strategy, "num_trials": 7}
    whole, first, second, third = (Trainer(nearness(CF_OPTIMUM)) for _ in range(4))
    expected = searcher(whole, out="whole", **values)
    first.ends_at = 5
    with pytest.raises(KeyboardInterrupt):
        searcher(first, **values)
    best = searcher(second, **values)
    assert first.asked == whole.asked[:5]
    assert second.asked == whole.asked[4:]  # the one that was running, and the missing ones
    assert best == expected
    assert searcher(third, **values) == expected
    assert not third.asked


def test_a_trial_without_settings_does_not_count(searcher: Searcher, tmp_path: Path) -> None:
    trainer = Trainer(nearness(CF_OPTIMUM))
    searcher(trainer, "rerank-cf", strategy="tpe", num_trials=3)
    with open_storage(f"sqlite:///{tmp_path / 'out' / 'trials.db'}") as storage:
        (name,) = optuna.get_all_study_names(storage)
        optuna.load_study(study_name=name, storage=storage).ask()  # and killed before it suggests
    best = searcher(trainer, "rerank-cf", strategy="tpe", num_trials=5)
    assert len(trainer.asked) == len(best.trials) == 5
    assert sorted(trial.number for trial in best.trials) == [0, 1, 2, 4, 5]
    assert {trial.state for trial in best.trials} == {"done"}


def test_workers_may_be_interrupted(searcher: Searcher) -> None:
    trainer = Trainer(nearness(OPTIMUM))
    with pytest.raises(Interrupted):
        searcher(lambda *_: None, num_trials=3)
    assert len(searcher(trainer, num_trials=3).trials) == 3
    assert trainer.asked[0] == START


def test_a_failed_trial_does_not_end_the_search(searcher: Searcher) -> None:
    def reward(point: Point) -> float:
        if point["learning_rate"] == 1e-3:
            raise RunError("the loss is nan; lower learning_rate")
        return nearness(CF_OPTIMUM)(point)

    best = searcher(Trainer(reward), "rerank-cf", num_trials=100)
    assert best.changes == CF_OPTIMUM
    failed = [trial for trial in best.trials if trial.state == "failed"]
    assert [trial.failure for trial in failed] == ["the loss is nan; lower learning_rate"] * 2  # one in each round
    assert {trial.point["learning_rate"] for trial in failed} == {1e-3}
    assert best.trials[-2:] == tuple(failed)


def test_if_all_trials_fail_the_search_does_and_may_be_repeated(searcher: Searcher) -> None:
    def fail(point: Point) -> float:
        raise UserError(f"no users for {point['learning_rate']}")

    with pytest.raises(
        UserError, match="policy rerank-cf: all trials failed, the first one because: no users for 0.001"
    ):
        searcher(Trainer(fail), "rerank-cf")
    assert searcher(Trainer(lambda _: 1.0), "rerank-cf", num_trials=3).value == 1.0


def test_what_another_search_has_run_is_not_run_again(searcher: Searcher) -> None:
    line, grid = Trainer(nearness(CF_OPTIMUM)), Trainer(nearness(CF_OPTIMUM))
    found = searcher(line, "rerank-cf", num_trials=100)
    best = searcher(grid, "rerank-cf", strategy="grid", num_trials=100)
    assert len(line.asked) == len(found.trials) == 5 + 2
    assert len(grid.asked) == 9 - len(line.asked)
    assert len(best.trials) == 9
    assert all_different(line.asked + grid.asked)
    assert best.changes == found.changes == CF_OPTIMUM


def test_another_search_is_another_study(searcher: Searcher) -> None:
    trainer = Trainer(nearness(OPTIMUM))
    for values in ({}, {"seed": 1}, {"num_steps": 20}, {"changes": {"b_f": 0.1}}, {"num_batches": 3}):
        before = len(trainer.asked)
        assert len(searcher(trainer, num_trials=2, **values).trials) == 2
        assert len(trainer.asked) == before + 2
    assert trainer.asked[6]["b_f"] == 0.1


def test_a_search_elsewhere_or_by_other_code_is_another_study(
    searcher: Searcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(nearness(OPTIMUM))

    def num_tried() -> int:
        searcher(trainer, num_trials=2)
        shutil.rmtree(tmp_path / "out" / "runs", ignore_errors=True)  # only the study remembers
        return len(trainer.asked)

    assert [num_tried(), num_tried()] == [2, 2]
    monkeypatch.setattr(search_module, "CODE_VERSION", -1)
    assert [num_tried(), num_tried()] == [4, 4]
    monkeypatch.setattr(Nowhere, "identity", "elsewhere")
    assert num_tried() == 6


def test_paths_that_a_url_cannot_name_are_refused(searcher: Searcher, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="choose another --out"):
        searcher(Trainer(nearness(OPTIMUM)), out="what?")
    assert not (tmp_path / "what?").exists()


def test_other_values_from_another_start(searcher: Searcher) -> None:
    trainer = Trainer(lambda point: point["learning_rate"])
    rates = {"learning_rate": (0.1, 0.3, 0.2)}
    best = searcher(trainer, num_trials=4, values=rates, start={"learning_rate": 0.19, "b_f": 1.4, "b_z": 0.5})
    assert [each["learning_rate"] for each in trainer.asked] == [0.2, 0.1, 0.3, 0.3]
    assert [each["b_r"] for each in trainer.asked] == [0.3] * 4
    assert best.changes["b_z"] == 0.5
    assert [each["b_f"] for each in trainer.asked] == [
        1.5,
        1.5,
        1.5,
        0.1,
    ]  # what comes second, once the first is decided


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"b_q": (0.1,)}, "unknown key 'b_q'"),
        ({"learning_rate": (0.1, -1.0)}, "learning_rate: Input should be greater than 0, got -1"),
        ({"num_steps": (100.0, 200.0)}, "num_steps: not a decimal setting of policy gfn"),
        ({"b_r": (0.1, 0.3, 0.1)}, "b_r: write one value or more, each once"),
        ({"b_r": ()}, "b_r: write one value or more, each once"),
    ],
)
def test_a_wrong_value_is_reported_before_any_trial(
    searcher: Searcher, values: dict[str, tuple[float, ...]], line: str
) -> None:
    trainer = Trainer(lambda _: 1.0)
    with pytest.raises(UserError, match=line):
        searcher(trainer, values=values)
    assert not trainer.asked


def test_trials_of_another_machine_are_found_among_its_summaries(searcher: Searcher, tmp_path: Path) -> None:
    here, there = Trainer(nearness(OPTIMUM)), Trainer(nearness(OPTIMUM))
    found = searcher(here, num_trials=9, summaries=tmp_path / "summaries")
    assert len(here.asked) == 9
    assert searcher(there, num_trials=9, summaries=tmp_path / "summaries", out="elsewhere") == found
    assert not there.asked
    searcher(there, num_trials=12, summaries=tmp_path / "summaries", out="elsewhere")
    assert len(there.asked) == 3


def test_summaries_that_cannot_be_written_are_reported_before_any_trial(searcher: Searcher, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    trainer = Trainer(lambda _: 1.0)
    with pytest.raises(UserError, match="file: cannot be written"):
        searcher(trainer, summaries=tmp_path / "file")
    assert not trainer.asked
    assert not (tmp_path / "out").exists()


def test_all_policies_get_the_same_number_of_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(lambda point: point["learning_rate"])
    monkeypatch.setattr(trial_task, "execute", trainer)
    reports: list[tuple[str, int, int]] = []
    config = SearchConfig(strategy="tpe", num_trials=3, num_steps=2, changes={"warmup_steps": 0})
    where = (config, Lab(Nowhere(tmp_path, tmp_path), HereEngine()), tmp_path / "out")
    found = search_all(["cf", "boltzmann-cf", "gfn"], *where, report=lambda *parts: reports.append(parts))
    assert [len(best.trials) for best in found] == [3, 3, 3]
    assert len(trainer.asked) == 9
    assert read_tuned(tmp_path / "out" / "tuned.toml")["online"] == {
        best.policy: {"warmup_steps": 0, **best.changes} for best in found
    }
    assert reports[-1] == (f"gfn: 3 of 3 trials, best {found[-1].value:.4f}", 900, 900)
    one = (0, 100, 100, 200, 200, 300)
    assert [done for _, done, _ in reports] == [300 * index + done for index in range(3) for done in one]

    search_all(["list-cvae"], *where)
    assert list(read_tuned(tmp_path / "out" / "tuned.toml")["online"]) == ["cf", "boltzmann-cf", "gfn", "list-cvae"]
    offline = SearchConfig(strategy="tpe", num_trials=1, num_steps=2, mode="offline")
    search_all(["gfn"], offline, *where[1:])
    both = read_tuned(tmp_path / "out" / "tuned.toml")
    assert (list(both["offline"]), len(both["online"])) == (["gfn"], 4)
    trainer.asked.pop()
    with pytest.raises(UserError, match="policy random is not trained"):
        search_all(["rerank-cf", "random"], *where)
    assert len(trainer.asked) == 12  # a mistake is reported before any trial


def test_the_search_sets_the_steps_of_its_trials() -> None:
    for key in ("num_steps", "training.num_steps"):
        with pytest.raises(UserError, match="num_steps: a search sets the steps of its trials; use --steps"):
            check_search("gfn", SearchConfig(changes={key: 7}))


def test_a_wrong_database(tmp_path: Path) -> None:
    where = (SearchConfig(), Lab(Nowhere(tmp_path, tmp_path), HereEngine()), tmp_path)
    for url in ("trials", f"sqlite:///{tmp_path}/absent/trials.db", "nothing://host/trials", "sqlite:///{b}.db"):
        with pytest.raises(UserError, match="trials: the database cannot be opened"):
            search("rerank-cf", *where, storage=url)

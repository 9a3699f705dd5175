"""Known tasks are found, the others done; failures and interruptions lose nothing."""

import shutil
import time
from pathlib import Path

import pytest

from gfn4rec.errors import RunError
from gfn4rec.evaluation.frontier import FrontierPoint
from gfn4rec.experiments import campaign, tasks
from gfn4rec.experiments.campaign import Interrupted, Progress, Shelf, carry_out
from gfn4rec.experiments.engines import Event, Events, Tell
from gfn4rec.experiments.outcome import Outcome
from gfn4rec.experiments.tasks import JobTask, RulerTask
from gfn4rec.experiments.world import World
from tests.experiments.conftest import HereEngine, small_job


def made_up(task: JobTask, reward: float = 1.0) -> Outcome:
    """The outcome of a job that nobody ran."""
    return Outcome(
        key=task.key(),
        job=task.job,
        data="made up",
        simulator="none",
        step=12,
        seconds=1.5,
        figures={"greedy": {"reward": reward}},
    )


@pytest.fixture
def jobs(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[JobTask]:
    """Four jobs that end at once, with their seed as reward."""
    made = [JobTask(small_job(seed=seed), world, tmp_path / "runs") for seed in range(4)]

    def end(job: object, *_: object) -> Outcome:
        task = next(each for each in made if each.job is job)
        return made_up(task, task.job.settings.seed)

    monkeypatch.setattr(tasks, "execute", end)
    return made


def test_deleted_runs_are_made_again_and_no_others(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    shelf = Shelf(tmp_path / "runs")
    found = carry_out(jobs, shelf, engine).found
    assert [found[job.key()].figures["greedy"]["reward"] for job in jobs] == [0, 1, 2, 3]
    assert engine.items == jobs
    for job in jobs[:2]:
        shutil.rmtree(tmp_path / "runs" / job.key())
    engine.items.clear()
    assert carry_out(jobs, shelf, engine).found == found
    assert engine.items == jobs[:2]
    engine.items.clear()
    assert carry_out(jobs, shelf, engine).found == found
    assert engine.items == []


def test_a_job_that_two_tables_need_is_done_once(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    carry_out([*jobs, *jobs], Shelf(tmp_path / "runs"), engine)
    assert engine.items == jobs


def test_what_is_found_is_what_is_found_the_next_time(
    jobs: list[JobTask], tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "execute", lambda *_: made_up(jobs[0], 1 / 3))
    first = carry_out(jobs[:1], Shelf(tmp_path / "runs"), engine).found
    assert first == carry_out(jobs[:1], Shelf(tmp_path / "runs"), engine).found
    assert first[jobs[0].key()].figures["greedy"]["reward"] == 0.333333


def test_summaries_of_another_machine_are_enough(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    carry_out(jobs, Shelf(tmp_path / "runs", tmp_path / "summaries"), engine)
    engine.items.clear()
    carry_out(jobs, Shelf(tmp_path / "elsewhere", tmp_path / "summaries"), engine)
    assert engine.items == []


def test_failures_are_told_when_all_else_is_done(
    jobs: list[JobTask], tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = JobTask.perform

    def fail_second(task: JobTask, tell: Tell) -> Outcome | None:
        if task == jobs[1]:
            raise RunError("the loss is nan")
        return good(task, tell)

    monkeypatch.setattr(JobTask, "perform", fail_second)
    shelf, seen = Shelf(tmp_path / "runs"), list[Progress]()
    carried = carry_out(jobs, shelf, engine, seen.append)
    assert carried.failures == ("gfn online, seed 1 failed: the loss is nan",)
    assert set(carried.found) == {job.key() for job in jobs if job != jobs[1]}
    assert [each.ended for each in seen if each.ended][1] == carried.failures[0]
    assert seen[-1].num_done == 4
    assert [shelf.find(job) is not None for job in jobs] == [True, False, True, True]


def test_an_interruption_keeps_what_is_done(
    jobs: list[JobTask], tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = JobTask.perform
    monkeypatch.setattr(JobTask, "perform", lambda task, tell: None if task == jobs[2] else good(task, tell))
    shelf = Shelf(tmp_path / "runs")
    with pytest.raises(Interrupted):
        carry_out(jobs, shelf, engine)
    assert [shelf.find(job) is not None for job in jobs] == [True, True, False, False]


def test_progress_counts_what_is_known_and_what_is_done(
    jobs: list[JobTask], tmp_path: Path, engine: HereEngine
) -> None:
    seen: list[Progress] = []
    shelf = Shelf(tmp_path / "runs")
    carry_out(jobs[:1], shelf, engine)
    carry_out(jobs, shelf, engine, seen.append)
    assert (seen[0].num_known, seen[0].num_done, seen[0].num_tasks) == (1, 0, 3)
    ended = [(each.num_done, each.ended) for each in seen if each.ended]
    assert ended == [(1, "gfn online, seed 1"), (2, "gfn online, seed 2"), (3, "gfn online, seed 3")]
    assert seen[1].running == ("gfn online, seed 1",)
    assert seen[1].seconds_left is None
    assert seen[-1].seconds_left == 0
    assert seen[-1].running == ()


def test_the_ruler_is_measured_once(world: World, tmp_path: Path, engine: HereEngine) -> None:
    task, shelf = RulerTask(small_job(), world), Shelf(tmp_path / "runs", tmp_path / "summaries")
    found = carry_out([task], shelf, engine).found[task.key()]
    rewards = {(point["sampler"], point["temperature"]): point["reward"] for point in found}
    assert rewards["random", None] < rewards["boltzmann", 0.01] <= rewards["greedy, slate-aware", None] + 0.05
    engine.items.clear()
    assert carry_out([task], Shelf(tmp_path / "elsewhere", tmp_path / "summaries"), engine).found[task.key()] == found
    assert engine.items == []
    later = Shelf(tmp_path / "runs", tmp_path / "later")
    assert carry_out([task], later, engine).found[task.key()] == found
    assert [path.parent.name for path in tmp_path.glob("later/ruler-*.json")] == ["later"]
    assert engine.items == []
    for path in tmp_path.glob("*/ruler-*.json"):
        path.write_text("[{")
    assert carry_out([task], shelf, engine).found[task.key()] == found
    assert engine.items == [task]


def test_a_ruler_is_of_its_world_users_and_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        RulerTask(small_job(), world).key(),
        RulerTask(small_job(num_users=8), world).key(),
        RulerTask(small_job(rho=0.4), world).key(),
        RulerTask(small_job().model_copy(update={"num_batches": 3}), world).key(),
    }
    assert len(keys) == 4
    assert RulerTask(small_job("cf", seed=7), world).key() in keys
    assert RulerTask(small_job(rho=world.rho), world).key() in keys
    elsewhere = World(world.data_path, world.simulator_path)
    elsewhere.__dict__["identity"] = "elsewhere"
    assert RulerTask(small_job(), elsewhere).key() not in keys
    monkeypatch.setattr(tasks, "CODE_VERSION", -1)
    assert RulerTask(small_job(), world).key() not in keys


def test_the_ruler_is_measured_with_as_many_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def measure(_: object, num_batches: int, **__: object) -> list[FrontierPoint]:
        asked.append(num_batches)
        return []

    monkeypatch.setattr(tasks, "measure_frontier", measure)
    RulerTask(small_job().model_copy(update={"num_batches": 17}), world).perform(lambda *_: None)
    assert asked == [17]


def test_outcomes_that_are_known_go_to_the_summaries(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    carry_out(jobs, Shelf(tmp_path / "runs"), engine)
    carry_out(jobs, Shelf(tmp_path / "runs", tmp_path / "summaries"), engine)
    assert {path.stem for path in (tmp_path / "summaries").iterdir()} == {job.key() for job in jobs}


def test_an_engine_is_not_started_for_nothing(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    carry_out(jobs, Shelf(tmp_path / "runs"), engine)

    class Unwilling:
        def run(self, *_: object) -> Events:
            raise AssertionError
            yield

    carry_out(jobs, Shelf(tmp_path / "runs"), Unwilling())


def test_time_left_counts_what_is_done_now(jobs: list[JobTask], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = campaign._Clock(jobs[:2])
    clock.hear(Event(0, 1, 12))
    now[0] = 110.0
    clock.hear(Event(0, 7, 12))
    # Twelve steps with a batch of 32 and two looks of two batches each way are (12 * 1.25 + 8) / 2; then four batches
    # are measured, which are 2. Of two such jobs seven steps are done in ten seconds.
    step, job = 11.5 / 12, 13.5
    assert clock.seconds_left() == pytest.approx(10 * (2 * job - 7 * step) / (7 * step))
    clock.hear(Event(1, 7, 12))  # six of these were done before
    assert clock.seconds_left() == pytest.approx(10 * (2 * job - 14 * step) / (8 * step))
    clock.hear(Event(0, is_over=True))
    assert clock.seconds_left() == pytest.approx(10 * (job - 7 * step) / (job + step))

"""Known results are found, the others computed; failures and interruptions lose nothing."""

import json
import shutil
import time
from pathlib import Path

import pytest

from gfn4rec.errors import RunError
from gfn4rec.evaluation.frontier import FrontierPoint
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs import campaign, tasks
from gfn4rec.experiments.jobs.campaign import Interrupted, Progress, carry_out
from gfn4rec.experiments.jobs.engines import Event, Events, ReportProgress
from gfn4rec.experiments.jobs.result import JobResult
from gfn4rec.experiments.jobs.run_directories import find_run_directory
from gfn4rec.experiments.jobs.store import ResultStore
from gfn4rec.experiments.jobs.tasks import JobTask, OracleTask
from tests.experiments.conftest import HereEngine, small_job


def made_up(task: JobTask, reward: float = 1.0) -> JobResult:
    """The result of a job that nobody ran."""
    return JobResult(
        key=task.key(),
        job=task.job,
        data="made up",
        simulator="none",
        step=12,
        seconds=1.5,
        metrics={"greedy": {"reward": reward}},
    )


@pytest.fixture
def jobs(benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[JobTask]:
    """Four jobs that end at once, with their seed as reward."""
    made = [JobTask(small_job(seed=seed), benchmark, tmp_path / "runs") for seed in range(4)]

    def end(job: object, *_: object) -> JobResult:
        task = next(each for each in made if each.job is job)
        return made_up(task, task.job.settings.seed)

    monkeypatch.setattr(tasks, "execute", end)
    return made


def test_deleted_runs_are_made_again_and_no_others(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    store = ResultStore(tmp_path / "runs")
    results = carry_out(jobs, store, engine).jobs
    assert [results[job.key()].metrics["greedy"]["reward"] for job in jobs] == [0, 1, 2, 3]
    assert engine.items == jobs
    for job in jobs[:2]:
        directory = find_run_directory(job.job, job.benchmark, tmp_path / "runs")
        assert directory is not None
        shutil.rmtree(directory)
    engine.items.clear()
    assert carry_out(jobs, store, engine).jobs == results
    assert engine.items == jobs[:2]
    engine.items.clear()
    assert carry_out(jobs, store, engine).jobs == results
    assert engine.items == []


def test_a_job_that_two_tables_need_is_done_once(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    carry_out([*jobs, *jobs], ResultStore(tmp_path / "runs"), engine)
    assert engine.items == jobs


def test_what_is_found_is_what_is_found_the_next_time(
    jobs: list[JobTask], tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "execute", lambda *_: made_up(jobs[0], 1 / 3))
    first = carry_out(jobs[:1], ResultStore(tmp_path / "runs"), engine).jobs
    assert first == carry_out(jobs[:1], ResultStore(tmp_path / "runs"), engine).jobs
    assert first[jobs[0].key()].metrics["greedy"]["reward"] == 0.333333


def test_summaries_of_another_machine_are_enough(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    carry_out(jobs, ResultStore(tmp_path / "runs", tmp_path / "summaries"), engine)
    engine.items.clear()
    carry_out(jobs, ResultStore(tmp_path / "elsewhere", tmp_path / "summaries"), engine)
    assert engine.items == []


def test_a_failure_does_not_stop_the_others(
    jobs: list[JobTask], tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = JobTask.perform

    def fail_second(task: JobTask, report: ReportProgress) -> JobResult | None:
        if task == jobs[1]:
            raise RunError("the loss is nan")
        return good(task, report)

    monkeypatch.setattr(JobTask, "perform", fail_second)
    store, seen = ResultStore(tmp_path / "runs"), list[Progress]()
    results = carry_out(jobs, store, engine, seen.append)
    assert results.failures == ["gfn online, seed 1 failed: the loss is nan"]
    assert set(results.jobs) == {job.key() for job in jobs if job != jobs[1]}
    assert [each.ended for each in seen if each.ended][1] == results.failures[0]
    assert seen[-1].num_done == 4
    assert [store.find(job) is not None for job in jobs] == [True, False, True, True]


def test_an_interruption_keeps_what_is_done(
    jobs: list[JobTask], tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = JobTask.perform
    monkeypatch.setattr(JobTask, "perform", lambda task, report: None if task == jobs[2] else good(task, report))
    store = ResultStore(tmp_path / "runs")
    with pytest.raises(Interrupted):
        carry_out(jobs, store, engine)
    assert [store.find(job) is not None for job in jobs] == [True, True, False, False]


def test_progress_counts_what_is_known_and_what_is_done(
    jobs: list[JobTask], tmp_path: Path, engine: HereEngine
) -> None:
    seen: list[Progress] = []
    store = ResultStore(tmp_path / "runs")
    carry_out(jobs[:1], store, engine)
    carry_out(jobs, store, engine, seen.append)
    assert (seen[0].num_known, seen[0].num_done, seen[0].num_tasks) == (1, 0, 3)
    ended = [(each.num_done, each.ended) for each in seen if each.ended]
    assert ended == [(1, "gfn online, seed 1"), (2, "gfn online, seed 2"), (3, "gfn online, seed 3")]
    assert seen[1].running == ("gfn online, seed 1",)
    assert seen[1].seconds_left is None
    assert seen[-1].seconds_left == 0
    assert seen[-1].running == ()


def test_the_oracle_is_measured_once(benchmark: Benchmark, tmp_path: Path, engine: HereEngine) -> None:
    task, store = OracleTask(small_job(), benchmark), ResultStore(tmp_path / "runs", tmp_path / "summaries")
    oracle = carry_out([task], store, engine).oracles[task.key()]
    rewards = {(point.sampler, point.temperature): point.reward for point in oracle.points}
    assert rewards["random", None] < rewards["boltzmann", 0.01] <= rewards["greedy, slate-aware", None] + 0.05
    engine.items.clear()
    elsewhere = ResultStore(tmp_path / "elsewhere", tmp_path / "summaries")
    assert carry_out([task], elsewhere, engine).oracles == {task.key(): oracle}
    assert engine.items == []
    later = ResultStore(tmp_path / "runs", tmp_path / "later")
    assert carry_out([task], later, engine).oracles == {task.key(): oracle}
    assert len((tmp_path / "later" / "oracles.jsonl").read_text().splitlines()) == 1
    assert engine.items == []
    for path in tmp_path.glob("*/oracles.jsonl"):
        path.write_text("[{")
    assert carry_out([task], store, engine).oracles == {task.key(): oracle}
    assert engine.items == [task]


@pytest.mark.parametrize("place", ["runs", "summaries"])
def test_the_oracle_of_an_earlier_version_is_found(
    benchmark: Benchmark, tmp_path: Path, engine: HereEngine, place: str
) -> None:
    task = OracleTask(small_job(), benchmark)
    (tmp_path / place).mkdir()
    points = [FrontierPoint("random", None, 0.5, 0.1, 30.0, 0.9, 0.8, 0.0)]
    old = json.dumps([point.as_dict() for point in points])
    (tmp_path / place / f"ruler-{task.key()}.json").write_text(old)
    results = carry_out([task], ResultStore(tmp_path / "runs", tmp_path / "summaries"), engine)
    assert results.oracles[task.key()].points == tuple(points)
    assert engine.items == []
    assert len((tmp_path / "summaries" / "oracles.jsonl").read_text().splitlines()) == 1


def test_an_oracle_is_of_its_benchmark_users_and_batches(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        OracleTask(small_job(), benchmark).key(),
        OracleTask(small_job(num_users=8), benchmark).key(),
        OracleTask(small_job(rho=0.4), benchmark).key(),
        OracleTask(small_job().model_copy(update={"num_batches": 3}), benchmark).key(),
    }
    assert len(keys) == 4
    assert OracleTask(small_job("cf", seed=7), benchmark).key() in keys
    assert OracleTask(small_job(rho=benchmark.rho), benchmark).key() in keys
    elsewhere = Benchmark(benchmark.data_path, benchmark.simulator_path)
    elsewhere.__dict__["identity"] = "elsewhere"
    assert OracleTask(small_job(), elsewhere).key() not in keys
    monkeypatch.setattr(tasks, "CODE_VERSION", -1)
    assert OracleTask(small_job(), benchmark).key() not in keys


def test_the_oracle_is_measured_with_as_many_batches(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def measure(_: object, num_batches: int, **__: object) -> list[FrontierPoint]:
        asked.append(num_batches)
        return []

    monkeypatch.setattr(tasks, "measure_frontier", measure)
    OracleTask(small_job().model_copy(update={"num_batches": 17}), benchmark).perform(lambda *_: None)
    assert asked == [17]


def test_known_results_go_to_the_summaries(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    carry_out(jobs, ResultStore(tmp_path / "runs"), engine)
    carry_out(jobs, ResultStore(tmp_path / "runs", tmp_path / "summaries"), engine)
    lines = (tmp_path / "summaries" / "made-up.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == [job.key() for job in jobs]  # in the order of their seeds


def test_an_engine_is_not_started_for_nothing(jobs: list[JobTask], tmp_path: Path, engine: HereEngine) -> None:
    carry_out(jobs, ResultStore(tmp_path / "runs"), engine)

    class Unwilling:
        def run(self, *_: object) -> Events:
            raise AssertionError
            yield

    carry_out(jobs, ResultStore(tmp_path / "runs"), Unwilling())


def test_time_left_counts_what_is_done_now(jobs: list[JobTask], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = campaign._Clock(jobs[:2])
    clock.update(Event(0, 1, 12))
    now[0] = 110.0
    clock.update(Event(0, 7, 12))
    # Twelve steps with a batch of 32 and two looks of two batches each way are (12 * 1.25 + 8) / 2; then four batches
    # are measured, which are 2. Of two such jobs seven steps are done in ten seconds.
    step, job = 11.5 / 12, 13.5
    assert clock.seconds_left() == pytest.approx(10 * (2 * job - 7 * step) / (7 * step))
    clock.update(Event(1, 7, 12))  # six of these were done before
    assert clock.seconds_left() == pytest.approx(10 * (2 * job - 14 * step) / (8 * step))
    clock.update(Event(0, is_finished=True))
    assert clock.seconds_left() == pytest.approx(10 * (job - 7 * step) / (job + step))

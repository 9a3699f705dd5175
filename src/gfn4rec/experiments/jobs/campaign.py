"""Many tasks: known results are found, the others are computed, and nothing is computed twice."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.engines import Engine, Event
from gfn4rec.experiments.jobs.result import JobResult, OracleResult
from gfn4rec.experiments.jobs.store import ResultStore
from gfn4rec.experiments.jobs.tasks import JobTask, OracleTask, Task, perform
from gfn4rec.training.config import OnlineConfig


@dataclass(frozen=True)
class Lab:
    """What an experiment runs with."""

    benchmark: Benchmark
    engine: Engine
    device: str = "cpu"
    summaries: Path | None = None
    """A directory of results that several machines share; new ones are added."""

    def resolved(self) -> "Lab":
        """Return it with absolute paths, because workers may have another working directory."""
        summaries = None if self.summaries is None else self.summaries.resolve()
        return replace(self, benchmark=self.benchmark.resolved(), summaries=summaries)


@dataclass(frozen=True)
class Progress:
    """How far a campaign is."""

    num_known: int
    """Results that were found."""
    num_done: int
    num_tasks: int
    running: tuple[str, ...] = ()
    ended: str | None = None
    """The task that has just ended."""
    seconds_left: float | None = None


ReportCampaign: TypeAlias = Callable[[Progress], None]


class Interrupted(Exception):  # noqa: N818
    """The work was stopped on request, as by Ctrl-C. Results and checkpoints are saved; the same call resumes it."""


@dataclass(frozen=True)
class CampaignResults:
    """Results by key, and a line for each task that failed."""

    jobs: dict[str, JobResult] = field(default_factory=dict)
    oracles: dict[str, OracleResult] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def carry_out(
    tasks: Sequence[Task], store: ResultStore, engine: Engine, report: ReportCampaign = lambda _: None
) -> CampaignResults:
    """Compute what is not known yet, and what known results lack. A failure does not stop the other tasks."""
    results, by_key = CampaignResults(), {task.key(): task for task in tasks}
    missing = [task for task in by_key.values() if not _find(task, store, results)]
    clock, num_known, num_done = _Clock(missing), len(by_key) - len(missing), 0
    report(Progress(num_known, 0, len(missing)))
    with closing(engine.run(perform, missing)) as events:
        for event in events if missing else ():
            clock.update(event)
            ended = _keep(missing[event.index], event, store, results) if event.is_finished else None
            num_done += event.is_finished
            report(Progress(num_known, num_done, len(missing), clock.running(), ended, clock.seconds_left()))
    return results


def _find(task: Task, store: ResultStore, results: CampaignResults) -> bool:
    """Whether the result of a task is known, with all metrics that can be measured."""
    if isinstance(task, OracleTask):
        oracle = store.find_oracle(task)
        results.oracles.update({} if oracle is None else {oracle.key: oracle})
        return oracle is not None
    result = store.find(task)
    results.jobs.update({} if result is None else {result.key: result})
    return result is not None and not store.can_complete(task, result)


def _keep(task: Task, event: Event, store: ResultStore, results: CampaignResults) -> str:
    """Store the result of a task that has ended; return what to report."""
    if event.failure is not None:
        results.failures.append(f"{task.title} failed: {event.failure}")
        return results.failures[-1]
    if event.result is None:
        raise Interrupted
    if isinstance(task, JobTask):
        results.jobs[task.key()] = store.keep(task, event.result)
    else:
        results.oracles[task.key()] = store.keep_oracle(event.result)
    return task.title


class _Clock:
    """Estimates the time left from the share of the work that is done."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks, self._start = tasks, time.monotonic()
        work = [_work(task) for task in tasks]
        self._weights = [sum(parts) for parts in work]
        self._training = [training / (training + measuring) for training, measuring in work]
        self._share = [0.0] * len(tasks)
        self._first: dict[int, float] = {}  # shares that an interrupted command has done before
        self._is_running = [False] * len(tasks)
        self._detail = [""] * len(tasks)

    def update(self, event: Event) -> None:
        """Take note of a task that began, made progress or ended."""
        self._is_running[event.index] = not event.is_finished
        training = self._training[event.index]
        self._share[event.index] = (
            1.0 if event.is_finished else training * event.done / event.total if event.total else 0.0
        )
        if event.total:
            self._first.setdefault(event.index, training * (event.done - 1) / event.total)
        self._detail[event.index] = f" {event.done:,}/{event.total:,}" if event.total else ""

    def running(self) -> tuple[str, ...]:
        """Return the titles of running tasks, with their steps."""
        return tuple(
            task.title + detail
            for task, detail, is_running in zip(self._tasks, self._detail, self._is_running, strict=True)
            if is_running
        )

    def seconds_left(self) -> float | None:
        """Return the estimate: the rest takes as long, by its weight, as what was done."""
        before = sum(self._weights[index] * share for index, share in self._first.items())
        so_far = sum(weight * share for weight, share in zip(self._weights, self._share, strict=True))
        if so_far <= before:
            return None
        return (time.monotonic() - self._start) * (sum(self._weights) - so_far) / (so_far - before)


def _work(task: Task) -> tuple[float, float]:
    """Return the work of training, which reports its steps, and of measuring after it.

    The unit is a step with the paper's batch size. Half of it is recommending, as in a batch of a measurement.
    """
    job = task.job
    if isinstance(task, OracleTask):
        return 10.0 * job.num_batches, 0.0
    training = job.settings.training
    steps, evaluations = training.num_steps, 0
    if isinstance(training, OnlineConfig):
        evaluations = steps // training.evaluate_every * 2 * training.evaluation_batches
    measured = job.num_batches * (1 + len(job.temperatures))
    return float(steps * (1 + training.learning_batch / 128) + evaluations) / 2, measured / 2

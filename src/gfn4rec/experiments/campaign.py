"""Many tasks: what is known is found, the rest is done, and nothing is done twice."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gfn4rec.experiments.engines import Engine, Event
from gfn4rec.experiments.outcome import Outcome, OutcomeStore
from gfn4rec.experiments.tasks import JobTask, Ruler, RulerTask, Task, perform
from gfn4rec.storage import make_directory, write_whole


@dataclass(frozen=True)
class Progress:
    """How far a campaign is."""

    num_known: int
    """Found, not done now."""
    num_done: int
    num_tasks: int
    running: tuple[str, ...] = ()
    ended: str | None = None
    """The task that has just ended."""
    seconds_left: float | None = None


Watch: TypeAlias = Callable[[Progress], None]


class Interrupted(Exception):  # noqa: N818
    """Asked to end; what is at hand is saved."""


class Shelf:
    """Where outcomes and rulers are kept."""

    def __init__(self, runs: Path, summaries: Path | None = None) -> None:
        self.runs, self.summaries = runs, summaries
        self._outcomes = OutcomeStore(runs, summaries)

    def find(self, task: Task) -> Outcome | Ruler | None:
        """What was found before."""
        if isinstance(task, JobTask):
            return self._outcomes.find(task.key())
        paths = self._ruler_paths(task)
        for path in paths:
            with suppress(OSError, ValueError):  # one that is damaged is measured again
                points: Ruler = json.loads(path.read_text(encoding="utf-8"))
                return points if all(each.exists() for each in paths) else self.keep(task, points)
        return None

    def keep(self, task: Task, found: Outcome | Ruler) -> Outcome | Ruler:
        """For the next time; as it was written."""
        if isinstance(found, Outcome):
            return self._outcomes.keep(found)
        assert isinstance(task, RulerTask)
        for path in self._ruler_paths(task):
            make_directory(path.parent)
            write_whole(path, json.dumps(found, indent=1) + "\n")
        return found

    def _ruler_paths(self, task: RulerTask) -> list[Path]:
        folders = [self.runs] if self.summaries is None else [self.runs, self.summaries]
        return [folder / f"{task.key()}.json" for folder in folders]


@dataclass(frozen=True)
class Carried:
    """What was found, by key, and what could not be."""

    found: dict[str, Any]
    failures: tuple[str, ...]


def carry_out(tasks: Sequence[Task], shelf: Shelf, engine: Engine, watch: Watch = lambda _: None) -> Carried:
    """Do what is not known yet. A failure does not keep the others from being done."""
    by_key = {task.key(): task for task in tasks}
    found = {key: known for key, task in by_key.items() if (known := shelf.find(task)) is not None}
    missing = [task for key, task in by_key.items() if key not in found]
    clock, failures = _Clock(missing), list[str]()
    num_known = len(found)
    watch(Progress(num_known, 0, len(missing)))
    with closing(engine.run(perform, missing)) as events:
        for event in events if missing else ():
            task, ended = missing[event.index], None
            clock.hear(event)
            if event.is_over and event.failure is not None:
                ended = f"{task.title} failed: {event.failure}"
                failures.append(ended)
            elif event.is_over:
                if event.result is None:
                    raise Interrupted
                found[task.key()], ended = shelf.keep(task, event.result), task.title
            done = len(found) - num_known + len(failures)
            watch(Progress(num_known, done, len(missing), clock.running(), ended, clock.seconds_left()))
    return Carried(found, tuple(failures))


class _Clock:
    """Guesses the time left from the share of the work that is done."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks, self._start = tasks, time.monotonic()
        work = [_work(task) for task in tasks]
        self._weights = [sum(parts) for parts in work]
        self._learning = [learning / (learning + measuring) for learning, measuring in work]
        self._share = [0.0] * len(tasks)
        self._first: dict[int, float] = {}  # shares that were done before, by an interrupted command
        self._is_running = [False] * len(tasks)
        self._detail = [""] * len(tasks)

    def hear(self, event: Event) -> None:
        """Of a task that began, went on or ended."""
        self._is_running[event.index] = not event.is_over
        learning = self._learning[event.index]
        self._share[event.index] = 1.0 if event.is_over else learning * event.done / event.total if event.total else 0.0
        if event.total:
            self._first.setdefault(event.index, learning * (event.done - 1) / event.total)
        self._detail[event.index] = f" {event.done:,}/{event.total:,}" if event.total else ""

    def running(self) -> tuple[str, ...]:
        """Titles of what is being done, with how far it is."""
        return tuple(
            task.title + detail
            for task, detail, is_running in zip(self._tasks, self._detail, self._is_running, strict=True)
            if is_running
        )

    def seconds_left(self) -> float | None:
        """What is left takes as long, by its weight, as what is done took."""
        before = sum(self._weights[index] * share for index, share in self._first.items())
        so_far = sum(weight * share for weight, share in zip(self._weights, self._share, strict=True))
        if so_far <= before:
            return None
        return (time.monotonic() - self._start) * (sum(self._weights) - so_far) / (so_far - before)


def _work(task: Task) -> tuple[float, float]:
    """Of learning, which tells how far it is, and of measuring after it: in steps of the paper's batch.

    Half of such a step is showing slates, and so is a batch of a measurement.
    """
    job, training = task.job, task.job.settings.training
    if isinstance(task, RulerTask):
        return 10.0 * job.num_batches, 0.0
    steps, looks = training["num_steps"], 0
    if job.settings.kind == "online":
        looks = steps // training["evaluate_every"] * 2 * training["evaluation_batches"]
    measured = job.num_batches * (1 + len(job.temperatures))
    return float(steps * (1 + training["learning_batch"] / 128) + looks) / 2, measured / 2

"""Progress of long work on standard error: a bar on a terminal, and a line every 15 seconds anywhere else."""

import contextlib
import math
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text
from typing_extensions import override

LINE_SECONDS = 15.0
_FETCHING = "fetching"
Clock = Callable[[], float]


@contextlib.contextmanager
def reporter(
    stage: str, every: float | None = None, clock: Clock = time.monotonic, stream: TextIO | None = None
) -> Iterator["Reporter"]:
    """Report the progress of a block, which calls `advance` of the reporter it is given.

    A terminal shows a bar, which vanishes when the block ends. Elsewhere, `every` so many seconds (by default
    `LINE_SECONDS`) a line is printed; work that takes less time prints nothing. Of the processes that torchrun starts,
    only the first reports.

        with reporter("opening the data set") as progress:
            for step in range(1, 1001):
                progress.advance("training", step, 1000, f"loss {learn():.3f}")
    """
    console = Console(file=stream, stderr=True)
    is_first = os.environ.get("RANK", "0") == "0"
    if not console.is_terminal or not is_first:
        seconds = LINE_SECONDS if every is None else every
        yield LineReporter(stage, seconds if is_first else math.inf, clock, stream)
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        _DownloadColumnWhenFetching(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        yield BarReporter(stage, bar, clock)


class Reporter(ABC):
    """Shows what a long piece of work is doing."""

    def __init__(self, stage: str, clock: Clock) -> None:
        self._clock = clock
        self.stage(stage)

    def stage(self, title: str) -> None:
        """Begin a stage whose length is unknown."""
        self._title, self._pace = title, Pace(self._clock)
        self._update(title, None, None)

    def advance(self, title: str, done: int, total: int, detail: str = "") -> None:
        """Report that so many steps of a stage are done; `detail` is what changes with them, such as the loss."""
        if title != self._title:
            self._title, self._pace = title, Pace(self._clock)
        text = f"{title}: {done:,} of {total:,}{detail and ', '}{detail}"
        self._update(text + time_left(self._pace.seconds_left(done, total)), done, total)

    def training(self, num_steps: int, title: str = "training") -> Callable[[int, Mapping[str, object]], None]:
        """Return a callback for a training loop, which reports its step with the reward and the loss.

        `num_steps` among the metrics replaces the number given here.
        """

        def report(step: int, metrics: Mapping[str, object]) -> None:
            parts = [f"{name} {metrics[name]:.3f}" for name in ("reward", "loss") if name in metrics]
            total = metrics.get("num_steps", num_steps)
            assert isinstance(total, int)
            self.advance(title, step, total, ", ".join(parts))

        return report

    def show(self, text: str, done: int, total: int) -> None:
        """Show a text as it is, for work that words its own progress."""
        self._update(text, done, total)

    @abstractmethod
    def downloaded(self, num_bytes: int, total: int | None) -> None:
        """Report how much of a file has been fetched."""

    @abstractmethod
    def _update(self, text: str, done: int | None, total: int | None) -> None: ...


class LineReporter(Reporter):
    """Prints a line if the last one, or the beginning, is some seconds ago."""

    def __init__(self, stage: str, every: float, clock: Clock, stream: TextIO | None = None) -> None:
        self._every, self._stream, self._next_line = every, stream, clock() + every
        super().__init__(stage, clock)

    def downloaded(self, num_bytes: int, total: int | None) -> None:
        """Report how much of a file has been fetched, in megabytes."""
        of_total = "" if total is None else f" of {total / 1e6:,.0f}"
        self._update(f"{_FETCHING}: {num_bytes / 1e6:,.0f}{of_total} MB", num_bytes, total)

    @override
    def _update(self, text: str, done: int | None, total: int | None) -> None:
        now = self._clock()
        if now >= self._next_line:
            print(f"gfn4rec: {text}", file=self._stream or sys.stderr, flush=True)
            self._next_line = now + self._every


class BarReporter(Reporter):
    """Moves a bar on a terminal."""

    def __init__(self, stage: str, bar: Progress, clock: Clock) -> None:
        self._bar, self._task = bar, bar.add_task(stage, total=None)
        super().__init__(stage, clock)

    def downloaded(self, num_bytes: int, total: int | None) -> None:
        """Report how much of a file has been fetched."""
        self._update(_FETCHING, num_bytes, total)

    def _update(self, text: str, done: int | None, total: int | None) -> None:
        self._bar.update(self._task, description=text, completed=done, total=total)


class Pace:
    """Estimates the time left from the steps since the first call: those done before it took no time."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, int] | None = None

    def seconds_left(self, done: int, total: int) -> float | None:
        """Return the estimate, or None while there is nothing to base it on."""
        now = self._clock()
        if self._first is None:
            self._first = now, done
        start, before = self._first
        return (now - start) * (total - done) / (done - before) if done > before else None


def time_left(seconds: float | None) -> str:
    """Return the end of a sentence about the time left; it is empty if the time is unknown."""
    if seconds is None:
        return ""
    if seconds < 100:
        return f", about {seconds:.0f} s left"
    return f", about {seconds / 60:.0f} min left" if seconds < 6000 else f", about {seconds / 3600:.1f} hours left"


class _DownloadColumnWhenFetching(DownloadColumn):
    """A column of bytes, empty where other things are counted."""

    def render(self, task: Task) -> Text:
        """Return the bytes fetched so far."""
        return super().render(task) if task.description == _FETCHING else Text()

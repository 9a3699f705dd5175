"""The metrics of a run, written while it trains: `metrics.jsonl` and, if wanted, TensorBoard events."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from gfn4rec.errors import UserError
from gfn4rec.storage import write_whole

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

MetricsLine: TypeAlias = dict[str, float | dict[str, float]]
"""Metrics of a step, or of an evaluation by how its slates were drawn; a line of `metrics.jsonl` has `step` too."""
FILE = "metrics.jsonl"
FLUSH_SECONDS = 2.0


def read_metrics(directory: Path) -> list[MetricsLine]:
    """Return the lines of `metrics.jsonl`, without a last one that was cut off while it was written."""
    path = directory / FILE
    *lines, _ = path.read_bytes().split(b"\n") if path.is_file() else [b""]
    return [_parse_line(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def _parse_line(text: bytes, where: str) -> MetricsLine:
    try:
        line: MetricsLine = json.loads(text)
        step_of(line)
    except (ValueError, LookupError, TypeError):
        raise UserError(f"{where}: damaged; delete the line") from None
    return line


def forget_metrics(directory: Path, after: int) -> None:
    """Drop the lines of steps that will be recomputed."""
    kept = [line for line in read_metrics(directory) if step_of(line) <= after]
    write_whole(directory / FILE, "".join(json.dumps(line) + "\n" for line in kept))


def step_of(line: MetricsLine) -> int:
    """Return the step that a line is of."""
    step = line["step"]
    if isinstance(step, dict):
        raise TypeError("a step is a number")
    return int(step)


class MetricsWriter:
    """Appends lines to the metrics of a run, a few seconds after they are given at the latest.

    A killed process leaves lines of steps after its last checkpoint; they are dropped when the run is resumed, and so
    are TensorBoard events from `first_step` on.
    """

    def __init__(
        self,
        directory: Path,
        first_step: int = 0,
        tensorboard: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory, self._clock = directory, clock
        self._lines: list[MetricsLine] = []
        self._last_flush = clock()
        self._events = _open_events(directory, first_step) if tensorboard else None

    def write(self, step: int, values: MetricsLine) -> None:
        """Add a line."""
        self._lines.append({"step": step, **values})
        if self._clock() - self._last_flush >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the lines that are still in memory."""
        lines, self._lines, self._last_flush = self._lines, [], self._clock()
        if not lines:
            return
        try:
            with (self._directory / FILE).open("a", encoding="utf-8") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))
            if self._events is not None:
                _add_events(self._events, lines)
        except OSError as error:
            problem = f"{self._directory}: writing failed ({error.strerror}); the last checkpoint is kept"
            raise UserError(problem) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, UserError):  # which may be about the very file
            self.flush()
        if self._events is not None:
            self._events.close()


def require_tensorboard() -> None:
    """Raise a `UserError` where the package is not installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise UserError("tensorboard is not installed; pip install 'gfn4rec[tensorboard]', or leave it off") from None


def _open_events(directory: Path, first_step: int) -> "SummaryWriter":
    require_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(directory / "tensorboard"), purge_step=first_step)


def _add_events(events: "SummaryWriter", lines: Sequence[MetricsLine]) -> None:
    """Add lines as scalars; those of evaluations by their names, as `greedy/reward`."""
    for line in lines:
        for tag, value in _scalars(line):
            if tag not in ("step", "seconds"):
                events.add_scalar(tag, value, step_of(line))
    events.flush()


def _scalars(line: MetricsLine) -> Iterator[tuple[str, float]]:
    for name, value in line.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{key}", number) for key, number in value.items())
        else:
            yield name, value

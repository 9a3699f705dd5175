"""What every command prints with: results on standard output, progress and errors on standard error."""

import contextlib
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from gfn4rec.errors import UserError

INTERRUPTED = 130  # exit code
_ANY_WIDTH = 10_000
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")]


def out() -> Console:
    """The console for results. What it prints is data: brackets in it are brackets, not markup.

    A table is as wide as a terminal at most, and as wide as it likes in a file or a pipe.
    """
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if not console.is_terminal:
        console.width = _ANY_WIDTH
    return console


def print_json(value: dict[str, Any]) -> None:
    """The whole answer as one JSON object."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_error(message: str) -> int:
    """One line on standard error; the exit code of a user's mistake. An empty message was help, printed already."""
    if message:
        typer.echo(f"gfn4rec: {' '.join(message.split())}", err=True)
    return 2


def tell(note: str) -> None:
    """A note on standard error; the work goes on."""
    typer.echo(f"gfn4rec: {note}", err=True)


def time_left(seconds: float | None) -> str:
    """As words to go on with; none if it cannot be guessed."""
    if seconds is None:
        return ""
    if seconds < 100:
        return f", about {seconds:.0f} s left"
    return f", about {seconds / 60:.0f} min left" if seconds < 6000 else f", about {seconds / 3600:.1f} hours left"


class Pace:
    """Guesses the time left from what was done since the first look: what was known before took no time."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def seconds_left(self, done: int, total: int) -> float | None:
        """None before there is anything to guess from."""
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
        start, before = self._first
        return (now - start) * (total - done) / (done - before) if done > before else None


class Work:
    """What a long command is doing, shown while it lasts."""

    def __init__(self, progress: Progress, first_stage: str) -> None:
        self._progress = progress
        self._task = progress.add_task(first_stage, total=None)

    def stage(self, name: str) -> None:
        """A new stage begins."""
        self._progress.update(self._task, description=name, total=None)

    def advance(self, name: str, done: int, total: int) -> None:
        """So many steps of a stage are done."""
        self._progress.update(self._task, description=name, completed=done, total=total)

    def downloaded(self, num_bytes: int, total: int | None) -> None:
        """So much has been fetched."""
        self._progress.update(self._task, description="fetching", completed=num_bytes, total=total)


class _DownloadColumnWhenFetching(DownloadColumn):
    """Bytes make sense only where bytes are counted."""

    def render(self, task: Any) -> Any:
        return super().render(task) if task.description == "fetching" else ""


@contextlib.contextmanager
def working(first_stage: str) -> Iterator[Work]:
    """Show progress on a terminal while the block runs; it vanishes when the block ends."""
    console = Console(stderr=True)
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        _DownloadColumnWhenFetching(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        yield Work(progress, first_stage)


def table(*columns: str) -> Table:
    """A table in the one style we use."""
    made = Table(header_style="bold", box=None, pad_edge=False, show_header=any(columns))
    for column in columns:
        made.add_column(column, overflow="fold")  # no figure is cut
    return made


def check_plot(path: Path | None) -> None:
    """What is wrong with the place of a plot is told before any work."""
    if path is not None and path.suffix.lower() != ".png":
        raise UserError(f"--plot {path}: plots are PNG files; write a name that ends in .png")
    check_folder("--plot", path)


def check_folder(option: str, path: Path | None) -> None:
    """A file that will be written needs a folder, and that is told before any work, too."""
    if path is not None and not path.parent.is_dir():
        raise UserError(f"{option} {path}: there is no folder {path.parent}")


def parse_numbers(option: str, text: str) -> list[float]:
    """Numbers greater than 0, separated by commas."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} {text}: write numbers separated by commas") from None
    if not all(0 < number < math.inf for number in numbers):
        raise UserError(f"{option} {text}: numbers are greater than 0, and finite")
    return numbers

"""How commands print: results on standard output, progress and errors on standard error."""

import json
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gfn4rec.errors import UserError
from gfn4rec.progress import Reporter, reporter

INTERRUPTED = 130  # exit code
_ANY_WIDTH = 10_000
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")]


def out() -> Console:
    """Return the console for results, which prints brackets as they are, not as markup.

    Tables fit the width of a terminal; in a file or a pipe they are as wide as their content.
    """
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if not console.is_terminal:
        console.width = _ANY_WIDTH
    return console


def print_json(value: Mapping[str, object]) -> None:
    """Print the whole result as one JSON object."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_error(message: str) -> int:
    """Print a user's mistake as one line, or nothing if the message is empty (help was printed); return exit code 2."""
    if message:
        typer.echo(f"gfn4rec: {' '.join(message.split())}", err=True)
    return 2


def tell(note: str) -> None:
    """Print a note on standard error."""
    typer.echo(f"gfn4rec: {note}", err=True)


def working(first_stage: str) -> AbstractContextManager[Reporter]:
    """Report progress on standard error while the block runs."""
    return reporter(first_stage)


def table(*columns: str) -> Table:
    """Return an empty table in the style of all commands."""
    empty = Table(header_style="bold", box=None, pad_edge=False, show_header=any(columns))
    for column in columns:
        empty.add_column(column, overflow="fold")  # numbers are wrapped, never cut
    return empty


def check_plot(path: Path | None) -> None:
    """Refuse a plot that cannot be written, before any work is done."""
    if path is not None and path.suffix.lower() != ".png":
        raise UserError(f"--plot {path}: plots are PNG files; write a name that ends in .png")
    check_folder("--plot", path)


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a file whose folder does not exist, before any work is done."""
    if path is not None and not path.parent.is_dir():
        raise UserError(f"{option} {path}: there is no folder {path.parent}; create it, or choose another place")


def parse_numbers(option: str, text: str, with_zero: bool = False) -> list[float]:
    """Parse numbers greater than 0, or of at least 0, separated by commas."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} {text}: write numbers separated by commas") from None
    if not all(0 < number < math.inf or (with_zero and number == 0) for number in numbers):
        raise UserError(f"{option} {text}: write finite numbers {'of at least 0' if with_zero else 'greater than 0'}")
    return numbers

"""`gfn4rec data inspect`: what a log file holds, and the command that prepares it."""

from pathlib import Path
from typing import Annotated

import typer

from gfn4rec.cli.output import JsonOption, out, print_json, table, working
from gfn4rec.data.inspection import Inspection, inspect_log
from gfn4rec.data.readers.layout import FileLayout

_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", " ": "spaces"}
_FORMATS = {"parquet": "Parquet", "jsonl": "JSON lines", "excel": "Excel"}


def inspect_command(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A log: text, Excel, Parquet or JSON lines; .gz and .zip, too.")
    ],
    separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help=r"Separator of columns in text files; \t is a tab.", show_default="guessed"),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of text files.", show_default="guessed")
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The file has no header line.", show_default="guessed")
    ] = False,
    sheet: Annotated[str | None, typer.Option(metavar="NAME", help="Sheet of an Excel file with several.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Look at your own log before `data prepare`: its columns, what they seem to be, what will go wrong.

    Prints the `data prepare` command to use. At most the first 100,000 rows are read.
    """
    options = {"separator": separator, "encoding": encoding, "sheet": sheet, "has_header": False if no_header else None}
    given = {key: value for key, value in options.items() if value is not None}
    with working(f"reading {path}"):
        found = inspect_log(path, FileLayout.parse(given, str(path)))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _print(found)


def _print(found: Inspection) -> None:
    console = out()
    console.print(f"{found.file}: {_layout(found)}")
    console.print(
        f"{found.num_rows:,} rows, the whole file"
        if found.is_whole
        else f"Only the first {found.num_rows:,} rows were read; all that follows is about these."
    )
    columns = table("column", "type", "distinct", "empty", "role", "examples")
    for column in found.columns:
        empty, examples = f"{column.share_empty:.1%}" if column.share_empty else "", ", ".join(column.examples)
        columns.add_row(column.name, column.type, f"{column.distinct:,}", empty, column.role or "-", examples)
    console.print()
    console.print(columns)
    if found.behaviours:
        behaviours = table("behaviour", "response", "weight", "rows")
        for each in found.behaviours:
            rate = "?" if each.rate is None else f"{each.rate:.2%}"
            behaviours.add_row(each.name, each.response, f"{each.weight:g}", rate)
        console.print()
        console.print(behaviours)
    if found.sizes is not None:
        console.print(f"\n{_sizes(found)}")
    for title, lines in (("Missing", found.missing), ("Problem", found.problems), ("Warning", found.warnings)):
        for line in lines:
            console.print(f"\n{title}: {line}.")
    console.print(f"\n{_introduction(found)}\n", style="bold")
    console.print(found.command)


def _layout(found: Inspection) -> str:
    """Return the recognised format in words."""
    header = "with a header line" if found.has_header else "without header line"
    if found.format == "text":
        separator = _SEPARATORS.get(found.separator or "", repr(found.separator))
        return f"text separated by {separator}, {found.encoding}, {header}"
    if found.format == "excel":
        return f"Excel, {'its only sheet' if found.sheet is None else f'sheet {found.sheet}'}, {header}"
    return _FORMATS[found.format]


def _sizes(found: Inspection) -> str:
    sizes = found.sizes
    if sizes is None:
        return ""
    start, size = f"{sizes.users:,} users, {sizes.items:,} items;", sizes.slate_size
    if sizes.has_slates:
        return (
            f"{start} {sizes.users_with_slate:,} users have a slate of at least {size} items, "
            f"{sizes.users_with_split:,} at least 3 (train, val, test)"
        )
    return (
        f"{start} {sizes.users_with_slate:,} users have at least {size} rows (a slate), "
        f"{sizes.users_with_split:,} at least {3 * size} (train, val and test slate)"
    )


def _introduction(found: Inspection) -> str:
    if found.missing:
        return "Fill in what is missing:"
    return "Once the problem is solved, prepare the log with:" if found.problems else "Prepare the log with:"

"""Raw tables -> typed polars columns, or one line that says what is wrong and where.

The fast path parses with polars alone. Text with quotation marks in a layout of unknown origin goes through the csv
module, which takes them as people mean them. When parsing fails or leaves a hole, the file is walked through line by
line to name the place.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import polars as pl

from gfn4rec.config import nearest
from gfn4rec.data.table_file import TableFile
from gfn4rec.data.values import parse_flags, parse_ids, parse_numbers, parse_times
from gfn4rec.errors import UserError

ColumnKind = Literal["id", "integer", "number", "flag", "time", "text"]
"""What a column holds. `id`: integers if all of them are, else strings. `time`: numbers, or dates and times."""

Kinds = Mapping[str, ColumnKind]

_TEXT_PARSED_AS: Mapping[ColumnKind, pl.DataType] = {
    "id": pl.String(),
    "integer": pl.Int64(),
    "number": pl.Float64(),
    "flag": pl.Float32(),  # not an integer: exported flags often read 1.0
    "time": pl.String(),
    "text": pl.String(),
}
_UNIT_SEPARATOR = "\x1f"  # stands in for separators of several characters, which polars does not take


def read_table(file: TableFile, kinds: Kinds) -> pl.DataFrame:
    """Read the named columns, typed by their kind. Empty values become null."""
    if file.format == "text" and not file.is_published and file.has_quotes():
        return _typed_text(file, _read_quoted(file, kinds), kinds)
    try:
        table = scan_table(file, kinds).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        if file.format != "text":
            raise _diagnose(file, error) from error
        _refuse_broken_lines(file)
        table = _as_text(file, kinds, error)
    if file.format == "text" and any(table[name].has_nulls() for name in kinds):
        _refuse_broken_lines(file)
        is_blank = table.select(pl.all_horizontal(pl.all().is_null())).to_series()
        table = table.head(table.height - int(is_blank.reverse().cum_min().sum()))  # blank lines at the end
    return _typed_text(file, table, kinds)


def scan_table(file: TableFile, kinds: Kinds, as_text: bool = False) -> pl.LazyFrame:
    """The named columns, lazily; in a text file, ids and times are still strings."""
    try:
        available = file.column_names()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _diagnose(file, error) from error
    _check_columns(file, available, kinds)
    if file.format == "parquet":
        return pl.scan_parquet(file.path, glob=False).select(*kinds)
    if file.format == "jsonl":
        return pl.scan_ndjson(file.content(), infer_schema_length=None).select(*kinds)
    file.refuse_broken_tail()
    schema: dict[str, pl.DataType] = {}
    for name in available:  # names that nobody asks for may repeat, or be missing
        unique = name if name not in schema else f"{name}{_UNIT_SEPARATOR}{len(schema)}"
        schema[unique] = pl.String() if as_text else _TEXT_PARSED_AS[kinds.get(name, "text")]
    return pl.scan_csv(
        _text_source(file),
        separator=file.separator if len(file.separator) == 1 else _UNIT_SEPARATOR,
        quote_char='"' if file.is_published and file.is_quoted else None,
        has_header=False,
        skip_lines=file.first_line - 1,
        schema=schema,
        glob=False,
    ).select(*kinds)


def _check_columns(file: TableFile, available: list[str], kinds: Kinds) -> None:
    for name in kinds:
        if name not in available:
            only = "; if columns are apart by another sign, name it with --separator" if len(available) == 1 else ""
            raise UserError(f"{file.path}: no column {name!r}; {nearest(name, available)}{only}")
        if available.count(name) > 1:
            raise UserError(f"{file.path}: {available.count(name)} columns are called {name!r}; rename one of them")


def _text_source(file: TableFile) -> Path | bytes:
    """The path itself where polars can read it as it is, else its text in UTF-8 with a one-byte separator."""
    if len(file.separator) == 1:
        return file.path if file.is_utf8 else file.content()
    return file.content().replace(file.separator.encode(), _UNIT_SEPARATOR.encode())


def _as_text(file: TableFile, kinds: Kinds, error: Exception) -> pl.DataFrame:
    """The columns unparsed, when parsing them failed: what is wrong with them is found later, value by value."""
    try:
        return scan_table(file, kinds, as_text=True).collect()
    except (pl.exceptions.PolarsError, OSError):
        for _ in file.lines():  # names a line in another encoding
            pass
        raise _diagnose(file, error) from error


def _read_quoted(file: TableFile, kinds: Kinds) -> pl.DataFrame:
    """The columns unparsed, by the csv module."""
    available = file.column_names()
    _check_columns(file, available, kinds)
    positions = [available.index(name) for name in kinds]
    columns: list[list[str | None]] = [[] for _ in kinds]
    for number, fields in enumerate(file.records(), start=1):
        if number < file.first_line or not any(fields):
            continue
        _refuse_wrong_length(file, number, fields, len(available))
        for column, position in zip(columns, positions, strict=True):
            column.append(fields[position] or None)
    return pl.DataFrame(dict(zip(kinds, columns, strict=True)), schema=dict.fromkeys(kinds, pl.String))


def _typed_text(file: TableFile, table: pl.DataFrame, kinds: Kinds) -> pl.DataFrame:
    """Every column as its kind says, from text or from a file that has types of its own."""
    return table.with_columns(_typed(file, table[name], kind) for name, kind in kinds.items())


def _typed(file: TableFile, column: pl.Series, kind: ColumnKind) -> pl.Series:
    if kind == "id":
        return parse_ids(column)
    if kind == "time":
        return parse_times(file, column)
    if kind == "text":
        return column.cast(pl.List(pl.String) if isinstance(column.dtype, pl.List) else pl.String)
    if column.dtype == pl.String:
        return parse_flags(file, column) if kind == "flag" else parse_numbers(file, column)
    if kind == "flag" and column.dtype == pl.Boolean:
        return column
    if not (column.dtype.is_numeric() or column.dtype == pl.Null):
        raise UserError(f"{file.path}: column {column.name!r} holds {column.dtype}, not numbers")
    return column.cast(pl.Float64) if kind == "number" else column


def _diagnose(file: TableFile, error: Exception) -> UserError:
    """Why a file did not parse at all."""
    reason = str(error).splitlines()[0]
    if file.format == "parquet":
        return UserError(f"{file.path}: not a readable Parquet file, perhaps cut off ({reason})")
    if file.format == "jsonl":
        for number, line in enumerate(file.lines(), start=1):
            try:
                is_object = not line.strip() or isinstance(json.loads(line), dict)
            except json.JSONDecodeError:
                is_object = False
            if not is_object:
                return UserError(
                    f"{file.path} line {number}: not a JSON object; the line is broken or the file is cut off"
                )
    return UserError(f"{file.path}: cannot be read ({reason})")


def _refuse_broken_lines(file: TableFile) -> None:
    """An error at the first line with too few or too many fields."""
    num_columns = len(file.column_names())
    for number, fields in enumerate(file.records(), start=1):
        if any(fields):
            _refuse_wrong_length(file, number, fields, num_columns)


def _refuse_wrong_length(file: TableFile, number: int, fields: list[str], num_columns: int) -> None:
    if len(fields) != num_columns:
        raise UserError(
            f"{file.path} line {number}: {len(fields)} fields where {num_columns} are expected; "
            "the line is broken or the file is cut off"
        )

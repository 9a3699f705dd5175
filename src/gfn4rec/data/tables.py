"""Raw tables -> typed polars columns, or one line that says what is wrong and where.

The fast path parses with polars alone. Only when that fails, or leaves a hole, is the file walked through line by line
to name the place.
"""

import codecs
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import polars as pl

from gfn4rec.config import nearest
from gfn4rec.data.table_file import TableFile
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
_NUMERIC_KINDS = ("integer", "number", "flag")
_UNIT_SEPARATOR = "\x1f"  # stands in for separators of several characters, which polars does not take


def read_table(file: TableFile, kinds: Kinds) -> pl.DataFrame:
    """Read the named columns, typed by their kind. Empty values become null."""
    try:
        table = scan_table(file, kinds).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _diagnose(file, kinds, error) from error
    if file.format == "text" and any(table[name].has_nulls() for name in kinds):
        _refuse_broken_lines(file)
        is_blank = table.select(pl.all_horizontal(pl.all().is_null())).to_series()
        table = table.head(table.height - int(is_blank.reverse().cum_min().sum()))  # blank lines at the end
    parsed = [_parse_text(file, table[name], kind) for name, kind in kinds.items()]
    return table.with_columns(parsed)


def scan_table(file: TableFile, kinds: Kinds) -> pl.LazyFrame:
    """The named columns, lazily; in a text file, ids and times are still strings."""
    try:
        available = file.column_names()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _diagnose(file, {}, error) from error
    for name in kinds:
        if name not in available:
            raise UserError(f"{file.path}: no column {name!r}; {nearest(name, available)}")
    if file.format != "text":
        scan = pl.scan_parquet(file.path) if file.format == "parquet" else pl.scan_ndjson(file.path)
        schema = scan.collect_schema()
        return scan.select(_cast(name, schema[name], kind) for name, kind in kinds.items())
    file.refuse_broken_tail()
    return pl.scan_csv(
        _text_source(file),
        separator=file.separator if len(file.separator) == 1 else _UNIT_SEPARATOR,
        quote_char='"' if file.separator == "," else None,
        has_header=file.columns is None,
        schema={name: _TEXT_PARSED_AS[kinds.get(name, "text")] for name in available},
    ).select(*kinds)


def _cast(name: str, dtype: pl.DataType, kind: ColumnKind) -> pl.Expr:
    """A column of a file that has types of its own."""
    if kind == "number":
        return pl.col(name).cast(pl.Float64)
    if kind == "text":
        return pl.col(name).cast(pl.List(pl.String) if isinstance(dtype, pl.List) else pl.String)
    return pl.col(name)


def _text_source(file: TableFile) -> Path | bytes:
    """The path itself where polars can read it as it is, else its text in UTF-8 with a one-byte separator."""
    is_utf8 = codecs.lookup(file.encoding).name in ("utf-8", "ascii")
    if is_utf8 and len(file.separator) == 1:
        return file.path
    content = file.path.read_bytes() if is_utf8 else "".join(file.lines()).encode()
    return content.replace(file.separator.encode(), _UNIT_SEPARATOR.encode()) if len(file.separator) > 1 else content


def _parse_text(file: TableFile, column: pl.Series, kind: ColumnKind) -> pl.Series:
    """Ids and times that are still strings."""
    if kind == "time" and column.dtype.is_temporal():
        return column.cast(pl.Datetime("us")).to_physical()
    if column.dtype != pl.String or kind not in ("id", "time"):
        return column
    numbers = column.cast(pl.Int64, strict=False)
    if kind == "id":
        is_canonical = (numbers.cast(pl.String) == column).all() and not numbers.has_nulls()
        return numbers if is_canonical else column
    attempts: tuple[Callable[[], pl.Series], ...] = (
        lambda: numbers,
        lambda: column.cast(pl.Float64, strict=False),
        lambda: column.str.to_datetime(time_unit="us", strict=False).to_physical(),
    )
    for attempt in attempts:
        try:
            times = attempt()
        except pl.exceptions.PolarsError:  # no date format fits
            continue
        if times.null_count() == column.null_count():
            return times
    row = int((column.cast(pl.Float64, strict=False).is_null() & column.is_not_null()).arg_true()[0])
    raise UserError(
        f"{file.path} line {row + file.first_line}: column {column.name!r} holds {column[row]!r}, "
        "which is neither a number nor, like the rest of the column, a date and time"
    )


def _diagnose(file: TableFile, kinds: Kinds, error: Exception) -> UserError:
    """The first place that explains why a file did not parse."""
    reason = str(error).splitlines()[0]
    if file.format == "parquet":
        return UserError(f"{file.path}: not a readable Parquet file, perhaps cut off ({reason})")
    if file.format == "jsonl":
        for number, line in enumerate(file.lines(), start=1):
            try:
                json.loads(line)
            except json.JSONDecodeError:
                return UserError(f"{file.path} line {number}: not JSON; the line is broken or the file is cut off")
        return UserError(f"{file.path}: cannot be read ({reason})")
    _refuse_broken_lines(file)
    names = file.column_names()
    numeric = {names.index(name): kind for name, kind in kinds.items() if kind in _NUMERIC_KINDS}
    for number, fields in enumerate(file.records(), start=1):
        for position, kind in numeric.items():
            if (
                number >= file.first_line
                and any(fields)
                and fields[position]
                and not _is_number(fields[position], kind)
            ):
                return UserError(
                    f"{file.path} line {number}: column {names[position]!r} is not a number: {fields[position]!r}"
                )
    return UserError(f"{file.path}: cannot be read ({reason})")


def _refuse_broken_lines(file: TableFile) -> None:
    """An error at the first line with too few or too many fields."""
    num_columns = len(file.column_names())
    for line, fields in enumerate(file.records(), start=1):
        if len(fields) != num_columns and any(fields):
            raise UserError(
                f"{file.path} line {line}: {len(fields)} fields where {num_columns} are expected; "
                "the line is broken or the file is cut off"
            )


def _is_number(text: str, kind: ColumnKind) -> bool:
    try:
        int(text) if kind == "integer" else float(text)
    except ValueError:
        return False
    return True

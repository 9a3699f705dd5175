"""Raw tables -> typed polars columns, or a one-line error with the place.

The fast path parses with polars alone. Text with quotation marks in an unknown layout goes through the csv module,
which is more lenient with them. When parsing fails or gives nulls, the file is read line by line to locate the error.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import polars as pl

from gfn4rec.config import nearest
from gfn4rec.data.table_file import TableFile, without_blank_end
from gfn4rec.data.values import Place, parse_flags, parse_ids, parse_numbers, parse_times
from gfn4rec.errors import UserError

ColumnKind = Literal["id", "integer", "number", "flag", "time", "text", "list"]
"""What a column holds. `id`: integers if all of them are, else strings. `time`: numbers, or dates and times.
`list`: texts, in published JSON lines only."""

Kinds = Mapping[str, ColumnKind]

_TEXT_PARSED_AS: Mapping[ColumnKind, pl.DataType] = {
    "id": pl.String(),
    "integer": pl.Int64(),
    "number": pl.Float64(),
    "flag": pl.Float32(),  # not an integer: exported flags often read 1.0
    "time": pl.String(),
    "text": pl.String(),
    "list": pl.List(pl.String()),
}
_NUM_FIRST_LINES = 1000  # of JSON lines, which together have all columns
_UNIT_SEPARATOR = "\x1f"  # replaces separators of several characters, which polars does not support


def read_table(file: TableFile, kinds: Kinds) -> pl.DataFrame:
    """Read the named columns and convert them to their kinds. Empty values become null."""
    if file.format == "excel":
        table = file.excel_table()
        _check_file_columns(file, table.columns, kinds)
        return typed_table(file, table.select(*kinds), kinds)
    if file.format == "jsonl" and file.is_published:
        return _read_json_lines(file, kinds)
    if file.format == "text" and not file.is_published and file.has_quotes():
        lines, table = _read_quoted(file, kinds)
        return typed_table(_Lines(file, lines), table, kinds)
    try:
        table = scan_table(file, kinds).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        if file.format != "text":
            raise diagnose(file, error) from error
        _refuse_broken_lines(file)
        table = _as_text(file, kinds, error)
    if file.format == "text" and not file.is_published and not file.has_even_lines():
        _refuse_broken_lines(file)  # polars skips fields that are too many
    if file.format == "text" and any(table[name].has_nulls() for name in kinds):
        _refuse_broken_lines(file)
        table = without_blank_end(table)
    return typed_table(file, table, kinds)


def scan_table(file: TableFile, kinds: Kinds, as_text: bool = False) -> pl.LazyFrame:
    """Scan the named columns lazily; those of a text file still have ids and times as strings."""
    try:
        available = file.column_names()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise diagnose(file, error) from error
    _check_file_columns(file, available, kinds)
    if file.format == "parquet":
        return pl.scan_parquet(file.content() if file.is_compressed else file.path, glob=False).select(*kinds)
    if file.format == "jsonl":
        return pl.scan_ndjson(file.content(), infer_schema_length=None).select(*kinds)
    file.refuse_broken_tail()
    schema: dict[str, pl.DataType] = {}
    for name in available:  # the names of other columns may repeat, or be empty
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


def check_columns(label: str, available: Sequence[str], kinds: Kinds, hint: str = "") -> None:
    """Raise an error if a named column is missing, with the nearest name and a hint, or is there twice."""
    for name in kinds:
        if name not in available:
            raise UserError(f"{label}: no column {name!r}; {nearest(name, list(available))}{hint}")
        if available.count(name) > 1:
            raise UserError(f"{label}: {available.count(name)} columns are called {name!r}; rename one of them")


def _check_file_columns(file: TableFile, available: list[str], kinds: Kinds) -> None:
    hint = ""
    if len(available) == 1:
        hint = "; if another character separates the columns, name it with --separator"
    elif file.columns is None and not any(name[:1].isalpha() for name in available):
        hint = "; if the first line is no header, pass --no-header and name columns by number, as in --user-column 1"
    check_columns(file.label, available, kinds, hint)


def _text_source(file: TableFile) -> Path | bytes:
    """Return the path if polars can read the file directly, else its text in UTF-8 with a one-byte separator."""
    if len(file.separator) == 1:
        return file.path if file.is_plain else file.content()
    return file.content().replace(file.separator.encode(), _UNIT_SEPARATOR.encode())


def _as_text(file: TableFile, kinds: Kinds, error: Exception) -> pl.DataFrame:
    """Read the columns as strings after parsing failed; the offending value is located later."""
    try:
        return scan_table(file, kinds, as_text=True).collect()
    except (pl.exceptions.PolarsError, OSError):
        for _ in file.lines():  # raises an error at a line in another encoding
            pass
        raise diagnose(file, error) from error


@dataclass(frozen=True)
class _Lines:
    """A file whose records may have several lines, and where each of them begins."""

    file: TableFile
    lines: Sequence[int]

    @property
    def label(self) -> str:
        return self.file.label

    def locate(self, row: int) -> str:
        return f"{self.file.path} line {self.lines[row]}"


def _read_quoted(file: TableFile, kinds: Kinds) -> tuple[list[int], pl.DataFrame]:
    """Read the columns as strings with the csv module, and the lines in which records begin."""
    available = file.column_names()
    _check_file_columns(file, available, kinds)
    positions = [available.index(name) for name in kinds]
    lines: list[int] = []
    columns: list[list[str | None]] = [[] for _ in kinds]
    for line, fields in islice(file.numbered_records(), file.first_line - 1, None):
        if not any(fields):
            continue
        file.refuse_wrong_length(line, fields, len(available))
        for column, position in zip(columns, positions, strict=True):
            column.append(fields[position] or None)
        lines.append(line)
    return lines, pl.DataFrame(dict(zip(kinds, columns, strict=True)), schema=dict.fromkeys(kinds, pl.String))


def _read_json_lines(file: TableFile, kinds: Kinds) -> pl.DataFrame:
    """Read the named columns of JSON lines with a known layout; other columns may hold anything."""
    available = {name: None for _, row in islice(_json_objects(file), _NUM_FIRST_LINES) for name in row}
    if not available:
        raise UserError(f"{file.path}: has no JSON objects; download it again")
    check_columns(file.label, list(available), kinds)
    schema = {name: _TEXT_PARSED_AS[kind] for name, kind in kinds.items()}
    try:
        return pl.concat(pl.read_ndjson(piece, schema=schema) for piece in file.pieces())
    except pl.exceptions.PolarsError as error:
        expected = {"integer": (int,), "number": (int, float), "list": (list,)}
        for number, row in _json_objects(file):
            for name, kind in kinds.items():
                if row.get(name) is not None and not isinstance(row[name], expected.get(kind, object)):
                    raise UserError(
                        f"{file.path} line {number}: column {name!r} is no {kind}: {row[name]!r}"
                    ) from error
        raise diagnose(file, error) from error


def typed_table(place: Place, table: pl.DataFrame, kinds: Kinds) -> pl.DataFrame:
    """Convert each column to its kind, from text or from the types it has."""
    return table.with_columns(_typed(place, table[name], kind) for name, kind in kinds.items())


def _typed(place: Place, column: pl.Series, kind: ColumnKind) -> pl.Series:
    if kind == "id":
        return parse_ids(column)
    if kind == "time":
        return parse_times(place, column)
    if kind == "text":
        return column.cast(pl.List(pl.String) if isinstance(column.dtype, pl.List) else pl.String)
    if column.dtype == pl.String:
        return parse_flags(place, column) if kind == "flag" else parse_numbers(place, column)
    if kind == "flag" and column.dtype == pl.Boolean:
        return column
    if not (column.dtype.is_numeric() or column.dtype == pl.Null):
        raise UserError(f"{place.label}: column {column.name!r} holds {column.dtype}, not numbers")
    return column.cast(pl.Float64) if kind == "number" else column


def diagnose(file: TableFile, error: Exception) -> UserError:
    """Return the error for a file that could not be parsed at all."""
    reason = str(error).splitlines()[0]
    if file.format == "parquet":
        return UserError(f"{file.path}: not a readable Parquet file, perhaps truncated ({reason})")
    if file.format == "jsonl":
        for _ in _json_objects(file):  # raises an error at a broken line
            pass
    return UserError(f"{file.path}: cannot be read ({reason})")


def _json_objects(file: TableFile) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the object of each line that is not empty, with the number of the line."""
    for number, line in enumerate(file.lines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            remedy = "the line is broken or the file is truncated"
            if number == 1 and line.lstrip().startswith(("[{", "[\n", "[\r")):
                remedy = "the file is one list; write one object per line, as `jq -c '.[]'` does"
            raise UserError(f"{file.path} line {number}: not a JSON object; {remedy}")
        yield number, value


def _refuse_broken_lines(file: TableFile) -> None:
    """Raise an error at the first line with too few or too many fields."""
    num_columns = len(file.column_names())
    for line, fields in file.numbered_records():
        if any(fields):
            file.refuse_wrong_length(line, fields, num_columns)

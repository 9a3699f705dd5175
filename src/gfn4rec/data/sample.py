"""The first rows of a raw log file, and how the file is laid out: separator, encoding, header line."""

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl

from gfn4rec.data.interactions import RawFile
from gfn4rec.data.readers.layout import FileLayout
from gfn4rec.data.table_file import TableFile
from gfn4rec.data.tables import Kinds, check_columns, diagnose
from gfn4rec.errors import UserError

MOST_ROWS = 100_000
_RARE_SEPARATORS = ("::", " ")  # recognised in a first line without any of the usual ones
_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_VALUE = re.compile(r"\s*([-+]?\d+([.,]\d+)?([eE][-+]?\d+)?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b.*)\s*")


@dataclass(frozen=True)
class Sample:
    """The first rows of a file. Text is as it is written, with null for empty fields; names of columns may repeat."""

    file: TableFile
    layout: FileLayout
    columns: tuple[pl.Series, ...]
    is_whole: bool
    broken_line: str = ""
    """What is wrong with the first line of another length, or like the header. Such lines are left out."""

    @property
    def num_rows(self) -> int:
        """The number of rows that were read."""
        return len(self.columns[0]) if self.columns else 0

    @property
    def has_names(self) -> bool:
        """Whether columns have names of their own, not numbers."""
        return self.file.columns is None

    @property
    def is_recbole(self) -> bool:
        """Whether this is a RecBole file, whose columns have types in their names."""
        return is_recbole(self.file.path)

    def table(self, kinds: Kinds) -> pl.DataFrame:
        """Return the named columns; one that is missing or there twice is an error."""
        check_columns(self.file.label, [column.name for column in self.columns], kinds)
        return pl.DataFrame([column for column in self.columns if column.name in kinds]).select(*kinds)

    def raw_file(self) -> RawFile:
        """Return what error messages need of the file, without reading it for its checksum."""
        whole = self.file
        return RawFile(whole.path.name, str, self.num_rows, whole.first_line, whole.row_word, whole.label)


def is_recbole(path: Path) -> bool:
    """Return whether a path is that of a RecBole file, to which another layout does not apply."""
    return path.suffix.lower() == ".inter"


def read_sample(path: Path, layout: FileLayout, most_rows: int = MOST_ROWS) -> Sample:
    """Read the first rows of a file, and recognise what the layout does not set: encoding, separator, header line."""
    _refuse_other_files(path)
    if is_recbole(path):
        if layout.model_fields_set:
            raise UserError(f"{path}: the layout of RecBole files is known; leave out the options that describe it")
        layout = FileLayout(separator="\t", is_quoted=False)
    layout = _with_separator(path, _with_encoding(path, layout, most_rows))
    file = layout.open(path)
    if file.format in ("parquet", "jsonl"):
        return _sample_of(file, layout, _read_typed(file, most_rows), most_rows)
    if file.format == "excel":
        table = file.excel_table()
        if layout.has_header and any(_VALUE.fullmatch(name) for name in table.columns):
            layout = layout.model_copy(update={"has_header": False})
            file = layout.open(path)
            table = file.excel_table()
        return _sample_of(file, layout, table, most_rows)
    return _read_text(file, layout, most_rows)


def _refuse_other_files(path: Path) -> None:
    """Raise an error for what is no log file."""
    if path.suffix.lower() == ".toml":
        raise UserError(f"{path}: describes a log in TOML; inspect the log file that it names")
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name the log file in it")


def _sample_of(file: TableFile, layout: FileLayout, table: pl.DataFrame, most_rows: int) -> Sample:
    return Sample(file, layout, tuple(table.head(most_rows)), table.height <= most_rows)


def _with_encoding(path: Path, layout: FileLayout, most_rows: int) -> FileLayout:
    """Set the encoding unless it is given: UTF-8 if the rows are that, UTF-16 by its mark, else Latin-1."""
    file = TableFile(path)
    if "encoding" in layout.model_fields_set or file.format not in ("text", "jsonl"):
        return layout
    encoding = "utf-8"
    with file.open() as raw:
        for number, line in enumerate(islice(raw, most_rows + 2)):
            try:
                line.decode()
            except UnicodeDecodeError:
                encoding = "utf-16" if not number and line.startswith(_BOMS) else "latin-1"
                break
    return layout if encoding == "utf-8" else layout.model_copy(update={"encoding": encoding})


def _with_separator(path: Path, layout: FileLayout) -> FileLayout:
    """Set the separator if it is one that `data prepare` would not recognise."""
    file = layout.model_copy(update={"has_header": True}).open(path)
    if file.format != "text" or layout.separator is not None:
        return layout
    first = next(file.lines(), "")
    if file.separator in first or first.startswith("# "):  # a comment is reported later
        return layout
    found = next((text for text in _RARE_SEPARATORS if first.count(text) > 1), None)
    return layout if found is None else layout.model_copy(update={"separator": found})


def _read_typed(file: TableFile, most_rows: int) -> pl.DataFrame:
    """Read rows of a format that has names and types."""
    with file.open():  # errors name the file
        pass
    try:
        if file.format == "parquet":
            source = file.content() if file.is_compressed else file.path
            return pl.scan_parquet(source, glob=False).head(most_rows + 1).collect()
        lines = "".join(islice(file.lines(), most_rows + 1))
        return pl.read_ndjson(lines.encode(), infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise diagnose(file, error) from error


def _read_text(file: TableFile, layout: FileLayout, most_rows: int) -> Sample:
    numbered = list(islice(file.numbered_records(), most_rows + 2))
    records = [fields for _, fields in numbered]
    if not records or not any(records[0]):
        file.column_names()  # raises the error
    if layout.has_header and not _is_header(records[0], records[1:]):
        layout = layout.model_copy(update={"has_header": False})
        file = layout.open(file.path)
    names = file.column_names()
    if is_recbole(file.path):
        names = [name.partition(":")[0] for name in names]
    start = file.first_line - 1
    broken = _broken_line(file, numbered[start:], names)
    rows = [fields for fields in records[start:] if len(fields) == len(names) and any(fields) and fields != names]
    if not rows:
        raise UserError(broken or f"{file.path}: has a header line and no rows")
    columns = ([value or None for value in column] for column in zip(*rows[:most_rows], strict=True))
    return Sample(
        file,
        layout,
        tuple(pl.Series(name, column, dtype=pl.String) for name, column in zip(names, columns, strict=True)),
        len(records) - start <= most_rows,
        broken,
    )


def _broken_line(file: TableFile, numbered: Iterable[tuple[int, Sequence[str]]], names: Sequence[str]) -> str:
    try:
        for line, fields in numbered:
            if any(fields):
                file.refuse_wrong_length(line, fields, len(names))
            if fields == names:
                return f"{file.path} line {line}: repeats the header line; delete it"
    except UserError as error:
        return str(error)
    return ""


def _is_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line has names: no numbers or dates, and hardly any that its column has as values."""
    if any(_VALUE.fullmatch(field) for field in first):
        return False
    others = [row for row in rows if len(row) == len(first) and row != first]
    repeated = [any(row[place] == field for row in others) for place, field in enumerate(first)]
    return 2 * sum(repeated) < len(first)

"""A raw table file: the layout of its text, and how to read it line by line to locate an error."""

import codecs
import contextlib
import csv
import gzip
import hashlib
import io
import logging
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

import polars as pl

from gfn4rec.config import nearest
from gfn4rec.data.interactions import RawFile
from gfn4rec.errors import UserError

Format: TypeAlias = Literal["parquet", "jsonl", "excel", "text"]

_FORMATS: Mapping[str, Format] = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "excel"),
}
_NUM_SHOWN_NAMES = 5
_TAIL_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 22
_PIECE_BYTES = 1 << 26


@dataclass(frozen=True)
class TableFile:
    """A raw file. Its ending tells Parquet, JSON lines and Excel; anything else is delimited text.

    It may be compressed (`.gz`), or the only file of an archive (`.zip`).
    """

    path: Path
    separator: str = ","
    columns: tuple[str, ...] | None = None  # names for a file without a header line
    encoding: str = "utf-8"
    is_quoted: bool = True  # fields may be in quotation marks
    is_published: bool = False  # known layout: quotes are well-formed, and a file without final line feed is truncated
    sheet: str | None = None  # of an Excel file with several

    @property
    def format(self) -> Format:
        name = self._member if self._is_zip else self.path.name.lower().removesuffix(".gz")
        return _FORMATS.get(Path(name).suffix.lower(), "text")

    @property
    def is_compressed(self) -> bool:
        return self.path.suffix.lower() in (".gz", ".zip")

    @property
    def is_plain(self) -> bool:
        """Whether polars can read the file by its path: it is UTF-8 text, perhaps in gzip."""
        return self.is_utf8 and not self._is_zip

    @property
    def _is_zip(self) -> bool:
        return self.path.suffix.lower() == ".zip"

    @cached_property
    def _member(self) -> str:
        """The name of the only file in a zip archive."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        except (zipfile.BadZipFile, FileNotFoundError) as error:
            problem = "no such file" if isinstance(error, FileNotFoundError) else "not a complete zip file"
            raise UserError(f"{self.path}: {problem}") from None
        names = [name for name in names if not name.startswith("__MACOSX/")]
        if len(names) != 1:
            listed = ", ".join(names[:_NUM_SHOWN_NAMES]) or "nothing"
            raise UserError(f"{self.path}: holds {listed}; unpack it and name one file, or several in a TOML file")
        return names[0]

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii")

    @property
    def first_line(self) -> int:
        """The line of the first row."""
        return 2 if self.format in ("text", "excel") and self.columns is None else 1

    @property
    def label(self) -> str:
        """The name of the file in error messages."""
        return str(self.path)

    def locate(self, row: int) -> str:
        """Return the name of a row, counted from 0, in error messages."""
        return f"{self.path} {self.row_word} {row + self.first_line}"

    @property
    def row_word(self) -> str:
        """What a row is called in error messages."""
        return "row" if self.format in ("parquet", "excel") else "line"

    def without_header(self) -> "TableFile":
        """Return the file with its columns named by their numbers, from 1 on."""
        num_columns = len(self.column_names())
        return replace(self, columns=tuple(str(number) for number in range(1, num_columns + 1)))

    def record(self, num_rows: int = 0) -> RawFile:
        """Return what the manifest stores of this file. Its checksum is computed in the background."""
        pool = ThreadPoolExecutor(max_workers=1)
        digest = pool.submit(self._sha256).result
        pool.shutdown(wait=False)
        return RawFile(self.path.name, digest, num_rows, self.first_line, self.row_word, self.label)

    def column_names(self) -> list[str]:
        """Return the names of the file's columns."""
        if self.format == "parquet":
            with self.open() as raw:
                return list(pl.read_parquet_schema(raw))
        if self.format == "jsonl":
            return list(pl.scan_ndjson(self.content(), infer_schema_length=None).collect_schema())
        if self.columns is not None:
            return list(self.columns)
        if self.format == "excel":
            return self.excel_table().columns
        header = next(self.records(), None)
        if header is None:
            raise UserError(f"{self.path}: is empty; a header line with the column names is expected")
        if not any(header):
            raise UserError(f"{self.path}: its first line is empty; a header line with the column names is expected")
        if header[0].startswith("# "):
            raise UserError(f"{self.path}: its first line is a comment; delete the lines before the header")
        return header if self.is_published else [name.strip() for name in header]

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file for its uncompressed bytes; errors name the file."""
        try:
            with contextlib.ExitStack() as stack:
                if self._is_zip:
                    yield stack.enter_context(stack.enter_context(zipfile.ZipFile(self.path)).open(self._member))
                else:
                    open_it = gzip.open if self.is_compressed else open
                    yield stack.enter_context(cast(IO[bytes], open_it(self.path, "rb")))
        except FileNotFoundError:
            raise UserError(f"{self.path}: no such file") from None
        except (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
            kind = "zip" if self._is_zip else "gzip"
            raise UserError(f"{self.path}: not a complete {kind} file ({error}); download it again") from error
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror})") from error

    def content(self) -> bytes:
        """Return all of the text in UTF-8."""
        with self.open() as raw:
            content = raw.read()
        if not self.is_utf8:
            content = "".join(self.lines()).encode()
        return content.removeprefix(codecs.BOM_UTF8)

    def pieces(self) -> Iterator[bytes]:
        """Yield the text in pieces of whole lines, so that a file larger than memory can be read."""
        with self.open() as raw:
            while piece := raw.read(_PIECE_BYTES):
                yield piece + raw.readline()

    def excel_table(self) -> pl.DataFrame:
        """Return the sheet of an Excel file."""
        try:
            import fastexcel
        except ImportError:
            raise UserError(
                f"{self.path}: Excel files need the package fastexcel (pip install 'gfn4rec[excel]'); or save it as CSV"
            ) from None
        logging.getLogger("fastexcel").setLevel(logging.ERROR)  # it reports columns without values
        with self.open() as raw:
            content = raw.read()
        try:
            book = fastexcel.read_excel(content)
            name = self._sheet_of(book.sheet_names)
            table = book.load_sheet(name, header_row=0 if self.columns is None else None).to_polars()
            if any(_renamed_from(column) in table.columns for column in table.columns):
                self._refuse_repeated(book.load_sheet(name, header_row=None, n_rows=1).to_polars().row(0))
        except fastexcel.FastExcelError as error:
            raise UserError(f"{self.path}: not a readable Excel file ({str(error).splitlines()[0]})") from error
        table = table.with_columns(_whole_numbers(column) for column in table if column.dtype.is_float())
        table = without_blank_end(table)
        return table if self.columns is None else table.rename(dict(zip(table.columns, self.columns, strict=True)))

    def _sheet_of(self, names: list[str]) -> str:
        if self.sheet is None and len(names) == 1:
            return names[0]
        if self.sheet is None:
            raise UserError(f"{self.path}: has the sheets {', '.join(names)}; name one with --sheet")
        if self.sheet not in names:
            raise UserError(f"{self.path}: no sheet {self.sheet!r}; {nearest(self.sheet, names)}")
        return self.sheet

    def _refuse_repeated(self, header: Sequence[object]) -> None:
        """Raise an error for a name that several columns of a sheet have; the package renames all but the first."""
        for name in header:
            if name is not None and str(name)[:1].isalpha() and header.count(name) > 1:
                raise UserError(f"{self.path}: {header.count(name)} columns are called {name!r}; rename one of them")

    def lines(self) -> Iterator[str]:
        """Yield the lines; the error for a line in another encoding names it."""
        with self.open() as raw:
            if codecs.lookup(self.encoding).name.startswith(("utf-16", "utf-32")):  # a line feed has several bytes
                yield from self._decode(raw.read(), None).splitlines(keepends=True)
                return
            for number, line in enumerate(raw, start=1):
                yield self._decode(line, number)

    def records(self) -> Iterator[list[str]]:
        """Yield the fields of each line, with the header."""
        return (fields for _, fields in self.numbered_records())

    def numbered_records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the fields of each record, with the line in which it begins; quoted fields may hold line feeds."""
        return self._split(self.lines())

    def refuse_wrong_length(self, line: int, fields: Sequence[str], num_columns: int) -> None:
        """Raise an error if a line has too few or too many fields."""
        if len(fields) == num_columns:
            return
        remedy = "the line is broken or the file is truncated"
        if len(fields) > num_columns:
            remedy = f"put fields in quotation marks if they hold {self.separator!r}"
            if not any(fields[num_columns:]):
                remedy = "the header lacks the separator at the end of the line; add it there"
        raise UserError(f"{self.path} line {line}: {len(fields)} fields where {num_columns} are expected; {remedy}")

    def has_even_lines(self) -> bool:
        """Return whether all lines together have as many separators as they should; quotation marks are ignored."""
        separator, num_columns = self.separator.encode(), len(self.column_names())
        num_lines = num_separators = 0
        for piece in self.pieces():
            num_lines += piece.count(b"\n") + (not piece.endswith(b"\n"))
            num_separators += piece.count(separator)
        return num_separators == num_lines * (num_columns - 1)

    def has_quotes(self) -> bool:
        """Return whether the file has quotation marks that matter."""
        if not self.is_quoted or len(self.separator) > 1:
            return False
        with self.open() as raw:
            return any(b'"' in chunk for chunk in iter(lambda: raw.read(_CHUNK_BYTES), b""))

    def refuse_broken_tail(self) -> None:
        """Raise an error if the last line is incomplete, as far as that can be seen."""
        if self.is_compressed or not self.is_utf8:
            return
        with self.open() as raw:
            size = raw.seek(0, io.SEEK_END)
            raw.seek(max(0, size - _TAIL_BYTES))
            tail = raw.read()
        if not tail or tail.endswith((b"\n", b"\r")):
            return
        last = tail[tail.rfind(b"\n") + 1 :].decode(errors="replace")
        num_fields = len(next(self._split([last]))[1])
        if self.is_published or num_fields < len(self.column_names()):
            raise UserError(
                f"{self.path}: its last line {last[:60]!r} is incomplete; the file is truncated, download it again"
            )

    def _decode(self, text: bytes, line: int | None) -> str:
        try:
            return text.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            place = f"{self.path} line {line}" if line else f"{self.path}"
            likely = "utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
            raise UserError(
                f"{place}: not {self.encoding} text (byte 0x{text[error.start]:02x}); "
                f"name its encoding, as in --encoding {likely}"
            ) from None

    def _sha256(self) -> str:
        with self.path.open("rb") as raw:
            return hashlib.file_digest(raw, "sha256").hexdigest()

    def _split(self, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
        if len(self.separator) > 1 or not self.is_quoted:
            yield from enumerate((line.rstrip("\r\n").split(self.separator) for line in lines), start=1)
            return
        taken: list[str] = []  # the lines of a record
        start = 1
        reader = csv.reader(_noting(lines, taken), delimiter=self.separator)
        try:
            for fields in reader:
                if len(taken) > 1:  # a stray mark would silently swallow the lines up to the next one
                    next(csv.reader(taken, delimiter=self.separator, strict=True))
                yield start, fields
                start += len(taken)
                taken.clear()
        except csv.Error as error:
            if len(taken) == 1:
                raise UserError(f"{self.path} line {start}: cannot be read as fields ({error})") from error
            raise UserError(
                f"{self.path} line {start}: a field begins with a quotation mark, and none ends it; remove the mark, "
                "or, if the file uses such marks as plain text, set is_quoted = false in a TOML description"
            ) from None


def without_blank_end(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table without the rows at its end in which all values are missing."""
    is_blank = table.select(pl.all_horizontal(pl.all().is_null())).to_series()
    return table.head(table.height - int(is_blank.reverse().cum_min().sum()))


def _noting(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line


def _renamed_from(column: str) -> str | None:
    """Return the name that a sheet's column may have had before it was made unique."""
    name, _, number = column.rpartition("_")
    return name if number.isdigit() else None


def _whole_numbers(column: pl.Series) -> pl.Series:
    """Return integers if all numbers are whole: a sheet knows only floats."""
    return column.cast(pl.Int64) if (column == column.floor()).all() else column

"""A raw table file: the layout of its text, and how to read it line by line to locate an error."""

import codecs
import contextlib
import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

import polars as pl

from gfn4rec.data.interactions import RawFile
from gfn4rec.errors import UserError

_TAIL_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True)
class TableFile:
    """A raw file. Its ending tells Parquet and JSON lines; anything else is delimited text."""

    path: Path
    separator: str = ","
    columns: tuple[str, ...] | None = None  # names for a file without a header line
    encoding: str = "utf-8"
    is_quoted: bool = True  # fields may be in quotation marks
    is_published: bool = False  # known layout: quotes are well-formed, and a file without final line feed is truncated

    @property
    def format(self) -> Literal["parquet", "jsonl", "text"]:
        suffix = next((suffix for suffix in reversed(self._suffixes) if suffix != ".gz"), "")
        if suffix in (".parquet", ".pq"):
            return "parquet"
        return "jsonl" if suffix in (".jsonl", ".ndjson", ".json") else "text"

    @property
    def is_compressed(self) -> bool:
        return self._suffixes[-1:] == [".gz"]

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii")

    @property
    def first_line(self) -> int:
        """The line of the first row."""
        return 2 if self.format == "text" and self.columns is None else 1

    @property
    def label(self) -> str:
        """The name of the file in error messages."""
        return str(self.path)

    def locate(self, row: int) -> str:
        """Return the name of a row, counted from 0, in error messages."""
        return f"{self.path} {self._row_word} {row + self.first_line}"

    @property
    def _row_word(self) -> str:
        return "row" if self.format == "parquet" else "line"

    @property
    def _suffixes(self) -> list[str]:
        return [suffix.lower() for suffix in self.path.suffixes]

    def record(self, num_rows: int = 0) -> RawFile:
        """Return what the manifest stores of this file. Its checksum is computed in the background."""
        pool = ThreadPoolExecutor(max_workers=1)
        digest = pool.submit(self._sha256).result
        pool.shutdown(wait=False)
        return RawFile(self.path.name, digest, num_rows, self.first_line, self._row_word, self.label)

    def column_names(self) -> list[str]:
        """Return the names of the file's columns."""
        if self.format == "parquet":
            with self.open() as raw:
                return list(pl.read_parquet_schema(raw))
        if self.format == "jsonl":
            return list(pl.scan_ndjson(self.content(), infer_schema_length=None).collect_schema())
        if self.columns is not None:
            return list(self.columns)
        header = next(self.records(), None)
        if header is None:
            raise UserError(f"{self.path}: is empty; a header line with the column names is expected")
        if not any(header):
            raise UserError(f"{self.path}: its first line is empty; a header line with the column names is expected")
        return header

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file for its uncompressed bytes; errors name the file."""
        try:
            with cast(IO[bytes], gzip.open(self.path) if self.is_compressed else self.path.open("rb")) as raw:
                yield raw
        except FileNotFoundError:
            raise UserError(f"{self.path}: no such file") from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{self.path}: not a complete gzip file ({error}); download it again") from error
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror})") from error

    def content(self) -> bytes:
        """Return all of the text in UTF-8."""
        with self.open() as raw:
            content = raw.read()
        if not self.is_utf8:
            content = "".join(self.lines()).encode()
        return content.removeprefix(codecs.BOM_UTF8)

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
        return self._split(self.lines())

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
        num_fields = len(next(self._split([last])))
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

    def _split(self, lines: Iterable[str]) -> Iterator[list[str]]:
        if len(self.separator) > 1 or not self.is_quoted:
            yield from (line.rstrip("\r\n").split(self.separator) for line in lines)
            return
        try:
            yield from csv.reader(lines, delimiter=self.separator)
        except csv.Error as error:
            raise UserError(f"{self.path}: cannot be read as lines of fields ({error})") from error

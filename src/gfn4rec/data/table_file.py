"""A raw table file: how its text is laid out, and how to walk through it slowly when something is wrong with it."""

import codecs
import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from gfn4rec.data.interactions import RawFile
from gfn4rec.errors import UserError

_TAIL_BYTES = 1 << 16
_HASHING = ThreadPoolExecutor(thread_name_prefix="hashing")  # raw files are large, and the next stages need one core


@dataclass(frozen=True)
class TableFile:
    """A raw file. Parquet and JSON lines are told by their ending, everything else is delimited text."""

    path: Path
    separator: str = ","
    columns: tuple[str, ...] | None = None  # names for a file without a header line
    encoding: str = "utf-8"
    ends_with_newline: bool = False  # where a published file does not, it is cut off

    @property
    def format(self) -> Literal["parquet", "jsonl", "text"]:
        suffix = next((suffix for suffix in reversed(self.path.suffixes) if suffix != ".gz"), "")
        if suffix in (".parquet", ".pq"):
            return "parquet"
        return "jsonl" if suffix in (".jsonl", ".ndjson") else "text"

    @property
    def is_compressed(self) -> bool:
        return self.path.suffix == ".gz"

    @property
    def has_wide_characters(self) -> bool:
        """Whether a line feed is several bytes, so that lines cannot be told before decoding."""
        return codecs.lookup(self.encoding).name.startswith(("utf-16", "utf-32"))

    @property
    def first_line(self) -> int:
        """The line on which the first row stands."""
        return 2 if self.format == "text" and self.columns is None else 1

    def record(self, num_rows: int = 0) -> RawFile:
        """What the manifest remembers of this file."""
        digest = _HASHING.submit(_sha256, self.path).result
        row_word = "row" if self.format == "parquet" else "line"
        return RawFile(self.path.name, digest, num_rows, self.first_line, row_word)

    def column_names(self) -> list[str]:
        """The columns the file has."""
        if not self.path.is_file():
            raise UserError(f"{self.path}: no such file")
        if self.format == "parquet":
            return list(pl.read_parquet_schema(self.path))
        if self.format == "jsonl":
            return list(pl.scan_ndjson(self.path, infer_schema_length=None).collect_schema())
        if self.columns is not None:
            return list(self.columns)
        header = next(self.records(), [])
        if not any(header):
            raise UserError(f"{self.path}: empty; a header line with the column names is expected")
        return header

    def lines(self) -> Iterator[str]:
        """Its lines, one by one; a line in another encoding is an error that names it."""
        if self.has_wide_characters:
            yield from self._decoded_whole()
            return
        opener = gzip.open if self.is_compressed else Path.open
        with opener(self.path, "rb") as raw:
            for number, line in enumerate(self._until_cut_off(raw), start=1):
                try:
                    text = line.decode(self.encoding)
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{self.path} line {number}: not {self.encoding} text (byte 0x{line[error.start]:02x}); "
                        "name its encoding, as in --encoding latin-1"
                    ) from None
                yield text.removeprefix("\ufeff") if number == 1 else text

    def _until_cut_off(self, raw: Iterable[bytes]) -> Iterator[bytes]:
        try:
            yield from raw
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{self.path}: not a whole gzip file ({error}); fetch it again") from error

    def _decoded_whole(self) -> Iterator[str]:
        try:
            text = self.path.read_bytes().decode(self.encoding)
        except UnicodeDecodeError as error:
            raise UserError(f"{self.path}: not {self.encoding} text ({error.reason}); name its --encoding") from None
        return iter(text.removeprefix("\ufeff").splitlines(keepends=True))

    def records(self) -> Iterator[list[str]]:
        """The fields of its lines, header included, one by one."""
        return _split(self.lines(), self.separator)

    def refuse_broken_tail(self) -> None:
        """An error if the last line breaks off, as far as that can be seen."""
        if self.is_compressed or self.has_wide_characters:
            return
        with self.path.open("rb") as raw:
            size = raw.seek(0, io.SEEK_END)
            raw.seek(max(0, size - _TAIL_BYTES))
            tail = raw.read()
        if not tail or tail.endswith(b"\n"):
            return
        last = tail[tail.rfind(b"\n") + 1 :].decode(self.encoding, errors="replace")
        num_fields = len(next(_split([last], self.separator)))
        if self.ends_with_newline or num_fields < len(self.column_names()):
            raise UserError(f"{self.path}: its last line {last[:60]!r} breaks off; the file is cut off, fetch it again")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _split(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    if separator == ",":
        return csv.reader(lines)
    return (line.rstrip("\r\n").split(separator) for line in lines)

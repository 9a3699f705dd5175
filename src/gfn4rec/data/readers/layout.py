"""The layout of an own file: what separates its columns, whether it has a header line, its encoding."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from gfn4rec.config import StrictConfig
from gfn4rec.data.table_file import TableFile
from gfn4rec.errors import UserError

_SEPARATORS = ",\t;|"  # those that are recognised, the most likely one first


def _known_encoding(name: str) -> str:
    try:
        "".encode(name)
        b"".decode(name)
    except LookupError:
        raise ValueError("no such encoding; try utf-8, latin-1 or gb18030") from None
    return name


def _known_separator(text: str) -> str:
    text = text.replace("\\t", "\t")
    if not text or not text.isascii() or any(sign in text for sign in '"\r\n'):
        raise ValueError("write one or more plain characters, as in ; or \\t")
    return text


Encoding = Annotated[str, AfterValidator(_known_encoding)]
Separator = Annotated[str, AfterValidator(_known_separator)]


class FileLayout(StrictConfig):
    """How to read a text file or an Excel file; Parquet files and JSON lines need none of it."""

    separator: Separator | None = None  # of text files; by default the one that the first line has most of
    is_quoted: bool = True  # fields may be in quotation marks
    encoding: Encoding = "utf-8"
    has_header: bool = True  # without a header line, columns are named by their numbers: "1", "2", ...
    sheet: str | None = None  # of an Excel file with several

    def open(self, path: Path) -> TableFile:
        """Return the file with this layout."""
        file = TableFile(path, encoding=self.encoding, is_quoted=self.is_quoted, sheet=self.sheet)
        if file.format == "text":
            first = next(file.lines(), "").rstrip("\r\n")
            separator = self.separator or max(_SEPARATORS, key=first.count)
            file = TableFile(path, separator, None, self.encoding, self.is_quoted)
        if self.has_header:
            return file
        if file.format not in ("text", "excel"):
            raise UserError(f"{path}: --no-header has no meaning for this format, whose columns have names")
        return file.without_header()

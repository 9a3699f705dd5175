"""Files of JSON objects, one per line and in a fixed order, that several processes may add to."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from gfn4rec.errors import UserError
from gfn4rec.experiments.jobs.locking import locked
from gfn4rec.storage import make_directory, write_whole

Entry: TypeAlias = Mapping[str, object]
Order: TypeAlias = Callable[[Any], tuple[str | int, ...]]
_Signature: TypeAlias = tuple[int, int]  # time and size of a file


class _Line(NamedTuple):
    order: tuple[str | int, ...]
    text: str
    entry: Entry


class JsonLines:
    """JSON objects by their `key`. Lines that cannot be read are ignored, and dropped when the file is next written."""

    def __init__(self, path: Path, order: Order) -> None:
        self.path, self._order = path, order
        self._signature: _Signature | None = None
        self._lines: dict[str, _Line] = {}

    def find(self, key: str) -> Entry | None:
        """Return the object of a key."""
        line = self._read().get(key)
        return None if line is None else line.entry

    def keys(self) -> set[str]:
        """Return all keys."""
        return set(self._read())

    def put(self, *entries: Entry) -> None:
        """Add objects, or replace those that have the same key."""
        make_directory(self.path.parent)
        with locked(self.path):
            lines = dict(self._read())
            for entry in entries:
                lines[str(entry["key"])] = self._line(json.dumps(entry, ensure_ascii=False))
            ordered = sorted(lines.values(), key=lambda line: line.order)
            write_whole(self.path, "".join(f"{line.text}\n" for line in ordered))

    def _line(self, text: str) -> _Line:
        entry = json.loads(text)
        return _Line(self._order(entry), text, entry)

    def _read(self) -> dict[str, _Line]:
        try:
            stat = self.path.stat()
            signature = (stat.st_mtime_ns, stat.st_size)
            if signature != self._signature:
                self._lines, self._signature = self._parse(self.path.read_bytes()), signature
        except (FileNotFoundError, NotADirectoryError):
            self._lines, self._signature = {}, None
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror})") from error
        return self._lines

    def _parse(self, content: bytes) -> dict[str, _Line]:
        lines = {}
        for text in content.split(b"\n"):
            try:
                line = self._line(text.decode())
                lines[str(line.entry["key"])] = line
            except (ValueError, LookupError, TypeError):
                continue
        return lines

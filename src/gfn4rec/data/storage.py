"""The files of a prepared data set: written in the background, read only if their checksums are right."""

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

import polars as pl

from gfn4rec.data.manifest import FORMAT, VERSION, FileEntry, Manifest
from gfn4rec.data.readers import rho_by_name
from gfn4rec.errors import UserError
from gfn4rec.storage import MANIFEST, raw_manifest


class TableWriter:
    """Writes Parquet files in the background, while the next table is computed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pool = ThreadPoolExecutor()
        self._entries: dict[str, Future[FileEntry]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def write(self, name: str, table: pl.DataFrame) -> None:
        """Write `name`.parquet; the same table gives the same bytes."""
        self._entries[f"{name}.parquet"] = self._pool.submit(_write_table, self._directory / f"{name}.parquet", table)

    def finish(self) -> dict[str, FileEntry]:
        """Wait for all files and return their sizes and checksums; a failure to write is raised here."""
        return {name: entry.result() for name, entry in self._entries.items()}


def _write_table(path: Path, table: pl.DataFrame) -> FileEntry:
    try:
        table.write_parquet(path, compression="zstd", compression_level=1, statistics=False)
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error)) from error
    return FileEntry(num_bytes=path.stat().st_size, sha256=_sha256(path), content_sha256=content_digest(table))


def content_digest(table: pl.DataFrame) -> str:
    """Return a checksum of a table's values, which does not depend on the library version that writes the file."""
    digest = hashlib.sha256()
    for column in table:
        digest.update(f"{column.name}\0{column.dtype}\0".encode())
        is_plain = column.dtype.is_numeric() or column.dtype == pl.Boolean
        digest.update(column.to_numpy().tobytes() if is_plain else json.dumps(column.to_list()).encode())
    return digest.hexdigest()


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest with its own checksum; the same manifest gives the same bytes."""
    values = manifest.model_dump(mode="json")
    text = json.dumps({"sha256": _checksum(values)} | values, indent=1, ensure_ascii=False, allow_nan=False)
    (directory / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest, and check that the files beside it are those it was written with."""
    values = raw_manifest(directory, FORMAT, VERSION, "prepared data set", "`gfn4rec data prepare`")
    if values.pop("sha256", None) != _checksum(values):
        raise UserError(f"{directory / MANIFEST}: damaged or edited; prepare the data set again")
    values.setdefault("rho", rho_by_name(str(values.get("name"))))
    manifest = Manifest.parse(values, f"{directory / MANIFEST} is damaged, prepare it again")
    for name, entry in manifest.files.items():
        path = directory / name
        try:
            is_whole = (path.stat().st_size, _sha256(path)) == (entry.num_bytes, entry.sha256)
        except FileNotFoundError:
            is_whole = False
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from error
        if not is_whole:
            raise UserError(f"{path}: missing or damaged; prepare the data set again")
    return manifest


def _checksum(values: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Directories that are written whole or not at all, and read back only if nothing is wrong with them."""

import contextlib
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import polars as pl

from gfn4rec.data.manifest import FORMAT, VERSION, FileEntry, Manifest
from gfn4rec.errors import UserError

MANIFEST = "manifest.json"


@contextlib.contextmanager
def replace_directory(target: Path) -> Iterator[Path]:
    """A fresh directory to write into. It takes the place of `target` when the block ends well, else it vanishes."""
    _refuse_foreign(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror}); choose another --out") from error
    try:
        yield fresh
        fresh.chmod(0o755)
        if target.exists():
            aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            target.rename(aside / "old")
            try:
                fresh.rename(target)
            except OSError:
                (aside / "old").rename(target)
                raise
            finally:
                shutil.rmtree(aside, ignore_errors=True)
        else:
            fresh.rename(target)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{target}: writing failed, what was there before is untouched ({reason})") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _refuse_foreign(target: Path) -> None:
    """Only an absent or empty directory, or an earlier data set, may be replaced."""
    try:
        if not target.exists() or (target.is_dir() and not any(target.iterdir())):
            return
        is_ours = (target / MANIFEST).is_file() and _raw_manifest(target).get("format") == FORMAT
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror}); choose another --out") from error
    except UserError:
        is_ours = False
    if not is_ours:
        raise UserError(f"{target}: exists and is not a prepared data set; choose another --out")


class TableWriter:
    """Writes Parquet files in the background, so that the next table is made while the last one is written."""

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
        """Wait for all of them, and tell their sizes and checksums; a failure to write is raised here."""
        return {name: entry.result() for name, entry in self._entries.items()}


def _write_table(path: Path, table: pl.DataFrame) -> FileEntry:
    table.write_parquet(path, compression="zstd", compression_level=1, statistics=False)
    return _file_entry(path)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest; the same manifest gives the same bytes."""
    (directory / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest and check that the files beside it are those it was written with."""
    values = _raw_manifest(directory)
    if values.get("format") != FORMAT:
        raise UserError(f"{directory}: not a prepared data set; make one with `gfn4rec data prepare`")
    if values.get("version") != VERSION:
        raise UserError(
            f"{directory}: format version {values.get('version')}, but this gfn4rec reads version {VERSION}; "
            "prepare it again, or install the gfn4rec that made it"
        )
    manifest = Manifest.parse(values, f"{directory / MANIFEST} is damaged, prepare it again")
    for name, entry in manifest.files.items():
        path = directory / name
        if not path.is_file() or _file_entry(path) != entry:
            raise UserError(f"{path}: missing or damaged; prepare the data set again")
    return manifest


def _raw_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{directory}: not a prepared data set (no {MANIFEST} in it)") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError:
        raise UserError(f"{path}: damaged; prepare the data set again") from None
    if not isinstance(values, dict):
        raise UserError(f"{directory}: not a prepared data set; make one with `gfn4rec data prepare`")
    return values


def _file_entry(path: Path) -> FileEntry:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileEntry(num_bytes=path.stat().st_size, sha256=digest)

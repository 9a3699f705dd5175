"""Download a published archive: with progress, resumable, verified by its checksum, and unpacked where needed."""

import contextlib
import fnmatch
import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gfn4rec import __version__
from gfn4rec.errors import UserError

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known

_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Archive:
    """The address of a data set, and the files needed from it."""

    url: str
    md5: str | None  # None: not published, so only the length is verified
    members: tuple[str, ...] = ()  # patterns of the files to unpack
    is_page: bool = False  # `url` is a page where people choose files: nothing is downloaded


def cache_folder() -> Path:
    """Return the folder of downloads: $GFN4REC_CACHE, or gfn4rec in the user's cache folder."""
    chosen = os.environ.get("GFN4REC_CACHE")
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else (Path(home) if home else Path.home() / ".cache") / "gfn4rec"


def fetch(name: str, archive: Archive, layout: str, progress: Progress = lambda *_: None) -> Path:
    """Return the folder with the needed files of an archive; download and unpack it unless that was done before."""
    if archive.is_page:
        raise UserError(f"{name}: choose its files at {archive.url}, and name the folder with {layout} by --raw")
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    file = cache_folder() / urllib.parse.urlsplit(archive.url).path.rsplit("/", 1)[-1]
    if not file.exists():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            _download(archive.url, file, archive.md5, progress)
        except (OSError, http.client.HTTPException) as error:
            partial = _partial(file)
            kept = (
                f"; {partial.stat().st_size:,} bytes are kept, run the command again to resume"
                if partial.exists()
                else ""
            )
            raise UserError(
                f"{archive.url}: cannot be downloaded ({_reason(error)}){kept}; "
                f"or download it elsewhere, unpack it, and name the folder with {layout} by --raw"
            ) from error
    _unpack(file, archive.members, folder)
    return folder


def _partial(file: Path) -> Path:
    return file.with_name(file.name + ".part")


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error or type(error).__name__)


def _download(url: str, file: Path, md5: str | None, progress: Progress) -> None:
    partial = _partial(file)
    with _respond(url, partial.stat().st_size if partial.exists() else 0) as (response, start):
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        num_bytes = start
        with partial.open("r+b" if start else "wb") as target:
            target.seek(start)
            while chunk := response.read(_CHUNK_BYTES):
                target.write(chunk)
                num_bytes += len(chunk)
                progress(num_bytes, total)
    if total is not None and num_bytes < total:
        raise http.client.HTTPException(f"the connection was lost at {num_bytes:,} of {total:,} bytes")
    if md5 is not None:
        with partial.open("rb") as content:
            actual = hashlib.file_digest(content, "md5").hexdigest()
        if actual != md5:
            partial.unlink()
            raise UserError(f"{url}: the checksum is {actual}, not {md5}; the download was deleted, try again")
    partial.rename(file)


@contextlib.contextmanager
def _respond(url: str, start: int) -> Iterator[tuple[http.client.HTTPResponse, int]]:
    """Yield a response and the byte it begins at: `start` if the server can resume there, else 0."""
    request = urllib.request.Request(url, headers={"User-Agent": f"gfn4rec/{__version__}"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        # Nothing is left to download, or the partial file is longer than the archive: start again.
        request.remove_header("Range")
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    with response:
        yield response, start if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0


def _unpack(file: Path, members: tuple[str, ...], folder: Path) -> None:
    """Unpack the needed members into `folder`, without sub-folders, all or none."""
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    missing = set(members)
    try:
        for name, content in _members(file):
            matched = {pattern for pattern in members if fnmatch.fnmatch(name, pattern)}
            missing -= matched
            with content:
                if matched:
                    with (fresh / Path(name).name).open("wb") as target:
                        shutil.copyfileobj(content, target, _CHUNK_BYTES)
        if missing:
            raise UserError(
                f"{file}: holds no {sorted(missing)[0]}, so it is the wrong archive; delete it and try again"
            )
        fresh.chmod(0o755)
        fresh.rename(folder)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise UserError(f"{file}: cannot be unpacked ({_reason(error)}); delete it and try again") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _members(file: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if file.suffix == ".zip":
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                yield name, archive.open(name)
        return
    with tarfile.open(file, "r|*") as archive:  # a stream: one pass over gigabytes
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                yield member.name, content

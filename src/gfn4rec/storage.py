"""Atomic writing of directories and files. Each directory has a manifest that says what it is."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gfn4rec.errors import UserError

MANIFEST = "manifest.json"


@contextlib.contextmanager
def replace_directory(target: Path, kind: str) -> Iterator[Path]:
    """Yield a new directory to write into; it replaces `target` if the block succeeds, and is deleted otherwise.

    A failure to write becomes a `UserError`; other exceptions pass through.
    """
    refuse_foreign(target, kind)
    target = target.resolve()  # a symbolic link is followed, not replaced
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror}); choose another --out") from error
    try:
        yield fresh
        fresh.chmod(0o777 & ~_umask())
        _swap(fresh, target)
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{target}: writing failed, what was there before is untouched ({reason})") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def refuse_foreign(target: Path, kind: str) -> None:
    """Raise a `UserError` unless `target` is absent, empty, or of this kind and without foreign files."""
    try:
        if not target.exists() or (target.is_dir() and not any(target.iterdir())):
            return
        manifest = _load(target / MANIFEST) if (target / MANIFEST).is_file() else {}
        files = manifest.get("files")
        own = {MANIFEST, *(files if isinstance(files, dict) else ())}
        others = {path.name for path in target.iterdir()} - own if manifest else set()
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror}); choose another --out") from error
    except ValueError:
        manifest, others = {}, set()
    if manifest.get("format") != kind:
        raise UserError(f"{target}: exists and is not a {kind.removeprefix('gfn4rec ')}; choose another --out")
    if others:
        raise UserError(f"{target}: holds {sorted(others)[0]}, which would be lost; move it, or choose another --out")


def refuse_any(target: Path) -> None:
    """Raise an error if `target` is a data set, a simulator, a run or the like, which others' files would spoil."""
    if (target / MANIFEST).exists():
        raise UserError(f"{target}: is a data set, a simulator, a run or the like; choose another --out")


def _swap(fresh: Path, target: Path) -> None:
    """Replace `target` by `fresh`; restore the old directory if that fails or is interrupted."""
    if not target.exists():
        fresh.rename(target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    old = aside / "old"
    try:
        target.rename(old)
        fresh.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def raw_manifest(directory: Path, kind: str, version: int, noun: str, maker: str) -> dict[str, object]:
    """Return the unvalidated manifest of a directory of this kind and version, or raise a `UserError`."""
    path = directory / MANIFEST
    try:
        values = _load(path)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{directory}: not a {noun} (no {MANIFEST} in it); make one with {maker}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError:
        raise UserError(f"{path}: damaged; make it again with {maker}") from None
    if values.get("format") != kind:
        raise UserError(f"{directory}: not a {noun}; make one with {maker}")
    if values.get("version") != version:
        raise UserError(
            f"{directory}: format version {values.get('version')}, but this gfn4rec reads version {version}; "
            f"make it again with {maker}, or install the gfn4rec that made it"
        )
    return values


def _load(path: Path) -> dict[str, object]:
    values = json.loads(path.read_text(encoding="utf-8"))
    return values if isinstance(values, dict) else {}


def write_whole(path: Path, content: str | bytes) -> None:
    """Write or replace a file atomically."""
    fresh = path.with_name(f".{path.name}-new")
    try:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise UserError(f"{path}: writing failed, what was there before is untouched ({error.strerror})") from error


def make_directory(path: Path) -> None:
    """Create a directory and its parents unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another place") from error

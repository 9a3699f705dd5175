"""Locks that keep processes from writing the same file or directory at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from gfn4rec.errors import UserError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file or directory, which is a file beside it, while the block runs; wait for it first."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire()
    except OSError as error:
        raise UserError(f"{lock.lock_file}: cannot be locked ({error.strerror}); choose another place") from error
    try:
        yield
    finally:
        lock.release()

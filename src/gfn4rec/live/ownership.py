"""Which directory belongs to which store: versions and checkpoints mean nothing beside other samples."""

import json
import uuid
from pathlib import Path
from typing import Final

from gfn4rec.errors import UserError
from gfn4rec.live.store.state import newest_version, read_property, write_property
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.writer import StoreError
from gfn4rec.storage import make_directory, write_whole

_PROPERTY: Final = "id"
_FILE: Final = "store.json"
_OTHER: Final = "belongs to another store; name that one with --store, or choose another --live"


def claim(directory: Path, store: Store) -> None:
    """Refuse a directory that belongs to another store; mark one that is new as this store's."""
    with store.read() as connection:
        known, has_versions = read_property(connection, _PROPERTY), newest_version(connection) > 0
    marked = _mark_of(directory)
    if known is None:
        if marked is not None:
            raise UserError(
                f"{directory}: belongs to another store; name that one with --store, or choose another --live"
            )
        known = uuid.uuid4().hex
        store.write(lambda connection: write_property(connection, _PROPERTY, known)).result()
    if marked is None and not has_versions:
        make_directory(directory)
        write_whole(directory / _FILE, json.dumps({_PROPERTY: known}))
    elif marked != known:
        raise UserError(f"{directory}: is not where this store's versions are; name their directory with --live")


def check_claim(directory: Path, store: Store) -> None:
    """Raise an error unless the directory is that of the store: a `StoreError` if no service has begun there yet."""
    with store.read() as connection:
        known = read_property(connection, _PROPERTY)
    marked = _mark_of(directory)
    if known is None or marked is None:
        raise StoreError(f"{directory}: no service has been started there yet")
    if marked != known:
        raise UserError(f"{directory}: {_OTHER}")


def _mark_of(directory: Path) -> str | None:
    try:
        values = json.loads((directory / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{directory / _FILE}: cannot be read ({error}); restore it from a copy") from error
    return str(values.get(_PROPERTY)) if isinstance(values, dict) else ""

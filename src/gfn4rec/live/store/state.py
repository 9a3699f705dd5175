"""Operations on versions, changes of the catalogue, and properties; each runs in the transaction of its connection."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from gfn4rec.live.records import ItemChange
from gfn4rec.live.store.tables import item_changes, properties, versions

CANDIDATE, PROMOTED, RETIRED, REJECTED = "candidate", "promoted", "retired", "rejected"
AUTOMATIC: Final = "automatic_promotion"


def add_item_change(
    connection: sa.Connection, item: str, is_enabled: bool, title: str | None, features: Mapping[str, Any], now: float
) -> ItemChange:
    """Store the new state of an item, under the next revision of the catalogue."""
    revision = 1 + newest_revision(connection)
    change = ItemChange(revision, item, is_enabled, title, dict(features))
    values = {name: getattr(change, name) for name in ItemChange.__dataclass_fields__}
    connection.execute(sa.insert(item_changes).values(**values, changed=now))
    return change


def item_changes_after(connection: sa.Connection, revision: int) -> list[ItemChange]:
    """Return the changes of the catalogue after a revision, in their order."""
    columns = [item_changes.c[name] for name in ItemChange.__dataclass_fields__]
    query = sa.select(*columns).where(item_changes.c.revision > revision).order_by(item_changes.c.revision)
    return [ItemChange(*row) for row in connection.execute(query)]


def newest_revision(connection: sa.Connection) -> int:
    """Return the revision of the catalogue; 0: as in the data set."""
    return connection.scalar(sa.select(sa.func.max(item_changes.c.revision))) or 0


def add_version(connection: sa.Connection, values: Mapping[str, Any]) -> None:
    """Store a version, unless it is there."""
    query = sa.select(versions.c.version).where(versions.c.version == values["version"])
    if connection.scalar(query) is None:
        connection.execute(sa.insert(versions).values(**values))


def change_version(connection: sa.Connection, version: int, **values: Any) -> None:
    """Change what is stored of a version."""
    connection.execute(sa.update(versions).where(versions.c.version == version).values(**values))


def promote(connection: sa.Connection, version: int, now: float) -> None:
    """Make a version the promoted one, and retire the one before."""
    before = sa.update(versions).where(versions.c.state == PROMOTED, versions.c.version != version)
    connection.execute(before.values(state=RETIRED))
    change_version(connection, version, state=PROMOTED, promoted=now, reason=None)


def all_versions(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return what is stored of all versions, newest first."""
    query = sa.select(versions).order_by(versions.c.version.desc())
    return [dict(row) for row in connection.execute(query).mappings()]


def read_property(connection: sa.Connection, name: str) -> Any:
    """Return a property, or None."""
    return connection.scalar(sa.select(properties.c.value).where(properties.c.name == name))


def write_property(connection: sa.Connection, name: str, value: Any) -> None:
    """Set a property."""
    connection.execute(sa.delete(properties).where(properties.c.name == name))
    connection.execute(sa.insert(properties).values(name=name, value=value))

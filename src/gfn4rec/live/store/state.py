"""Operations on versions, changes of the catalogue, and properties; each runs in the transaction of its connection."""

from typing import Any, Final

import sqlalchemy as sa

from gfn4rec.live.records import Features, ItemChange, VersionRow
from gfn4rec.live.store.tables import item_changes, properties, versions

CANDIDATE, PROMOTED, RETIRED, REJECTED = "candidate", "promoted", "retired", "rejected"
ROLLED_BACK: Final = "rolled_back"
"""Whether new versions wait until one is promoted by hand."""
ACCEPTED: Final = "accepted_version"
"""The latest version that was promoted by hand though its loss was rejected."""
_LARGEST_NUMBER: Final = 2**31 - 1


def add_item_change(
    connection: sa.Connection, item: str, is_enabled: bool, title: str | None, features: Features, now: float
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


def add_version(connection: sa.Connection, row: VersionRow) -> None:
    """Store a version, unless it is there."""
    query = sa.select(versions.c.version).where(versions.c.version == row.version)
    if connection.scalar(query) is None:
        connection.execute(sa.insert(versions).values(**vars(row)))


def change_version(connection: sa.Connection, version: int, **values: Any) -> None:
    """Change what is stored of a version."""
    connection.execute(sa.update(versions).where(versions.c.version == version).values(**values))


def promote(connection: sa.Connection, version: int, now: float | None) -> None:
    """Make a version the promoted one, and retire the one before; without a time, its earlier promotion counts."""
    before = sa.update(versions).where(versions.c.state == PROMOTED, versions.c.version != version)
    connection.execute(before.values(state=RETIRED))
    time = {} if now is None else {"promoted": now}
    change_version(connection, version, state=PROMOTED, reason=None, **time)


def newest_version(connection: sa.Connection) -> int:
    """Return the largest number of a version, or 0."""
    return connection.scalar(sa.select(sa.func.max(versions.c.version))) or 0


def recent_versions(connection: sa.Connection, count: int) -> list[VersionRow]:
    """Return what is stored of the latest versions and of the promoted one, newest first."""
    is_wanted = (versions.c.state == PROMOTED) | (versions.c.version > newest_version(connection) - count)
    query = sa.select(versions).where(is_wanted).order_by(versions.c.version.desc())
    return [VersionRow(**row) for row in connection.execute(query).mappings()]


def find_version(connection: sa.Connection, version: int) -> VersionRow | None:
    """Return what is stored of a version, or None."""
    if version > _LARGEST_NUMBER:  # SQLite takes no such number, not even to compare with
        return None
    row = connection.execute(sa.select(versions).where(versions.c.version == version)).mappings().first()
    return None if row is None else VersionRow(**row)


def promoted_before(connection: sa.Connection, count: int) -> list[VersionRow]:
    """Return the versions that were promoted before the promoted one, latest first, at most `count`.

    One that was rolled back has lost the time of its promotion, so it is not among them.
    """
    since = sa.select(versions.c.promoted).where(versions.c.state == PROMOTED).scalar_subquery()
    is_before = (versions.c.state == RETIRED) & (versions.c.promoted < since)
    query = sa.select(versions).where(is_before).order_by(versions.c.promoted.desc()).limit(count)
    return [VersionRow(**row) for row in connection.execute(query).mappings()]


def read_property(connection: sa.Connection, name: str) -> Any:
    """Return a property, or None."""
    return connection.scalar(sa.select(properties.c.value).where(properties.c.name == name))


def write_property(connection: sa.Connection, name: str, value: Any) -> None:
    """Set a property."""
    connection.execute(sa.delete(properties).where(properties.c.name == name))
    connection.execute(sa.insert(properties).values(name=name, value=value))

"""Opening a store: SQLite in a file, or PostgreSQL by its address."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from filelock import FileLock, Timeout
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool

from gfn4rec.errors import UserError
from gfn4rec.live.store.tables import versions
from gfn4rec.live.store.writer import Operation, StoreError, Writer, reason

Result = TypeVar("Result")
_DIALECTS: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_ADVISORY_LOCK: Final = 0x67666E34726563  # one service per PostgreSQL database
_LOCK_NOT_AVAILABLE: Final = "55P03"  # PostgreSQL's code of a lock that was waited for too long
_SECONDS_TO_CONNECT: Final = 3
_SECONDS_FOR_LOCK: Final = 3
_SECONDS_FOR_READER: Final = 10  # until one of the connections that read is free
# A host or network that is gone is noticed within half a minute, by the client and, so that it frees the lock of a
# service that is gone, by the server.
_CLIENT_KEEPALIVES: Final = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
_SERVER_KEEPALIVES: Final = (
    "SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
)
_SCHEMES: Final = "write the path of a file for SQLite, or postgresql+psycopg://USER@HOST/DATABASE"
# A commit is on the disk before it returns, even if the server is set up otherwise.
_DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)


class Store:
    """A store with at most one writing connection, which `write` uses, and others that only read.

    One connection writes because SQLite before 3.51.3 can lose commits if two write and checkpoint at once, and because
    operations that share a transaction share its wait for the disk.
    """

    def __init__(self, url: str, read_only: bool = False) -> None:
        self.url = _parsed(url)
        self.dialect = _DIALECTS[self.url.get_backend_name()]
        self._lock = None if read_only else self._take_lock()
        self._reading = _engine(self.url, read_only=True)
        self._writer: Writer | None = None
        if read_only:
            return
        try:
            connection = self._open()
        except BaseException:
            self._release_lock()
            raise
        self._writer = Writer(self._writing_connection, connection)

    def write(self, operation: Operation[Result]) -> Future[Result]:
        """Return the future result of an operation, which is there once it is committed."""
        assert self._writer is not None, "opened for reading"
        return self._writer.submit(operation)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Yield a connection that only reads; a failure raises `StoreError`."""
        try:
            with self._reading.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise StoreError(reason(error)) from error
        except PoolTimeout as error:
            raise StoreError("too many reads at once") from error

    def check_reading(self) -> None:
        """Raise `StoreError` unless the store can be read."""
        with self.read() as connection:
            connection.execute(sa.select(versions.c.version).limit(1))

    @property
    def problem(self) -> str | None:
        """Why the latest write failed; None if it did not."""
        return None if self._writer is None else self._writer.problem

    def close(self) -> None:
        """Finish waiting writes and let go of the store."""
        if self._writer is not None:
            self._writer.close()
        self._reading.dispose()
        self._release_lock()

    def _take_lock(self) -> FileLock | None:
        """Refuse a second service on an SQLite file; PostgreSQL's lock belongs to the writing connection."""
        if self.url.database is None or self.dialect != "SQLite":
            return None
        path = Path(self.url.database)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Not of one thread: a service is opened in one and closed in another.
            lock = FileLock(path.with_name(f"{path.name}.lock"), thread_local=False)
            lock.acquire(timeout=0)
        except Timeout:
            raise UserError(f"{path}: another service uses this store; stop it, or choose another --store") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror}); choose another --store") from error
        return lock

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _writing_connection(self) -> sa.Connection:
        connection = _engine(self.url).connect()
        if self.dialect == "PostgreSQL":
            try:
                _own(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _open(self) -> sa.Connection:
        """Return the writing connection of a store that is whole, with the tables of this version."""
        with _explained(self._name):
            connection = self._writing_connection()
            try:
                if self.dialect == "SQLite":
                    _check_file(connection)
                _migrate(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    @property
    def _name(self) -> str:
        """What messages call the store."""
        return (self.url.database or "") if self.dialect == "SQLite" else self.url.render_as_string()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn what can happen when a store is opened into one line for the user."""
    try:
        yield
    except StoreError as error:
        raise UserError(f"{name}: {error}; choose another --store") from error
    except CommandError as error:
        raise UserError(f"{name}: was made by a newer gfn4rec; install that one ({error})") from error
    except DBAPIError as error:
        raise UserError(f"{name}: cannot be opened as a store ({reason(error)}); choose another --store") from error


def _own(connection: sa.Connection) -> None:
    """Take PostgreSQL's lock of a service; the session of one that has just ended may hold it for a moment."""
    connection.exec_driver_sql(_DURABLE)
    connection.exec_driver_sql(_SERVER_KEEPALIVES)
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_SECONDS_FOR_LOCK}s'")
    try:
        connection.execute(sa.select(sa.func.pg_advisory_lock(_ADVISORY_LOCK)))
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise StoreError("another service uses this store; stop it") from error
    connection.commit()


def _check_file(connection: sa.Connection) -> None:
    """Refuse a damaged SQLite file, or a file system without the log that makes commits safe."""
    mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
    state = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    connection.rollback()
    if mode != "wal":
        raise StoreError(f"its file system has no write-ahead log (mode {mode})")
    if state != "ok":
        raise StoreError(f"the file is damaged ({str(state).splitlines()[-1]}); restore it from a copy")


def _migrate(connection: sa.Connection) -> None:
    """Create the tables, or bring those of an older version up to date."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    with connection.begin():
        command.upgrade(config, "head")


def _parsed(url: str) -> sa.URL:
    """Return the address of a store; a plain path is an SQLite file."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme != "sqlite":
        return _parsed_postgresql(url, scheme)
    path = rest.removeprefix("/") if separator else url  # sqlite:///relative, sqlite:////absolute
    if path in ("", ":memory:"):
        raise UserError(f"--store {url}: name a file, because what is in memory is lost")
    return sa.URL.create("sqlite", database=str(Path(path).resolve()))


def _parsed_postgresql(url: str, scheme: str) -> sa.URL:
    if scheme != "postgresql+psycopg":
        raise UserError(f"--store {scheme}://...: {_SCHEMES}")
    try:
        return sa.make_url(url)
    except (ArgumentError, ValueError) as error:  # the message leaves out the address, which may hold a password
        raise UserError(f"--store {scheme}://...: not an address; {_SCHEMES}") from error


def _engine(url: sa.URL, read_only: bool = False) -> sa.Engine:
    if url.get_backend_name() == "postgresql":
        arguments: dict[str, object] = {"connect_timeout": _SECONDS_TO_CONNECT, **_CLIENT_KEEPALIVES}
        if read_only:
            arguments["options"] = "-c default_transaction_read_only=on"
            return sa.create_engine(url, connect_args=arguments, pool_pre_ping=True, pool_timeout=_SECONDS_FOR_READER)
        return sa.create_engine(url, connect_args=arguments, poolclass=NullPool)
    if read_only:
        assert url.database is not None
        uri = f"{Path(url.database).as_uri()}?mode=ro"
        return sa.create_engine(
            "sqlite://", creator=_sqlite_reader(uri), poolclass=sa.QueuePool, pool_timeout=_SECONDS_FOR_READER
        )
    engine = sa.create_engine(
        url, connect_args={"check_same_thread": False, "isolation_level": None}, poolclass=NullPool
    )
    sa.event.listen(engine, "connect", _set_up_sqlite)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _sqlite_reader(uri: str) -> Callable[[], Any]:
    import sqlite3

    return lambda: sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=_SECONDS_TO_CONNECT)


def _set_up_sqlite(connection: DBAPIConnection, _: object) -> None:
    cursor = connection.cursor()
    # A commit is on the disk before it returns, and survives a loss of power.
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=3000"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()

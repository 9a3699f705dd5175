"""Opening a store: what it is set up with, who may write, and what is refused in one line."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gfn4rec.errors import UserError
from gfn4rec.live.service import LiveService
from gfn4rec.live.store import store as opening
from gfn4rec.live.store.state import read_property, write_property
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.tables import metadata, properties
from gfn4rec.live.store.writer import StoreError
from tests.live.fakes import LONGEST_WAIT, recommend

_HOLD = """
import sys
from gfn4rec.live.store.store import Store
store = Store(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def refusal(url: str) -> str:
    """The one line that says why a store cannot be opened."""
    with pytest.raises(UserError) as caught:
        Store(url)
    message = str(caught.value)
    assert "\n" not in message
    return message


def set_property(store: Store, name: str, value: object) -> None:
    store.write(lambda connection: write_property(connection, name, value)).result(LONGEST_WAIT)


def get_property(store: Store, name: str) -> object:
    with store.read() as connection:
        return read_property(connection, name)


@contextmanager
def held_by_another_process(url: str) -> Iterator["subprocess.Popen[str]"]:
    """Open a store in another process, which lets go of it when it is killed."""
    command = [sys.executable, "-c", _HOLD, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_service_answers_and_repeats_itself(service: LiveService) -> None:
    first = recommend(service, "r1")
    assert recommend(service, "r1") == first
    assert len(set(first[0].slate)) == 3


def test_migrations_create_the_tables(store: Store) -> None:
    def differences(connection: sa.Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, metadata))

    assert store.write(differences).result(LONGEST_WAIT) == []
    with store.read() as connection:
        names = sa.inspect(connection).get_table_names()
    assert set(names) == {*metadata.tables, "alembic_version"}


def test_sqlite_waits_for_the_disk(new_store_url: Callable[[str], str]) -> None:
    store = Store(new_store_url("sqlite"))
    names = ("journal_mode", "synchronous", "foreign_keys")
    settings = store.write(
        lambda connection: [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
    ).result(LONGEST_WAIT)
    store.close()
    assert settings == ["wal", 2, 1]  # 2: FULL


def test_sqlite_without_a_write_ahead_log_is_refused(
    new_store_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, set_up = new_store_url("sqlite"), opening._set_up_sqlite

    def without_log(connection: Any, record: object) -> None:
        set_up(connection, record)
        connection.execute("PRAGMA journal_mode=DELETE")

    with monkeypatch.context() as patch:
        patch.setattr(opening, "_set_up_sqlite", without_log)
        assert "has no write-ahead log (mode delete); choose another --store" in refusal(url)
    Store(url).close()  # the lock was let go of


def test_postgresql_waits_for_the_disk_whatever_its_settings(new_store_url: Callable[[str], str]) -> None:
    url = new_store_url("postgresql")
    name = url.rpartition("/")[2]
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as direct:
        direct.execute(f"ALTER DATABASE {name} SET synchronous_commit TO off")
    store = Store(url)

    def settings(connection: sa.Connection) -> list[object]:
        names = ("synchronous_commit", "lock_timeout", "tcp_keepalives_idle")
        return [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]

    with store.read() as connection:
        assert settings(connection)[0] == "off"
    assert store.write(settings).result(LONGEST_WAIT) == ["on", "0", "15"]
    store.close()


def test_one_connection_writes(store: Store) -> None:
    used: set[tuple[int, str]] = set()

    def note(connection: sa.Connection) -> None:
        used.add((id(connection.connection.dbapi_connection), threading.current_thread().name))

    threads = [threading.Thread(target=lambda: store.write(note).result(LONGEST_WAIT)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(used) == 1
    assert {name for _, name in used} == {"store writer"}
    with pytest.raises(StoreError, match=r"readonly|read-only"), store.read() as connection:
        write_property(connection, "name", 1)
    assert get_property(store, "name") is None


def test_a_reader_sees_what_is_committed_and_writes_nothing(store: Store, store_url: str) -> None:
    reader = Store(store_url, read_only=True)
    set_property(store, "name", "from the writer")
    assert get_property(reader, "name") == "from the writer"
    assert reader.problem is None
    with pytest.raises(AssertionError, match="opened for reading"):
        reader.write(lambda _: None)
    with pytest.raises(StoreError, match=r"readonly|read-only"), reader.read() as connection:
        connection.execute(sa.delete(properties))
    store.close()
    assert get_property(reader, "name") == "from the writer"
    reader.close()


def test_reading_where_there_is_no_store(tmp_path: Path) -> None:
    reader = Store(str(tmp_path / "gone.db"), read_only=True)
    with pytest.raises(StoreError, match="unable to open database file"):
        reader.check_reading()
    assert list(tmp_path.iterdir()) == []


def test_readers_that_find_no_free_connection(
    new_store_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of the pool is one of the store: an answer of 503, not of 500."""
    monkeypatch.setattr(opening, "_SECONDS_FOR_READER", 0.01)
    store = Store(new_store_url("sqlite"))
    with pytest.raises(StoreError, match="too many reads at once"):
        hold_readers(store)
    store.check_reading()
    store.close()


def hold_readers(store: Store) -> None:
    """Take reading connections, and let go of none of them, until there is no other."""
    with store.read():
        hold_readers(store)


def test_a_store_is_kept(store: Store, store_url: str) -> None:
    set_property(store, "name", [1, "two"])
    store.close()
    again = Store(store_url)
    assert get_property(again, "name") == [1, "two"]
    again.close()


def test_a_store_of_another_process_is_refused_until_that_is_killed(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_SECONDS_FOR_LOCK", 1)
    with held_by_another_process(store_url) as process:
        message = refusal(store_url)
        assert "another service uses this store; stop it" in message
        assert message.endswith("choose another --store")
        Store(store_url, read_only=True).close()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(LONGEST_WAIT)
    store = Store(store_url)
    assert refusal(store_url) == message  # this process keeps others out in its turn
    store.close()
    Store(store_url).close()


def test_the_tables_of_a_newer_version(store: Store, store_url: str) -> None:
    set_property(store, "name", 1)
    store.write(
        lambda connection: connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    ).result(LONGEST_WAIT)
    store.close()
    assert "was made by a newer gfn4rec; install that one" in refusal(store_url)
    assert "was made by a newer gfn4rec" in refusal(store_url)  # and not: in use
    reader = Store(store_url, read_only=True)
    assert get_property(reader, "name") == 1
    reader.close()


def test_tables_of_something_else(store_url: str) -> None:
    """Names that are taken: nothing is changed, not even in part."""
    engine = sa.create_engine(store_url if "://" in store_url else f"sqlite:///{store_url}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE samples (name TEXT)")
    assert "cannot be opened as a store" in (message := refusal(store_url))
    assert "samples" in message
    assert "already exists" in message
    assert sa.inspect(engine).get_table_names() == ["samples"]
    engine.dispose()


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    store = Store(str(tmp_path / "store.db"))
    set_property(store, "name", 1)
    store.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("Dear diary, " * 1000)
    assert refusal(str(path)) == (
        f"{path}: cannot be opened as a store (file is not a database); choose another --store"
    )
    assert path.read_text() == "Dear diary, " * 1000


def test_a_damaged_file(new_store_url: Callable[[str], str]) -> None:
    url = new_store_url("sqlite")
    store = Store(url)
    for number in range(40):
        set_property(store, f"name {number}", "value" * 200)
    store.close()
    path = Path(url)
    content = bytearray(path.read_bytes())
    with sqlite3.connect(url) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'properties'").fetchone()
    connection.close()
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    message = refusal(url)
    assert "the file is damaged (" in message
    assert "Page " in message  # it says where
    assert "restore it from a copy" in message


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refusal(str(tmp_path / "file" / "store.db")).endswith("; choose another --store")
    assert "unable to open database file" in refusal(str(tmp_path))


@pytest.mark.parametrize("name", ["with space.db", "100%.db", "what?.db", "part#2.db", "ö.db"])
def test_unusual_names_of_files(tmp_path: Path, name: str) -> None:
    store = Store(f"sqlite:///{tmp_path}/new folder/{name}")
    set_property(store, "name", 1)
    assert get_property(store, "name") == 1
    assert (tmp_path / "new folder" / name).is_file()
    store.close()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "name a file, because what is in memory is lost"),
        ("sqlite://", "name a file, because what is in memory is lost"),
        (":memory:", "name a file, because what is in memory is lost"),
        ("mysql://me:secret@host/name", "--store mysql://...: write the path of a file for SQLite"),
        ("postgresql://me:secret@host/name", "or postgresql+psycopg://USER@HOST/DATABASE"),
        ("postgresql+psycopg://me:secret@host:port/name", "not an address"),
        ("postgresql+psycopg://me:secret@127.0.0.1:1/name", "cannot be opened as a store"),
    ],
)
def test_addresses_that_cannot_be_used(url: str, sentence: str) -> None:
    message = refusal(url)
    assert sentence in message
    assert "secret" not in message

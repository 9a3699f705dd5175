"""Databases that stop and disks that are full: nothing acknowledged is lost, nothing else is acknowledged."""

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from gfn4rec.live.records import Event
from gfn4rec.live.store.state import write_property
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.tables import events, properties
from gfn4rec.live.store.writer import StoreError
from tests.live.conftest import NewService
from tests.live.fakes import LONGEST_WAIT, recommend
from tests.live.postgresql import Cluster, new_cluster

_WRITE_UNTIL_FULL = """
import json, resource, sys
from gfn4rec.live.store.state import write_property
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.writer import StoreError

store, acknowledged = Store(sys.argv[1]), []

def put(number):
    store.write(lambda connection: write_property(connection, f"name {number}", "x" * 20_000)).result(60)
    acknowledged.append(number)

put(0)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
problems = []
for number in range(1, 40):
    try:
        put(number)
    except StoreError as error:
        problems.append(str(error))
        assert store.problem == str(error)
num_before = len(acknowledged)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
put(100)
assert store.problem is None
print(json.dumps({"acknowledged": acknowledged, "num_before": num_before, "problems": problems}))
"""


@pytest.fixture(scope="module")
def stoppable() -> Iterator[Cluster]:
    """A server of this module's own, which waits for the disk as one in service does."""
    cluster = new_cluster()
    yield cluster
    cluster.remove()


class SmallDisk:
    """Limits the pages of every SQLite file, as a disk without room does."""

    def __init__(self) -> None:
        self.pages: int | None = None

    def __call__(self, connection: Any, _: object) -> None:
        if self.pages is not None:
            connection.execute(f"PRAGMA max_page_count={self.pages}")


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    small = SmallDisk()
    sa.event.listen(sa.Engine, "connect", small)
    yield small
    sa.event.remove(sa.Engine, "connect", small)


def names_in(store: Store) -> set[str]:
    with store.read() as connection:
        return set(connection.scalars(sa.select(properties.c.name)))


def test_an_immediate_stop_of_postgresql_loses_nothing_acknowledged(stoppable: Cluster) -> None:
    store = Store(stoppable.new_database())
    acknowledged: list[str] = []
    is_enough = threading.Event()

    def write_until_it_fails(thread: int) -> None:
        for number in itertools.count():
            name = f"{thread}/{number}"
            try:
                store.write(partial(write_property, name=name, value=1)).result(LONGEST_WAIT)
            except StoreError:
                return
            acknowledged.append(name)
            if len(acknowledged) >= 50:
                is_enough.set()

    threads = [threading.Thread(target=write_until_it_fails, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    assert is_enough.wait(LONGEST_WAIT)
    stoppable.stop("immediate")
    for thread in threads:
        thread.join(LONGEST_WAIT)
    assert store.problem
    assert "\n" not in store.problem
    with pytest.raises(StoreError):
        store.check_reading()
    stoppable.start()
    store.write(lambda connection: write_property(connection, "after", 1)).result(LONGEST_WAIT)
    assert store.problem is None
    stored = names_in(store)
    assert stored >= {"after", *acknowledged}
    assert len(stored) <= 1 + len(acknowledged) + len(threads)  # each thread may have had one on its way
    store.close()


def test_a_session_that_is_ended_is_replaced(stoppable: Cluster) -> None:
    """As after a restart of the server or of a connection pool: the next write takes the lock of the service again."""
    url = stoppable.new_database()
    store = Store(url)

    def end(connection: sa.Connection) -> None:
        connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreError, match="terminating connection"):
        store.write(end).result(LONGEST_WAIT)
    store.write(lambda connection: write_property(connection, "after", 1)).result(LONGEST_WAIT)
    assert names_in(store) == {"after"}
    locks = """
        SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
        WHERE locktype = 'advisory' AND datname = current_database()
    """
    with store.read() as connection:
        assert connection.exec_driver_sql(locks).scalar() == 1
    store.close()


def test_a_full_disk_acknowledges_nothing_that_it_has_not_kept(
    new_store_url: Callable[[str], str], new_service: NewService, disk: SmallDisk
) -> None:
    store = Store(new_store_url("sqlite"))
    service = new_service(store)
    (decision,) = recommend(service, "before")
    batches = [
        [Event(f"e{number}/{part}", decision.decision_id, decision.slate[0], "click") for part in range(200)]
        for number in range(10)
    ]

    def fill(connection: sa.Connection) -> None:
        """Leave room for 20 pages, and also in connections to come."""
        disk.pages = 20 + (connection.exec_driver_sql("PRAGMA page_count").scalar() or 0)
        connection.exec_driver_sql(f"PRAGMA max_page_count={disk.pages}")

    store.write(fill).result(LONGEST_WAIT)
    outcomes = [(batch, service.feedback(batch).exception(LONGEST_WAIT)) for batch in batches]
    stored = [batch for batch, error in outcomes if error is None]
    refused = [batch for batch, error in outcomes if isinstance(error, StoreError)]
    assert stored
    assert len(refused) == len(batches) - len(stored) > 5
    assert {str(error) for _, error in outcomes} == {"None", "database or disk is full"}
    assert store.problem == "database or disk is full"
    service.shown(["nobody"]).exception(LONGEST_WAIT)  # by now the last batch has been counted
    with store.read() as connection:  # what is stored can still be read
        kept = set(connection.scalars(sa.select(events.c.event_id)))
    assert kept == {event.event_id for batch in stored for event in batch}
    assert service.statistics.counts["event/stored"] == len(kept)

    disk.pages = 1_000_000
    store.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=1000000")).result(LONGEST_WAIT)
    for batch in refused:
        assert service.feedback(batch).result(LONGEST_WAIT) == ["stored"] * 200
    assert store.problem is None
    assert recommend(service, "before") == (decision,)
    store.close()


def test_a_file_that_cannot_grow(new_store_url: Callable[[str], str]) -> None:
    """The operating system refuses to write, in the middle of a commit; once there is room, writing goes on."""
    url = new_store_url("sqlite")
    command = [sys.executable, "-c", _WRITE_UNTIL_FULL, url]
    child = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_WAIT)
    assert child.returncode == 0, child.stderr
    told = json.loads(child.stdout)
    assert 1 < told["num_before"] < 20
    assert len(told["problems"]) == 40 - told["num_before"]
    assert set(told["problems"]) <= {"disk I/O error", "database or disk is full"}
    store = Store(url)
    assert names_in(store) == {f"name {number}" for number in told["acknowledged"]}
    store.close()

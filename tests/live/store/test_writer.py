"""The thread that writes: operations share a transaction, and each gets its own result or its own failure."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from gfn4rec.errors import UserError
from gfn4rec.live.store.state import read_property, write_property
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.tables import properties
from gfn4rec.live.store.writer import StoreError, Writer
from tests.live.fakes import LONGEST_WAIT


class Held:
    """Keeps the writer busy until it is let go of, so that what is submitted meanwhile waits."""

    def __init__(self, store: Store | Writer) -> None:
        self.may_end, has_begun = threading.Event(), threading.Event()

        def hold(_: sa.Connection) -> bool:
            has_begun.set()
            return self.may_end.wait(LONGEST_WAIT)

        self.future = store.write(hold) if isinstance(store, Store) else store.submit(hold)
        assert has_begun.wait(LONGEST_WAIT)

    def let_go(self) -> None:
        self.may_end.set()
        assert self.future.result(LONGEST_WAIT)


@pytest.fixture
def commits() -> Iterator[list[object]]:
    """One entry for each commit of any engine."""
    seen: list[object] = []

    def note(connection: sa.Connection) -> None:
        seen.append(connection)

    sa.event.listen(sa.Engine, "commit", note)
    yield seen
    sa.event.remove(sa.Engine, "commit", note)


def put(store: Store, name: str, value: object = 1) -> "Future[None]":
    return store.write(lambda connection: write_property(connection, name, value))


def stored(store: Store) -> dict[str, object]:
    with store.read() as connection:
        return {row.name: row.value for row in connection.execute(sa.select(properties))}


def fail_with(error: BaseException) -> Any:
    def operation(connection: sa.Connection) -> None:
        write_property(connection, "half", "done")
        raise error

    return operation


def test_what_waits_shares_a_commit(store: Store, commits: list[object]) -> None:
    held = Held(store)
    futures = [put(store, f"name {number}", number) for number in range(20)]
    before = len(commits)
    held.let_go()
    assert [future.result(LONGEST_WAIT) for future in futures] == [None] * 20
    assert len(commits) - before == 2  # that of the held one, and one for all others
    assert stored(store) == {f"name {number}": number for number in range(20)}


def test_a_group_is_limited(store: Store, commits: list[object]) -> None:
    held = Held(store)
    futures = [store.write(lambda _: 1) for _ in range(257)]
    before = len(commits)
    held.let_go()
    assert sum(future.result(LONGEST_WAIT) for future in futures) == 257
    assert len(commits) - before == 3


def test_results_come_after_the_commit(store: Store) -> None:
    """Whoever waits for a result finds it in the store, over another connection."""
    for number in range(20):
        future = put(store, "name", number)
        seen: list[object] = []
        future.add_done_callback(lambda _, seen=seen: seen.append(stored(store)["name"]))  # type: ignore[misc]
        future.result(LONGEST_WAIT)
        store.write(lambda _: None).result(LONGEST_WAIT)  # the callback has run
        assert seen == [number]


@pytest.mark.parametrize("kind", ["user's mistake", "constraint", "bug"])
def test_one_that_fails_takes_no_other_along(store: Store, kind: str) -> None:
    def break_constraint(connection: sa.Connection) -> None:
        for _ in range(2):
            connection.execute(sa.insert(properties).values(name="half", value=1))

    operation, kind_of_error = {
        "user's mistake": (fail_with(UserError("no such item")), UserError),
        "constraint": (break_constraint, IntegrityError),
        "bug": (fail_with(ZeroDivisionError()), ZeroDivisionError),
    }[kind]
    held = Held(store)
    before, guilty, after = put(store, "before"), store.write(operation), put(store, "after")
    reading = store.write(lambda connection: read_property(connection, "before"))
    held.let_go()
    with pytest.raises(kind_of_error):
        guilty.result(LONGEST_WAIT)
    assert (before.result(LONGEST_WAIT), after.result(LONGEST_WAIT)) == (None, None)
    assert reading.result(LONGEST_WAIT) == 1  # in the order in which they were submitted
    assert stored(store) == {"before": 1, "after": 1}
    assert store.problem is None  # the store itself is in order


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_even_the_end_of_a_thread_does_not_end_the_writer(store: Store) -> None:
    with pytest.raises(SystemExit):
        store.write(fail_with(SystemExit())).result(LONGEST_WAIT)
    put(store, "after").result(LONGEST_WAIT)
    assert stored(store) == {"after": 1}


def test_what_is_cancelled_before_it_begins_does_not_run(store: Store) -> None:
    held = Held(store)
    given_up, other = put(store, "given up"), put(store, "other")
    assert given_up.cancel()
    assert not held.future.cancel()  # it has begun
    held.let_go()
    other.result(LONGEST_WAIT)
    assert stored(store) == {"other": 1}


def test_closing_finishes_what_waits_and_takes_nothing_more(store: Store, store_url: str) -> None:
    held = Held(store)
    futures = [put(store, f"name {number}") for number in range(300)]
    closing = threading.Thread(target=store.close)
    closing.start()
    held.let_go()
    closing.join(LONGEST_WAIT)
    assert [future.result(0) for future in futures] == [None] * 300
    with pytest.raises(StoreError, match="it is closed"):
        put(store, "late")
    store.close()  # once more does no harm
    reader = Store(store_url, read_only=True)
    assert len(stored(reader)) == 300
    reader.close()


def test_waiting_writes_are_limited() -> None:
    writer = Writer(lambda: sa.create_engine("sqlite://").connect(), capacity=2)
    held = Held(writer)
    waiting = [writer.submit(lambda _: 1), writer.submit(lambda _: 2)]
    with pytest.raises(StoreError, match="too many writes are waiting"):
        writer.submit(lambda _: 3)
    held.let_go()
    assert [future.result(LONGEST_WAIT) for future in waiting] == [1, 2]
    assert writer.submit(lambda _: 4).result(LONGEST_WAIT) == 4
    writer.close()


def test_a_lost_connection_is_replaced_and_its_failure_is_told() -> None:
    is_gone = [True, False]

    def connect() -> sa.Connection:
        if is_gone.pop(0):
            raise StoreError("the server is gone")
        return sa.create_engine("sqlite://").connect()

    writer = Writer(connect)
    with pytest.raises(StoreError, match="the server is gone"):
        writer.submit(lambda _: 1).result(LONGEST_WAIT)
    assert writer.problem == "the server is gone"
    assert writer.submit(lambda _: 2).result(LONGEST_WAIT) == 2
    assert writer.problem is None
    writer.close()

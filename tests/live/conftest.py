"""What tests of the live service share: stores on both databases, a small data set, a clock that is set by hand.

`fakes.py` has the clock, the policy and the service; `postgresql.py` starts a server of the tests' own.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.service import LiveService
from gfn4rec.live.store.store import Store
from tests.live.fakes import HISTORY, FakeClock, prepare_live_data, running_service
from tests.live.postgresql import Cluster, new_cluster

DIALECTS = ("sqlite", "postgresql")
NewService: TypeAlias = Callable[..., LiveService]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    """A PostgreSQL server that all tests of a process share; whoever stops one takes `new_cluster` of `postgresql.py`.

    It does not wait for the disk, which only a loss of power could show: processes may be killed at any moment.
    """
    cluster = new_cluster(fsync=False)
    yield cluster
    cluster.remove()


@pytest.fixture
def new_store_url(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Return the address of a new, empty store on a database: `sqlite` or `postgresql`."""

    def new(dialect: str) -> str:
        if dialect == "sqlite":
            return str(tmp_path / "store.db")
        cluster: Cluster = request.getfixturevalue("postgresql")
        return cluster.new_database()

    return new


@pytest.fixture(params=DIALECTS)
def store_url(request: pytest.FixtureRequest, new_store_url: Callable[[str], str]) -> str:
    """The address of a new, empty store; a test that takes it runs on each database."""
    return new_store_url(request.param)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A new store on each database, open for writing."""
    opened = Store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands at 1,000 seconds until it is set."""
    return FakeClock()


@pytest.fixture(scope="session")
def live_data(tmp_path_factory: pytest.TempPathFactory) -> SlateData:
    """A prepared log of four users and eight items, in slates of three; see `prepare_live_data`."""
    folder = tmp_path_factory.mktemp("live") / "data"
    prepare_live_data(folder)
    return SlateData.open(folder, HISTORY)


@pytest.fixture
def new_service(live_data: SlateData, clock: FakeClock) -> Iterator[NewService]:
    """Build a running service with the fake policy on a store; it ends with the test."""
    with ExitStack() as stack:

        def new(store: Store, **settings: Any) -> LiveService:
            return stack.enter_context(running_service(live_data, store, clock, **settings))

        yield new


@pytest.fixture
def service(new_service: NewService, store: Store) -> LiveService:
    """A running service on a new store on each database."""
    return new_service(store)

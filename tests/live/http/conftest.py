"""One small run for all tests, a service of it that they share, and services of their own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from starlette.testclient import TestClient

from gfn4rec.live.host import Host
from tests.live.http.serving import make_run, new_client, open_host

NewHost: TypeAlias = Callable[..., Host]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the default policy."""
    return make_run(tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="session")
def shared_host(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """The service that `client` asks."""
    return open_host(run, tmp_path_factory.mktemp("shared") / "live")


@pytest.fixture(scope="session")
def client(shared_host: Host) -> Iterator[TestClient]:
    """A client of a service that tests share: each uses ids of its own, and leaves the catalogue as it is."""
    with new_client(shared_host) as opened:
        yield opened


@pytest.fixture
def new_host(run: Path, tmp_path: Path) -> Iterator[NewHost]:
    """Start a service of the test's own; the same name of a directory opens the same store again."""
    with ExitStack() as stack:

        def make(name: str = "live", is_started: bool = True, of: Path = run, **config: Any) -> Host:
            host = open_host(of, tmp_path / name, **config)
            stack.callback(host.stop)
            if is_started:
                host.start()
            return host

        yield make


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a policy without a prior, with histories of responses alone."""
    return make_run(tmp_path_factory.mktemp("plain"), "gfn", history="responded")

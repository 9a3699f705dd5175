"""A running service in this process, and both clients of it."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest
from starlette.testclient import TestClient

from gfn4rec import train
from gfn4rec.client import AsyncClient, Client
from gfn4rec.live.config import ServiceConfig
from gfn4rec.live.host import Host, Place
from gfn4rec.live.http.app import create_app
from tests.training.conftest import small_settings

URL = "http://localhost"


class Caller(Protocol):
    """Calls a method of a client, which may be sync or async."""

    def __call__(self, method: str, *arguments: Any, **options: Any) -> Any: ...


@pytest.fixture(scope="session")
def run_folder(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned next to nothing."""
    folder = tmp_path_factory.mktemp("client") / "run"
    train(small_settings("gfn", "offline", {"num_steps": 2}), data_folder, None, folder)
    return folder


@pytest.fixture(scope="session")
def application(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The application of a service without a learner, running."""
    host = Host(Place.of(run_folder, tmp_path_factory.mktemp("service"), None), ServiceConfig(wait=1000))
    with TestClient(create_app(host), URL) as running:
        yield running


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, application: TestClient) -> Iterator[Caller]:
    """Call the running service by either client."""
    with ExitStack() as stack:
        if request.param == "sync":
            client = stack.enter_context(Client(URL, transport=application._transport))
            yield lambda method, *arguments, **options: getattr(client, method)(*arguments, **options)
            return
        runner = stack.enter_context(asyncio.Runner())
        other = AsyncClient(URL, transport=httpx2.ASGITransport(application.app))
        yield lambda method, *arguments, **options: runner.run(getattr(other, method)(*arguments, **options))
        runner.run(other.aclose())

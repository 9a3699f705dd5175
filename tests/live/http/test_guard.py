"""Requests of foreign pages and to foreign names are refused before they reach the service."""

import asyncio
import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from gfn4rec.live.http.guard import Guard
from tests.live.http.serving import problem_of

OWN = "127.0.0.1:8000"


@pytest.mark.parametrize("host", [OWN, "localhost", "LOCALHOST:8000", "127.0.0.1", "[::1]", "[::1]:8000"])
def test_names_of_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/livez", headers={"host": host}).json() == {"status": "alive"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "10.0.0.1:8000"])
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    for path in ("/livez", "/", "/v1/status"):
        detail = problem_of(client.get(path, headers={"host": host}), 421)
        assert detail == f"host {host!r}: this service answers under 127.0.0.1 or localhost only"


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1:9000",
        "http://localhost:8000",
        "null",
        "",
        "http://[",
        "127.0.0.1:8000",
    ],
)
def test_pages_of_other_origins_are_refused(client: TestClient, origin: str) -> None:
    for method, path in (("GET", "/v1/status"), ("POST", "/v1/versions/rollback")):
        response = client.request(method, path, headers={"host": OWN, "origin": origin})
        assert problem_of(response, 403) == "requests from pages of another origin are refused"


def test_the_service_s_own_page_is_answered(client: TestClient) -> None:
    assert client.get("/v1/versions", headers={"host": OWN, "origin": f"http://{OWN}"}).status_code == 200


def test_an_answer_that_breaks_off_is_logged_and_gets_no_second_one(caplog: pytest.LogCaptureFixture) -> None:
    """Two answers to one request would confuse the connection."""
    sent: list[dict[str, Any]] = []

    async def fails_late(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("the secret")

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"localhost")]}
    with caplog.at_level(logging.ERROR):
        asyncio.run(Guard(fails_late)(scope, receive, send))
    assert [message["type"] for message in sent] == ["http.response.start"]
    assert "GET /x failed" in caplog.text
    assert "the secret" in caplog.text

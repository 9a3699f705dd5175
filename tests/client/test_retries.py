"""What the clients send, and when they send it again: a server in memory fails as often as it should."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import httpx2
import pytest

from gfn4rec.client import AsyncClient, Client, ClientError
from gfn4rec.client.retries import Patience
from gfn4rec.errors import UserError

URL = "http://127.0.0.1:8000"
Reply: TypeAlias = "httpx2.Response | Exception"
ANSWER = {
    "request_id": "r",
    "version": 3,
    "decision_id": "d",
    "items": [],
    "log_prob": -1.0,
    "slates": [{"decision_id": "d", "items": [{"id": "7", "title": None, "probability": 0.5}], "log_prob": -1.0}],
    "notes": ["a note"],
    "added_later": 1,
}


def problem(status: int, detail: str, retry_after: str | None = None) -> httpx2.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return httpx2.Response(status, json={"status": status, "detail": detail}, headers=headers)


class Server:
    """Gives its replies one after the other; the last one for good. Remembers requests and what the client slept."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.requests: list[httpx2.Request] = []
        self.slept: list[float] = []

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return httpx2.Response(reply.status_code, headers=reply.headers, content=reply.content)

    def set_up(self, client: Client | AsyncClient) -> None:
        """Give the client a clock that only its sleep moves, and no chance."""
        client.patience = Patience(client.patience.seconds, clock=lambda: sum(self.slept), draw=lambda: 1.0)


Ask: TypeAlias = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Call a method of either client against a server in memory."""

    def call(server: Server, method: str, *arguments: Any, patience: float = 30.0, **options: Any) -> Any:
        transport = httpx2.MockTransport(server.handle)
        if request.param == "sync":
            with Client(URL, patience=patience, transport=transport, sleep=server.slept.append) as client:
                server.set_up(client)
                return getattr(client, method)(*arguments, **options)

        async def run() -> Any:
            async def sleep(seconds: float) -> None:
                server.slept.append(seconds)

            async with AsyncClient(URL, patience=patience, transport=transport, sleep=sleep) as other:
                server.set_up(other)
                return await getattr(other, method)(*arguments, **options)

        return asyncio.run(run())

    return call


REFUSED = httpx2.ConnectError("Connection refused")
LOST = httpx2.ReadError("Connection reset")


def test_a_call_is_repeated_with_the_same_id_until_it_is_answered(ask: Ask) -> None:
    busy, away = problem(429, "too many requests are waiting; try again", "1"), problem(503, "no store", "3")
    server = Server(REFUSED, LOST, httpx2.ReadTimeout("late"), busy, away, httpx2.Response(200, json=ANSWER))
    answer = ask(server, "recommend", 42)
    assert (answer.version, answer.items[0].id, answer.notes) == (3, "7", ("a note",))
    first = server.bodies[0]
    assert first["user"] == "42"
    assert len(first["request_id"]) == 32
    assert server.bodies == [first] * 6
    assert server.slept == pytest.approx([0.1, 0.2, 0.4, 1 + 0.8, 3 + 1.6])


def test_events_keep_their_ids_and_calls_get_new_ones(ask: Ask) -> None:
    stored = httpx2.Response(200, json={"results": [{"event_id": "e", "status": "stored"}]})
    server = Server(LOST, stored)
    assert ask(server, "feedback", "d", 7, "click").status == "stored"
    ask(server, "feedback", "d", 7, "click")
    first, second, third = server.bodies
    assert first == second
    assert third.pop("event_id") != first.pop("event_id")
    assert first == third == {"decision_id": "d", "item": "7", "behaviour": "click", "value": 1, "time": None}


def test_patience_ends(ask: Ask) -> None:
    server = Server(REFUSED)
    with pytest.raises(ClientError, match="127.0.0.1:8000: nothing answers there .Connection refused.") as failure:
        ask(server, "status", patience=1.0)
    assert failure.value.status is None
    assert server.slept == pytest.approx([0.1, 0.2, 0.4])  # 0.8 more would be too long
    assert len(server.requests) == 4


def test_a_service_that_asks_for_more_than_the_patience_is_not_asked_again(ask: Ask) -> None:
    server = Server(problem(503, "the store cannot be reached (disk full); try again", "3600"))
    with pytest.raises(ClientError, match="the store cannot be reached .disk full.; try again") as failure:
        ask(server, "recommend")
    assert (failure.value.status, len(server.requests), server.slept) == (503, 1, [])


@pytest.mark.parametrize("status", [404, 409, 413, 422, 500])
def test_other_refusals_are_final(ask: Ask, status: int) -> None:
    server = Server(problem(status, "one clear sentence", "1"))
    with pytest.raises(ClientError, match="^one clear sentence$") as failure:
        ask(server, "get_item", 3)
    assert (failure.value.status, len(server.requests)) == (status, 1)


def test_a_rollback_is_repeated_only_if_it_was_not_sent(ask: Ask) -> None:
    done = httpx2.Response(200, json={"promoted": 2, "automatic_promotion": False, "versions": []})
    server = Server(REFUSED, problem(429, "wait", "1"), done)
    assert ask(server, "rollback", 3).promoted == 2
    assert [request.url.path for request in server.requests] == ["/v1/versions/3/rollback"] * 3
    for failure in (LOST, httpx2.ReadTimeout("late"), httpx2.RemoteProtocolError("closed")):
        server = Server(failure, done)
        with pytest.raises(ClientError):
            ask(server, "rollback")
        assert len(server.requests) == 1


def test_readiness_is_answered_at_once_and_awaited_if_asked(ask: Ask) -> None:
    server = Server(problem(503, "disk full", "1"), httpx2.Response(200, json={"status": "ready"}))
    ready = ask(server, "ready")
    assert (ready.is_ready, ready.problem, server.slept) == (False, "disk full", [])
    assert ask(server, "wait_until_ready").is_ready
    server = Server(REFUSED)
    with pytest.raises(ClientError, match="nothing answers"):
        ask(server, "ready")
    assert len(server.requests) == 1
    server = Server(problem(503, "disk full", "1"), httpx2.Response(200, json={"status": "ready"}))
    assert ask(server, "wait_until_ready").is_ready
    assert server.slept == pytest.approx([1.1])


@pytest.mark.parametrize(
    "reply",
    [
        httpx2.Response(200, text="<html>another program</html>"),
        httpx2.Response(200, json={"version": 1}),
        httpx2.Response(200, json=[1, 2]),
        httpx2.Response(404, text="Not Found"),
        httpx2.Response(404, json={"detail": {"no": "text"}}),
    ],
)
def test_another_program_at_the_address_is_recognised(ask: Ask, reply: httpx2.Response) -> None:
    for method, arguments in (("recommend", ()), ("shown", (["d"],))):
        with pytest.raises(ClientError, match=f"^{URL}: is no gfn4rec service"):
            ask(Server(reply), method, *arguments)


def test_retries_are_counted() -> None:
    server = Server(LOST, LOST, httpx2.Response(200, json={"users": ["1"], "total": 1}))
    with Client(f"{URL}/", transport=httpx2.MockTransport(server.handle), sleep=server.slept.append) as client:
        server.set_up(client)
        assert client.find_users("1", limit=5).users == ("1",)
        assert client.patience.num_retries == 2
    assert str(server.requests[-1].url) == f"{URL}/v1/users?search=1&limit=5"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:99999", "http://host/?a=1", ""]
)
def test_wrong_addresses_are_refused(url: str) -> None:
    for client in (Client, AsyncClient):
        with pytest.raises(UserError, match="is not the address of a service; write one such as http://127"):
            client(url)


WITHOUT_LIBRARY = """
import sys
sys.modules["httpx2"] = None
from gfn4rec.client import Client
try:
    Client("http://127.0.0.1:8000")
except Exception as error:
    print(type(error).__name__, error)
print("torch" in sys.modules, "sqlalchemy" in sys.modules)
"""


def test_the_client_needs_no_more_than_its_library() -> None:
    """Without it there is one clear line; torch and the store are not loaded."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_LIBRARY], capture_output=True, text=True, check=True)
    expected = "UserError httpx2 is not installed; `pip install 'gfn4rec[live]'` installs it\nFalse False\n"
    assert done.stdout == expected

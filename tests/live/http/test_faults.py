"""What fails inside: the service says so, loses nothing, and recovers by itself."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from gfn4rec.errors import RunError
from gfn4rec.live.store.tables import decisions, events
from gfn4rec.live.store.writer import StoreError
from tests.live.http.conftest import NewHost
from tests.live.http.serving import ask, ids, new_client, problem_of, recommend

PATIENCE = 60.0


def wait_for(condition: Callable[[], bool]) -> None:
    """Return once a condition holds."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, "it does not come true"
        time.sleep(0.01)


class FailingDisk:
    """Makes the commits of a store fail while it is broken."""

    def __init__(self) -> None:
        self.is_broken = False

    def __call__(self, _connection: sa.Connection) -> None:
        if self.is_broken:
            raise OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    failing = FailingDisk()
    sa.event.listen(sa.Engine, "commit", failing)
    yield failing
    sa.event.remove(sa.Engine, "commit", failing)


def count(host: Any, table: sa.Table) -> int:
    with host.store.read() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def test_a_store_that_cannot_write_answers_503_and_recovers_by_itself(new_host: NewHost, disk: FailingDisk) -> None:
    host = new_host(is_started=False)
    with new_client(host) as client:
        first = recommend(client, "before", user="3")
        event = {"event_id": "e", "decision_id": first["decision_id"], "item": ids(first)[0], "behaviour": "click"}
        assert client.get("/readyz").json() == {"status": "ready"}

        disk.is_broken = True
        calls: list[tuple[str, str, Any]] = [
            ("POST", "/v1/recommend", {"request_id": "during", "user": "3"}),
            ("POST", "/v1/feedback", event),
            ("POST", "/v1/shown", {"decision_ids": [first["decision_id"]]}),
            ("DELETE", f"/v1/items/{ids(first)[0]}", None),
        ]
        for method, path, body in calls:
            response = client.request(method, path, json=body)
            assert problem_of(response, 503) == "the store cannot be reached (disk I/O error); try again"
            assert response.headers["retry-after"] == "1"
        response = client.get("/readyz")
        assert problem_of(response, 503) == "disk I/O error"
        assert response.headers["retry-after"] == "1"
        status = client.get("/v1/status").json()  # what is stored can still be read
        assert (status["is_ready"], status["problems"]) == (False, ["disk I/O error"])
        assert status["requests"]["failed"] == 1
        assert client.get("/livez").status_code == 200
        assert (count(host, decisions), count(host, events)) == (1, 0)
        assert host.service.items.get(ids(first)[0]).is_enabled

        disk.is_broken = False
        wait_for(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/v1/feedback", json=event).json()["results"][0]["status"] == "stored"
        assert recommend(client, "before", user="3") == first
        assert recommend(client, "during", user="3")["request_id"] == "during"
        assert client.get("/v1/status").json()["is_ready"]


def test_a_store_that_cannot_be_read_answers_503(new_host: NewHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host = new_host(is_started=False)
    with new_client(host) as client:
        first = recommend(client, "before", user="3")

        def broken() -> Any:
            raise OperationalError("SELECT", {}, sqlite3.OperationalError("unable to open database file\nsecret"))

        with monkeypatch.context() as patch:
            patch.setattr(host.store._reading, "connect", broken)
            for method, path, body in [
                ("POST", "/v1/recommend", {"request_id": "during", "user": "3"}),
                ("GET", "/v1/users/3/history", None),
                ("GET", "/v1/versions", None),
            ]:
                response = client.request(method, path, json=body)
                detail = problem_of(response, 503)
                assert detail == "the store cannot be reached (unable to open database file); try again"
                assert response.headers["retry-after"] == "1"
            wait_for(lambda: client.get("/readyz").status_code == 503)
        wait_for(lambda: client.get("/readyz").status_code == 200)
        assert recommend(client, "before", user="3") == first


def test_too_many_waiting_writes_are_refused(new_host: NewHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host = new_host(is_started=False)

    def full(_operation: Any) -> Future[Any]:
        raise StoreError("too many writes are waiting")

    with new_client(host) as client:
        answer = recommend(client, "before")
        monkeypatch.setattr(host.store, "write", full)
        body = {"event_id": "e", "decision_id": answer["decision_id"], "item": ids(answer)[0], "behaviour": "click"}
        for path, content in (("/v1/feedback", body), ("/v1/recommend", {"request_id": "during"})):
            response = client.post(path, json=content)
            assert problem_of(response, 503).startswith("the store cannot be reached (too many writes are waiting)")
        monkeypatch.undo()


def test_a_full_queue_answers_429_and_then_empties(new_host: NewHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host = new_host(is_started=False, largest_queue=3)
    has_begun, may_end = threading.Event(), threading.Event()
    decide = host.service.desk.decide

    def held(*arguments: Any) -> Any:
        has_begun.set()
        assert may_end.wait(PATIENCE)
        return decide(*arguments)

    monkeypatch.setattr(host.service.desk, "decide", held)
    with new_client(host) as client:
        waiting = [host.service.recommend(ask("first"))]
        assert has_begun.wait(PATIENCE)
        waiting += [host.service.recommend(ask(f"waiting-{number}")) for number in range(3)]
        response = client.post("/v1/recommend", json={"request_id": "one more"})
        assert problem_of(response, 429) == "too many requests are waiting; try again"
        assert response.headers["retry-after"] == "1"
        assert client.get("/v1/status").json()["requests"]["refused"] == 1
        may_end.set()
        assert [len(future.result(PATIENCE)) for future in waiting] == [1] * 4
        assert recommend(client, "one more")["notes"] == []


def test_a_policy_that_diverged_answers_503(new_host: NewHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host = new_host(is_started=False)

    def diverged(*_: Any) -> None:
        raise RunError("the policy's scores are NaN or infinite")

    monkeypatch.setattr(host.service.desk.policy, "recommend", diverged)
    with new_client(host) as client:
        response = client.post("/v1/recommend", json={"request_id": "odd"})
        sentence = "the policy cannot answer (the policy's scores are NaN or infinite); roll back to another version"
        assert problem_of(response, 503) == sentence


def test_a_bug_gets_a_sentence_and_its_traceback_goes_to_the_log(
    new_host: NewHost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = new_host(is_started=False)

    def fails(*_: Any) -> None:
        raise ZeroDivisionError("the password is 123")

    with new_client(host) as client, caplog.at_level(logging.ERROR):
        with monkeypatch.context() as patch:
            patch.setattr(host.service.desk, "decide", fails)
            patch.setattr(host.service.items, "search", fails)
            for method, path, body in (("POST", "/v1/recommend", {"request_id": "odd"}), ("GET", "/v1/items", None)):
                response = client.request(method, path, json=body)
                assert problem_of(response, 500) == "the service has failed; its log says why"
                assert "123" not in response.text
                assert f"{method} {path} failed" in caplog.text
        assert caplog.text.count("ZeroDivisionError: the password is 123") == 2
        assert client.get("/v1/status").json()["requests"]["failed"] == 1
        assert recommend(client, "odd")["version"] == 1  # the thread of the policy lives on


def test_housekeeping_that_fails_is_seen_and_tried_again(new_host: NewHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host = new_host(is_started=False)

    def fails() -> None:
        raise ZeroDivisionError("a bug")

    with new_client(host) as client:
        with monkeypatch.context() as patch:
            patch.setattr(host.promotion, "scan", fails)
            wait_for(lambda: client.get("/readyz").status_code == 503)
            assert problem_of(client.get("/readyz"), 503) == "housekeeping fails (a bug)"
        wait_for(lambda: client.get("/readyz").status_code == 200)


def test_whoever_goes_away_takes_nothing_along(new_host: NewHost) -> None:
    """A request that is given up while it is written must not fail those that share its transaction."""
    host = new_host()
    may_begin = threading.Event()
    held = host.store.write(lambda _: may_begin.wait(PATIENCE))
    given_up, other = host.service.shown(["d-1"]), host.service.shown(["d-2"])
    assert given_up.cancel() or given_up.done()
    may_begin.set()
    assert held.result(PATIENCE)
    assert other.result(PATIENCE) == ["unknown decision"]
    assert host.service.shown(["d-3"]).result(PATIENCE) == ["unknown decision"]


def test_the_end_answers_what_waits_and_begins_nothing(new_host: NewHost) -> None:
    host = new_host(is_started=False)
    future = host.service.recommend(ask("last"))
    with new_client(host):
        pass
    assert len(future.result(0)) == 1

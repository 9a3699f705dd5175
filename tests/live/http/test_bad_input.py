"""Wrong requests: each gets one clear sentence, and changes nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from gfn4rec.live.host import Host
from gfn4rec.live.http.guard import LARGEST_BODY
from gfn4rec.live.store.tables import decisions, events, item_changes
from tests.live.http.serving import SIZE, feedback, problem_of, recommend

AS_JSON = {"content-type": "application/json"}
ID = "an id is text of 1 to 256 characters, or an integer of at most 64 bits"
UNPLAIN = "control characters and lone surrogates are not allowed"
UNKNOWN = "unknown field; /openapi.json lists the fields"
GREEDINESS = "greediness: should be less than or equal to 1"


def rows(host: Host) -> tuple[int, ...]:
    """How many rows the tables have that requests write to."""
    with host.store.read() as connection:
        counts = [connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in TABLES]
    return tuple(count or 0 for count in counts)


TABLES = (decisions, events, item_changes)

RECOMMEND: dict[str, tuple[Any, str]] = {
    "no body of fields": ([], "body: must be a JSON object"),
    "null": (None, "body: must be a JSON object"),
    "no request id": ({}, "request_id: missing"),
    "a number as request id": ({"request_id": 7}, "request_id: should be a valid string"),
    "an empty request id": ({"request_id": ""}, "request_id: String should have at least 1 character"),
    "a long request id": ({"request_id": "x" * 129}, "request_id: String should have at most 128 characters"),
    "a control character": ({"request_id": "a\x00b"}, f"request_id: {UNPLAIN}"),
    "an escape character": ({"request_id": "a\x9bb"}, f"request_id: {UNPLAIN}"),
    "a lone surrogate": ({"request_id": "a\ud800b"}, f"request_id: {UNPLAIN}"),
    "an unknown field": ({"request_id": "bad", "users": 3}, f"users: {UNKNOWN}"),
    "a misspelt field": ({"request_idd": "bad"}, f"request_idd: {UNKNOWN}"),
    "an unknown field of a surrogate": ({"request_id": "bad", "\udfff": 3}, f"body: {UNPLAIN}"),
    "a fraction as user": ({"request_id": "bad", "user": 1.5}, f"user: {ID}"),
    "a flag as user": ({"request_id": "bad", "user": True}, f"user: {ID}"),
    "a huge number as user": ({"request_id": "bad", "user": 2**63}, f"user: {ID}"),
    "an empty user": ({"request_id": "bad", "user": ""}, f"user: {ID}"),
    "a long user": ({"request_id": "bad", "user": "u" * 257}, f"user: {ID}"),
    "a user with a line break": ({"request_id": "bad", "user": "u\n"}, f"user: {UNPLAIN}"),
    "greediness as text": ({"request_id": "bad", "greediness": "0.5"}, "greediness: should be a valid number"),
    "negative greediness": (
        {"request_id": "bad", "greediness": -0.1},
        "greediness: should be greater than or equal to 0",
    ),
    "too much greediness": ({"request_id": "bad", "greediness": 1.01}, GREEDINESS),
    "a huge reward weight": (
        {"request_id": "bad", "reward_weight": 1001},
        "reward_weight: should be less than or equal to 1000",
    ),
    "no slates": ({"request_id": "bad", "slates": 0}, "slates: should be greater than or equal to 1"),
    "too many slates": ({"request_id": "bad", "slates": 17}, "slates: should be less than or equal to 16"),
    "slates as a flag": ({"request_id": "bad", "slates": True}, "slates: should be a valid integer"),
    "half a slate": ({"request_id": "bad", "slates": 1.5}, "slates: should be a valid integer"),
    "a flag as a number": ({"request_id": "bad", "exclude_seen": 1}, "exclude_seen: should be a valid boolean"),
    "activation of another kind": (
        {"request_id": "bad", "activate": "soon"},
        "activate: should be 'at_once' or 'on_shown'",
    ),
    "exclude as text": ({"request_id": "bad", "exclude": "1"}, "exclude: must be a list"),
    "exclude without items": ({"request_id": "bad", "exclude": None}, "exclude: must be a list"),
    "a wrong item to exclude": ({"request_id": "bad", "exclude": ["1", {}]}, f"exclude.1: {ID}"),
    "too many items to exclude": (
        {"request_id": "bad", "exclude": [1] * 10_001},
        "exclude: List should have at most 10000 items after validation, not 10001",
    ),
    "a wrong candidate": ({"request_id": "bad", "candidates": [[1]]}, f"candidates.0: {ID}"),
    "a wrong history": ({"request_id": "bad", "history": {}}, "history: must be a list"),
    "a wrong event of a history": ({"request_id": "bad", "history": [["1", "click"]]}, f"history.0: {ID}"),
    "an event without an item": ({"request_id": "bad", "history": ["1", {}]}, "history.1.item: missing"),
    "an event with another field": (
        {"request_id": "bad", "history": [{"item": "1", "time": 1}]},
        f"history.0.time: {UNKNOWN}",
    ),
    "behaviours as text": (
        {"request_id": "bad", "history": [{"item": "1", "behaviours": "click"}]},
        "history.0.behaviours: must be a list",
    ),
    "an unknown behaviour": (
        {"request_id": "bad", "history": [{"item": "1", "behaviours": ["buy"]}]},
        "history: no behaviour 'buy'; choose from click, like, share, hate",
    ),
    "an unknown candidate": (
        {"request_id": "bad", "candidates": ["1", "2", "3", "none such"]},
        "candidates: item none such is not in the catalogue",
    ),
    "fewer candidates than a slate": (
        {"request_id": "bad", "candidates": ["1", "2"]},
        f"a slate has {SIZE} items, but only 2 are left to choose from",
    ),
    "fewer candidates than it seems": (
        {"request_id": "bad", "candidates": ["1", "2", 2, "1"]},
        f"a slate has {SIZE} items, but only 2 are left to choose from",
    ),
    "candidates that are excluded": (
        {"request_id": "bad", "candidates": ["1", "2", "3", "4"], "exclude": [2, "3"]},
        f"a slate has {SIZE} items, but only 2 are left to choose from",
    ),
}


@pytest.mark.parametrize(("body", "sentence"), RECOMMEND.values(), ids=RECOMMEND.keys())
def test_a_wrong_request_is_described_and_stores_nothing(
    client: TestClient, shared_host: Host, body: Any, sentence: str
) -> None:
    before = rows(shared_host)
    response = client.post("/v1/recommend", content=json.dumps(body), headers=AS_JSON)
    assert problem_of(response, 422) == sentence
    assert rows(shared_host) == before


EVENT = {"event_id": "bad", "decision_id": "d", "item": "1", "behaviour": "click"}
FEEDBACK: dict[str, tuple[Any, str]] = {
    "a list": ([EVENT], "body: must be a JSON object"),
    "nothing": ({}, "event_id: missing"),
    "no events": ({"events": []}, "events: List should have at least 1 item after validation, not 0"),
    "too many events": (
        {"events": [EVENT] * 1001},
        "events: List should have at most 1000 items after validation, not 1001",
    ),
    "one wrong event of two": ({"events": [EVENT, EVENT | {"item": None}]}, f"events.1.item: {ID}"),
    "an event and events": ({"events": [EVENT], "item": "1"}, f"item: {UNKNOWN}"),
    "no decision": ({**EVENT, "decision_id": None}, "decision_id: should be a valid string"),
    "a flag as value": (EVENT | {"value": True}, "value: should be a valid integer"),
    "a fraction as value": (EVENT | {"value": 1.0}, "value: should be a valid integer"),
    "another value": (EVENT | {"value": 2}, "value: should be less than or equal to 1"),
    "a negative value": (EVENT | {"value": -1}, "value: should be greater than or equal to 0"),
    "time as text": (EVENT | {"time": "now"}, "time: should be a valid number"),
    "a huge time": (EVENT | {"time": 10**400}, "time: should be a valid number"),
    "an unknown field": (EVENT | {"reward": 1}, f"reward: {UNKNOWN}"),
}


@pytest.mark.parametrize(("body", "sentence"), FEEDBACK.values(), ids=FEEDBACK.keys())
def test_wrong_feedback_is_described_and_stores_nothing(
    client: TestClient, shared_host: Host, body: Any, sentence: str
) -> None:
    before = rows(shared_host)
    response = client.post("/v1/feedback", content=json.dumps(body), headers=AS_JSON)
    assert problem_of(response, 422) == sentence
    assert rows(shared_host) == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"item": "none"}, "event mixed: item none is not in the slate of decision {}"),
        ({"behaviour": "buy"}, "event mixed: no behaviour 'buy'; choose from click, like, share, hate"),
    ],
)
def test_a_batch_with_one_wrong_event_is_not_stored_at_all(
    client: TestClient, shared_host: Host, change: dict[str, str], sentence: str
) -> None:
    answer = recommend(client, f"mixed-{next(iter(change))}")
    good = {"decision_id": answer["decision_id"], "item": answer["items"][0]["id"], "behaviour": "click"}
    before = rows(shared_host)
    batch = [{"event_id": "good", **good}, {"event_id": "mixed", **good, **change}]
    response = client.post("/v1/feedback", json={"events": batch})
    assert problem_of(response, 422) == sentence.format(answer["decision_id"])
    assert rows(shared_host) == before


def test_an_event_that_comes_twice_in_a_batch_counts_once(client: TestClient) -> None:
    answer = recommend(client, "twice")
    event = {"decision_id": answer["decision_id"], "item": answer["items"][0]["id"], "behaviour": "like"}
    first, other = {"event_id": "twice-1", **event}, {"event_id": "twice-2", **event}
    assert feedback(client, first, other, first) == ["stored", "stored", "duplicate"]
    assert feedback(client, first) == ["duplicate"]


def test_feedback_to_an_unknown_decision_is_kept_apart_and_reported(client: TestClient, shared_host: Host) -> None:
    event = {"event_id": "lost-1", "decision_id": "d-lost", "item": 1, "behaviour": "click", "time": 5}
    unknown = client.get("/v1/status").json()["events"]["unknown"]
    response = client.post("/v1/feedback", json=event)
    assert response.json() == {"results": [{"event_id": "lost-1", "status": "unknown decision"}]}
    with shared_host.store.read() as connection:
        (row,) = connection.execute(sa.select(events).where(events.c.event_id == "lost-1")).mappings()
    expected = {"decision_id": "d-lost", "item": "1", "behaviour": "click", "value": 1, "client_time": 5.0}
    assert expected.items() <= dict(row).items()
    assert client.get("/v1/status").json()["events"]["unknown"] == unknown + 1


def test_a_report_of_an_unknown_slate_is_answered_so(client: TestClient) -> None:
    response = client.post("/v1/shown", json={"decision_ids": ["d-none"]})
    assert response.json() == {"results": [{"decision_id": "d-none", "status": "unknown decision"}]}
    assert problem_of(client.post("/v1/shown", json={"decision_ids": "d"}), 422) == "decision_ids: must be a list"


NOT_JSON = {
    "half an object": b'{"request_id": "bad"',
    "words": b"hello",
    "not UTF-8": b'{"request_id": "\xff\xfe"}',
    "deep lists": b"[" * 200_000,
    "a deep object": b'{"a":' * 200_000,
    "an integer of 5,000 digits": b'{"request_id": "bad", "slates": 1' + b"0" * 5000 + b"}",
}


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_is_no_json_is_refused(client: TestClient, content: bytes) -> None:
    for path in ("/v1/recommend", "/v1/feedback", "/v1/shown"):
        response = client.post(path, content=content, headers=AS_JSON)
        assert problem_of(response, 400) == "the body is not valid JSON"


@pytest.mark.parametrize(("number", "sentence"), [("NaN", None), ("Infinity", GREEDINESS), ("1e999", GREEDINESS)])
def test_numbers_that_are_not_finite_are_refused(client: TestClient, number: str, sentence: str | None) -> None:
    body = f'{{"request_id": "bad", "greediness": {number}}}'
    detail = problem_of(client.post("/v1/recommend", content=body, headers=AS_JSON), 422)
    assert detail.startswith("greediness: should be")
    assert sentence is None or detail == sentence
    event = json.dumps(EVENT)[:-1] + f', "time": {number}}}'
    detail = problem_of(client.post("/v1/feedback", content=event, headers=AS_JSON), 422)
    assert detail == "time: should be a finite number"


def test_a_body_may_be_a_megabyte_and_not_more(client: TestClient) -> None:
    start, end = b'{"request_id": "big", "note": "', b'"}'
    fits = start + b"x" * (LARGEST_BODY - len(start) - len(end)) + end
    assert len(fits) == LARGEST_BODY == 2**20
    assert problem_of(client.post("/v1/recommend", content=fits, headers=AS_JSON), 422) == f"note: {UNKNOWN}"
    sentence = "the body is larger than 1,048,576 bytes; send several smaller ones"
    assert problem_of(client.post("/v1/recommend", content=fits + b" ", headers=AS_JSON), 413) == sentence
    # Without a length in the header, the service has to stop reading.
    assert problem_of(client.post("/v1/recommend", content=parts(fits), headers=AS_JSON), 422) == f"note: {UNKNOWN}"
    assert problem_of(client.post("/v1/recommend", content=parts(fits + b" "), headers=AS_JSON), 413) == sentence
    lying = {**AS_JSON, "content-length": "9" * 30}
    assert problem_of(client.post("/v1/recommend", content=b"{}", headers=lying), 413) == sentence


def parts(content: bytes) -> Iterator[bytes]:
    for first in range(0, len(content), 2**16):
        yield content[first : first + 2**16]


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_other_content_types_are_refused(client: TestClient, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    content = b'{"request_id": "typed"}'
    for method, path in (("POST", "/v1/recommend"), ("POST", "/v1/feedback"), ("PUT", "/v1/items/1")):
        for body in (content, parts(content)):
            detail = problem_of(client.request(method, path, content=body, headers=headers), 415)
            assert detail == "bodies are JSON; send them with the header `Content-Type: application/json`"


def test_json_may_name_its_character_set(client: TestClient) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.post("/v1/recommend", content=b'{"request_id": "typed"}', headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("GET", "/v1/nothing", 404, "there is nothing at this address; /openapi.json lists what there is"),
        ("GET", "/docs", 404, "there is nothing at this address; /openapi.json lists what there is"),
        ("GET", "/page/../app.py", 404, "there is nothing at this address; /openapi.json lists what there is"),
        ("GET", "/v1/items/none", 404, "item none: not in the catalogue"),
        ("DELETE", "/v1/items/none", 404, "item none: not in the catalogue"),
        ("GET", "/v1/items/%00", 422, f"item_id: {UNPLAIN}"),
        ("DELETE", "/v1/items/a%01b", 422, f"item_id: {UNPLAIN}"),
        ("GET", "/v1/users/%00/history", 422, f"user: {UNPLAIN}"),
        ("GET", f"/v1/users/{'u' * 257}/history", 422, "user: String should have at most 256 characters"),
        ("GET", "/v1/items?limit=0", 422, "limit: should be greater than or equal to 1"),
        ("GET", "/v1/items?limit=1001", 422, "limit: should be less than or equal to 1000"),
        ("GET", "/v1/users?limit=x", 422, "limit: should be a valid integer, unable to parse string as an integer"),
        ("POST", "/v1/versions/99/promote", 404, "version 99: there is none"),
        ("POST", f"/v1/versions/{'9' * 40}/promote", 404, f"version {'9' * 40}: there is none"),
        ("POST", "/v1/versions/99/rollback", 409, "version 99: is not the promoted one, which is 1"),
        ("POST", "/v1/versions/1/rollback", 409, "no version was promoted before; there is nothing to go back to"),
        ("POST", "/v1/versions/rollback", 409, "no version was promoted before; there is nothing to go back to"),
    ],
)
def test_wrong_addresses(client: TestClient, method: str, path: str, status: int, sentence: str) -> None:
    assert problem_of(client.request(method, path), status) == sentence


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/recommend", "POST"), ("POST", "/v1/items", "GET"), ("DELETE", "/livez", "GET"), ("PUT", "/", "GET")],
)
def test_wrong_methods(client: TestClient, method: str, path: str, allowed: str) -> None:
    response = client.request(method, path)
    assert problem_of(response, 405) == "this address does not take this method; /openapi.json lists those it takes"
    assert response.headers["allow"] == allowed


def test_long_words_of_a_body_are_cut_in_its_problem(client: TestClient) -> None:
    detail = problem_of(client.post("/v1/recommend", json={"request_id": "bad", "x" * 100_000: 1}), 422)
    assert detail == "x" * 500 + "..."


def test_values_of_features(client: TestClient) -> None:
    sentence = "a value is text, a finite number of at most 64 bits, a list of short texts, or null"
    wrong: list[Any] = [True, 2**63, float("nan"), float("inf"), {}, [1], ["x" * 129], "x" * 2001]
    for value in wrong:
        content = json.dumps({"features": {"colour": value}})
        response = client.put("/v1/items/new", content=content, headers=AS_JSON)
        assert problem_of(response, 422) == f"features.colour: {sentence}"
    assert problem_of(client.put("/v1/items/new", json={"features": {"colour": ["a\n"]}}), 422).endswith(UNPLAIN)

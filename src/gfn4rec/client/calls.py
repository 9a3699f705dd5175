"""The calls of the service: what each sends, and what its answer becomes. Nothing is sent here."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Final, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter

from gfn4rec.client.results import (
    Event,
    EventStatus,
    History,
    Item,
    Items,
    Readiness,
    Recommendation,
    ShownStatus,
    Status,
    Users,
    Versions,
    new_id,
)

Result = TypeVar("Result")
Id: TypeAlias = str | int
HistoryItem: TypeAlias = Id | tuple[Id, Sequence[str]]
"""An item with the responses to it; the item alone has the first behaviour."""
_NOT_READY: Final = 503


@dataclass(frozen=True)
class Call(Generic[Result]):
    """A call of the service."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    parse: Callable[[int, bytes], Result]
    """Makes the result of status and body; a `ValueError` if they are not those of a service."""
    body: Mapping[str, object] | None = None
    query: Mapping[str, str | int] | None = None
    can_repeat: bool = True
    """Whether a call whose answer was lost may be sent again."""
    is_probe: bool = False
    """Whether 503 is an answer, and the call is not repeated."""


def recommend(
    user: Id | None = None,
    *,
    history: Sequence[HistoryItem] | None = None,
    slates: int = 1,
    greediness: float | None = None,
    reward_weight: float | None = None,
    exclude: Iterable[Id] = (),
    candidates: Iterable[Id] | None = None,
    exclude_seen: bool = False,
    on_shown: bool = False,
    request_id: str | None = None,
) -> Call[Recommendation]:
    """Ask for slates. With `on_shown`, feedback is awaited only once `shown` reports the slate.

    The same `request_id` with the same arguments gets the same answer; without one, a new one is made up. Ids may be
    numbers or texts: 42 and "42" are the same.
    """
    body = {
        "request_id": new_id() if request_id is None else request_id,
        "user": None if user is None else str(user),
        "history": None if history is None else [_event(event) for event in history],
        "slates": slates,
        "greediness": greediness,
        "reward_weight": reward_weight,
        "exclude": [str(item) for item in exclude],
        "candidates": None if candidates is None else [str(item) for item in candidates],
        "exclude_seen": exclude_seen,
        "activate": "on_shown" if on_shown else "at_once",
    }
    return Call("POST", "/v1/recommend", _parser(Recommendation), body)


def feedback(
    decision_id: str,
    item: Id,
    behaviour: str,
    value: int = 1,
    time: float | None = None,
    event_id: str | None = None,
) -> Call[EventStatus]:
    """Report the response to an item of a slate; value 0 takes it back."""
    event = Event(decision_id, str(item), behaviour, value, time, event_id or new_id())
    parse = _parser(tuple[EventStatus, ...], "results")
    return Call("POST", "/v1/feedback", lambda status, body: parse(status, body)[0], asdict(event))


def feedback_batch(events: Iterable[Event]) -> Call[tuple[EventStatus, ...]]:
    """Report several responses, which are stored together or not at all."""
    body = {"events": [asdict(event) for event in events]}
    return Call("POST", "/v1/feedback", _parser(tuple[EventStatus, ...], "results"), body)


def shown(decision_ids: Iterable[str]) -> Call[tuple[ShownStatus, ...]]:
    """Report slates as shown that were asked for with `on_shown`."""
    body = {"decision_ids": list(decision_ids)}
    return Call("POST", "/v1/shown", _parser(tuple[ShownStatus, ...], "results"), body)


def put_item(item: Id, title: str | None = None, features: Mapping[str, object] | None = None) -> Call[Item]:
    """Add an item or change it; it can be shown from now on."""
    return Call("PUT", _item_path(item), _parser(Item), {"title": title, "features": dict(features or {})})


def get_item(item: Id) -> Call[Item]:
    """Return an item."""
    return Call("GET", _item_path(item), _parser(Item))


def delete_item(item: Id) -> Call[Item]:
    """Take an item out of the catalogue: it is not shown again until it is put again."""
    return Call("DELETE", _item_path(item), _parser(Item))


def find_items(search: str = "", limit: int = 20) -> Call[Items]:
    """Return items whose id or title contains a text."""
    return Call("GET", "/v1/items", _parser(Items), query={"search": search, "limit": limit})


def find_users(search: str = "", limit: int = 20) -> Call[Users]:
    """Return users of the log whose id begins with a text."""
    return Call("GET", "/v1/users", _parser(Users), query={"search": search, "limit": limit})


def history(user: Id) -> Call[History]:
    """Return what the policy reads of a user now."""
    return Call("GET", f"/v1/users/{_quoted(user)}/history", _parser(History))


def versions() -> Call[Versions]:
    """Return the versions of the policy."""
    return Call("GET", "/v1/versions", _parser(Versions))


def promote(version: int) -> Call[Versions]:
    """Let a version serve."""
    return Call("POST", f"/v1/versions/{int(version)}/promote", _parser(Versions))


def rollback(version: int | None = None) -> Call[Versions]:
    """Go back to the version before; `version`, if given, must be the one that serves now."""
    path = "/v1/versions/rollback" if version is None else f"/v1/versions/{int(version)}/rollback"
    return Call("POST", path, _parser(Versions), can_repeat=False)


def status() -> Call[Status]:
    """Return what the service's page shows."""
    return Call("GET", "/v1/status", _parser(Status))


def ready() -> Call[Readiness]:
    """Return at once whether the service answers requests."""
    return Call("GET", "/readyz", _readiness, is_probe=True)


def wait_until_ready() -> Call[Readiness]:
    """Wait, as long as the client is patient, until the service answers requests."""
    return Call("GET", "/readyz", _readiness)


@cache
def _parser(kind: type[Result], key: str | None = None) -> Callable[[int, bytes], Result]:
    """Return a function that makes a value of this type from a JSON body, or from a part of it."""
    adapter = TypeAdapter(kind)

    def parse(_: int, body: bytes) -> Result:
        if key is None:
            return adapter.validate_json(body)
        return adapter.validate_python(_object(body)[key])

    return parse


def _readiness(status: int, body: bytes) -> Readiness:
    values = _object(body)
    return Readiness(status != _NOT_READY, str(values["detail"]) if status == _NOT_READY else None)


def _object(body: bytes) -> Mapping[str, object]:
    values = json.loads(body)
    if not isinstance(values, dict):
        raise ValueError("not an object")
    return values


def _event(event: HistoryItem) -> object:
    return {"item": str(event[0]), "behaviours": list(event[1])} if isinstance(event, tuple) else str(event)


def _item_path(item: Id) -> str:
    return f"/v1/items/{_quoted(item)}"


def _quoted(name: Id) -> str:
    """Return an id as one part of a path; dots, too, because `..` would be a step up."""
    return quote(str(name), safe="").replace(".", "%2E")

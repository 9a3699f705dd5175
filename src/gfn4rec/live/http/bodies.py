"""Bodies of requests: strict, limited in size, and turned into the service's own values."""

import hashlib
import json
import re
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    PlainValidator,
    StrictInt,
    StrictStr,
    Tag,
    WithJsonSchema,
)

from gfn4rec.live.records import Ask, Event
from gfn4rec.schema import MAX_REWARD_WEIGHT

_LONGEST_NAME: Final = 128
_LONGEST_ID: Final = 256
_LONGEST_TEXT: Final = 2000
_LARGEST_INTEGER: Final = 2**63
_NOT_PLAIN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_plain(text: str) -> str:
    """Refuse characters that a store cannot hold or a reader cannot see."""
    if _NOT_PLAIN.search(text):
        raise ValueError("control characters and lone surrogates are not allowed")
    return text


def _item_id(value: object) -> str:
    if type(value) is int and -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
        return str(value)
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_ID:
        raise ValueError(f"an id is text of 1 to {_LONGEST_ID} characters, or an integer of at most 64 bits")
    return is_plain(value)


def _feature(value: object) -> object:
    """Refuse what cannot be the value of a feature."""
    if value is None or _is_small_number(value):
        return value
    texts, longest = (value, _LONGEST_NAME) if isinstance(value, list) else ([value], _LONGEST_TEXT)
    for text in texts:
        if not isinstance(text, str) or len(text) > longest:
            raise ValueError("a value is text, a finite number of at most 64 bits, a list of short texts, or null")
        is_plain(text)
    return value


def _is_small_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_LARGEST_INTEGER <= value < _LARGEST_INTEGER  # neither NaN nor infinity is


Text = Annotated[StrictStr, AfterValidator(is_plain)]
Name: TypeAlias = Annotated[Text, Field(min_length=1, max_length=_LONGEST_NAME)]
_ID_SCHEMA: Final = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": _LONGEST_ID},
        {"type": "integer", "minimum": -_LARGEST_INTEGER, "maximum": _LARGEST_INTEGER - 1},
    ]
}
ItemId: TypeAlias = Annotated[str, PlainValidator(_item_id), WithJsonSchema(_ID_SCHEMA)]
"""An id as in the log; the number 42 and the text "42" are the same."""
_FEATURE_SCHEMA: Final = {
    "anyOf": [
        {"type": "string", "maxLength": _LONGEST_TEXT},
        {"type": "number", "minimum": -_LARGEST_INTEGER, "maximum": _LARGEST_INTEGER - 1},
        {"type": "array", "items": {"type": "string", "maxLength": _LONGEST_NAME}},
        {"type": "null"},
    ]
}
Feature: TypeAlias = Annotated[Any, PlainValidator(_feature), WithJsonSchema(_FEATURE_SCHEMA)]


class Body(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class HistoryEvent(Body):
    """An item that the user met, with the responses to it."""

    item: ItemId
    behaviours: list[Name] | None = Field(default=None, max_length=64)
    """Left out: the first behaviour."""


def _event_tag(value: object) -> str:
    return "(event)" if isinstance(value, dict | HistoryEvent) else "(id)"


class RecommendBody(Body):
    """A request for slates."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"request_id": "r-1"}, {"request_id": "r-2", "user": "42", "greediness": 0.3}]}
    )

    request_id: Name
    """The same id with the same body gets the same answer."""
    user: ItemId | None = None
    history: (
        list[
            Annotated[
                Annotated[HistoryEvent, Tag("(event)")] | Annotated[ItemId, Tag("(id)")], Discriminator(_event_tag)
            ]
        ]
        | None
    ) = Field(default=None, max_length=1000)
    """Oldest first; replaces what is known of the user. An id alone has the first behaviour."""
    slates: int = Field(default=1, ge=1, le=16)
    greediness: float | None = Field(default=None, ge=0, le=1)
    """From 0 (sampled) to 1 (the most likely items)."""
    reward_weight: float | None = Field(default=None, ge=0, le=MAX_REWARD_WEIGHT)
    """0: what users choose; 1: the trained target; more: what the user would like best."""
    exclude: list[ItemId] = Field(default=[], max_length=10_000)
    candidates: list[ItemId] | None = Field(default=None, max_length=100_000)
    exclude_seen: bool = False
    """Whether to leave out the items of the user's log and history."""
    activate: Literal["at_once", "on_shown"] = "at_once"
    """When feedback begins to be awaited: at once, or when `POST /v1/shown` reports the slate."""

    def ask(self) -> Ask:
        """Return the request as the service takes it."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
        return Ask(
            request_id=self.request_id,
            body_hash=hashlib.sha256(text.encode()).hexdigest(),
            user=self.user,
            history=None if self.history is None else tuple(_event(event) for event in self.history),
            num_slates=self.slates,
            greediness=self.greediness,
            reward_weight=self.reward_weight,
            exclude=tuple(self.exclude),
            candidates=None if self.candidates is None else tuple(self.candidates),
            exclude_seen=self.exclude_seen,
            is_shown_at_once=self.activate == "at_once",
        )


def _event(event: HistoryEvent | str) -> tuple[str, tuple[str, ...] | None]:
    if not isinstance(event, HistoryEvent):
        return event, None
    return event.item, None if event.behaviours is None else tuple(event.behaviours)


class EventBody(Body):
    """Feedback to an item of a slate."""

    event_id: Name
    """A repeated id changes nothing."""
    decision_id: Name
    item: ItemId
    behaviour: Name
    value: Annotated[StrictInt, Field(ge=0, le=1)] = 1
    """0 takes the response back."""
    time: FiniteFloat | None = None
    """The client's seconds since 1970."""

    def event(self) -> Event:
        """Return the event as the service takes it."""
        return Event(self.event_id, self.decision_id, self.item, self.behaviour, self.value, self.time)


class EventsBody(Body):
    """Several events, which are stored together or not at all."""

    events: list[EventBody] = Field(min_length=1, max_length=1000)


def _feedback_tag(value: object) -> str:
    return "(events)" if isinstance(value, dict) and "events" in value else "(event)"


FeedbackBody: TypeAlias = Annotated[
    Annotated[EventBody, Tag("(event)")] | Annotated[EventsBody, Tag("(events)")], Discriminator(_feedback_tag)
]
"""One event, or several."""


class ShownBody(Body):
    """Slates that were shown."""

    decision_ids: list[Name] = Field(min_length=1, max_length=1000)


class ItemBody(Body):
    """An item to add or change."""

    title: Annotated[Text, Field(max_length=_LONGEST_TEXT)] | None = None
    features: dict[Name, Feature] = Field(default={}, max_length=200)
    """Values as in the item file of the data set; others are unknown values."""

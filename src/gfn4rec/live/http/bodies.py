"""Bodies of requests: strict, limited in size, and turned into the service's own values."""

import hashlib
import json
import unicodedata
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, StrictInt, StrictStr

from gfn4rec.live.records import Ask, Event
from gfn4rec.schema import MAX_REWARD_WEIGHT


def _is_plain(text: str) -> str:
    """Refuse characters that a store cannot hold or a reader cannot see."""
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise ValueError("control characters and lone surrogates are not allowed")
    return text


Text = Annotated[StrictStr, AfterValidator(_is_plain)]
Name: TypeAlias = Annotated[Text, Field(min_length=1, max_length=128)]
ItemId: TypeAlias = (
    Annotated[Text, Field(min_length=1, max_length=256)] | Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
)
"""An id as in the log; the number 42 and the text "42" are the same."""


class Body(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class HistoryEvent(Body):
    """An item that the user met, with the responses to it."""

    item: ItemId
    behaviours: list[Name] | None = Field(default=None, max_length=64)
    """Left out: the first behaviour."""


class RecommendBody(Body):
    """A request for slates."""

    request_id: Name
    """The same id with the same body gets the same answer."""
    user: ItemId | None = None
    history: list[HistoryEvent | ItemId] | None = Field(default=None, max_length=1000)
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
            user=None if self.user is None else str(self.user),
            history=None if self.history is None else tuple(_event(event) for event in self.history),
            num_slates=self.slates,
            greediness=self.greediness,
            reward_weight=self.reward_weight,
            exclude=tuple(map(str, self.exclude)),
            candidates=None if self.candidates is None else tuple(map(str, self.candidates)),
            exclude_seen=self.exclude_seen,
            is_shown_at_once=self.activate == "at_once",
        )


def _event(event: HistoryEvent | str | int) -> tuple[str, tuple[str, ...] | None]:
    if not isinstance(event, HistoryEvent):
        return str(event), None
    return str(event.item), None if event.behaviours is None else tuple(event.behaviours)


class EventBody(Body):
    """Feedback to an item of a slate."""

    event_id: Name
    """A repeated id changes nothing."""
    decision_id: Name
    item: ItemId
    behaviour: Name
    value: Literal[0, 1] = 1
    """0 takes the response back."""
    time: FiniteFloat | None = None
    """The client's seconds since 1970."""

    def event(self) -> Event:
        """Return the event as the service takes it."""
        return Event(self.event_id, self.decision_id, str(self.item), self.behaviour, self.value, self.time)


class EventsBody(Body):
    """Several events, which are stored together or not at all."""

    events: list[EventBody] = Field(min_length=1, max_length=1000)


class ShownBody(Body):
    """Slates that were shown."""

    decision_ids: list[Name] = Field(min_length=1, max_length=1000)


class ItemBody(Body):
    """An item to add or change."""

    title: Annotated[Text, Field(max_length=2000)] | None = None
    features: dict[Name, Annotated[Text, Field(max_length=2000)] | FiniteFloat | int | list[Name] | None] = Field(
        default={}, max_length=200
    )
    """Values as in the item file of the data set; others are unknown values."""

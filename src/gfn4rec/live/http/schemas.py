"""What the answers look like, for `/openapi.json`; tests hold the answers to it."""

from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from gfn4rec.live.http.problems import MEDIA_TYPE

Json: TypeAlias = Any
_REFERENCE: Final = {"$ref": "#/components/schemas/Problem"}
_ALWAYS: Final = (403, 421, 500, 503)
_WITH_BODY: Final = (400, 413, 415, 422)


class Answer(BaseModel):
    """An answer without other fields."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Problem(Answer):
    """Why a request was refused or failed (RFC 9457)."""

    type: Literal["about:blank"]
    title: str
    """The phrase of the status."""
    status: int = Field(ge=400, lt=600)
    detail: str
    """One sentence that says what is wrong, and what to do about it."""


class ShownItem(Answer):
    """An item of a slate."""

    id: str
    title: str | None
    probability: float = Field(ge=0, le=1)
    """Of drawing it at its step, after the items before it."""


class SlateAnswer(Answer):
    """A slate."""

    decision_id: str
    """Feedback to the slate names it."""
    items: list[ShownItem]
    log_prob: float = Field(le=0)
    """Sum of the logarithms of the items' probabilities."""


class RecommendAnswer(SlateAnswer):
    """The slates of a request; the first one is also at the top level."""

    request_id: str
    version: int
    """Of the policy."""
    slates: list[SlateAnswer]
    notes: list[str]
    """What was ignored."""


class EventResult(Answer):
    """What became of an event."""

    event_id: str
    status: Literal["stored", "duplicate", "late", "unknown decision"]
    """late: after the waiting time, kept and not learned from; unknown decision: kept apart."""


class FeedbackAnswer(Answer):
    """What became of each event, in their order."""

    results: list[EventResult]


class ShownResult(Answer):
    """What became of the report that a slate was shown."""

    decision_id: str
    status: Literal["activated", "active", "late", "unknown decision"]
    """active: was reported before, or counts as shown since it was answered."""


class ShownAnswer(Answer):
    """What became of each report, in their order."""

    results: list[ShownResult]


class ItemAnswer(Answer):
    """An item of the catalogue."""

    id: str
    title: str | None
    features: dict[str, Json] | None
    """As they were put; null: those of the data set."""
    is_enabled: bool


class PutItemAnswer(ItemAnswer):
    """An item that was added or changed."""

    notes: list[str]
    """Features that are not known, or have values that are not."""


class ItemsAnswer(Answer):
    """Items that were found."""

    items: list[ItemAnswer]
    total: int
    """How many there are, of which some are listed."""


class UsersAnswer(Answer):
    """Users of the log that were found."""

    users: list[str]
    total: int
    """How many there are, of which some are listed."""


class HistoryItem(Answer):
    """An item that a user has met."""

    item: str
    title: str | None
    behaviours: list[str]


class HistoryAnswer(Answer):
    """What the policy reads of a user now, oldest first."""

    user: str
    is_known: bool
    """Whether the user is in the log."""
    history: list[HistoryItem]


class VersionAnswer(Answer):
    """A version of the policy."""

    version: int
    parent: int | None
    state: Literal["candidate", "promoted", "retired", "rejected"]
    reason: str | None
    """Why it was rejected."""
    trained_to_seq: int
    step: int
    loss: float | None
    created: float
    promoted: float | None
    can_promote: bool


class VersionsAnswer(Answer):
    """The versions of the policy, newest first."""

    promoted: int | None
    automatic_promotion: bool
    versions: list[VersionAnswer]


class DataAnswer(Answer):
    """The data set that is served, for programs on this machine."""

    directory: str
    users_sha256: str
    items_sha256: str


class StatusAnswer(Answer):
    """What the page at `/` shows."""

    name: str
    """Of the data set."""
    data: DataAnswer
    policy: str
    slate_size: int
    num_items: int
    num_users: int
    behaviours: list[str]
    has_prior: bool
    greediness: float
    reward_weight: float
    wait: float
    """Seconds for which feedback is awaited."""
    now: float
    """The service's seconds since 1970."""
    started: float
    is_ready: bool
    problems: list[str]
    store: Literal["SQLite", "PostgreSQL"]
    decisions: int
    """Answered slates: the open, waiting and expired ones and the samples."""
    open: int
    waiting: int
    expired: int
    samples: int
    events: dict[Literal["stored", "duplicate", "late", "unknown"], int]
    learner: dict[str, Json] | None
    """Step, cursor, lag in samples, loss and state; null: there has never been one."""
    versions: VersionsAnswer
    requests: dict[Literal["total", "per_second", "p50_ms", "p99_ms", "refused", "failed"], float | None]
    """Those of the last minute, except for the totals."""
    latency: list[dict[str, float | None]]
    """By time."""
    reward: list[dict[str, float | None]]
    """Per slate, by the time at which it was answered."""
    by_version: list[dict[str, float | None]]
    """Reward per slate with its 95 % interval."""


class AliveAnswer(Answer):
    """The process runs."""

    status: Literal["alive"]


class ReadyAnswer(Answer):
    """Requests are answered."""

    status: Literal["ready"]


def answers(good: type[Answer], *problems: int, has_body: bool = False, created: bool = False) -> dict[int | str, Any]:
    """Return the answers of an operation: its good ones, and problems by status."""
    statuses = sorted({*problems, *_ALWAYS, *(_WITH_BODY if has_body else ())})
    refused = {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": _REFERENCE}}}
        for status in statuses
    }
    done = {status: {"model": good, "description": HTTPStatus(status).phrase} for status in (200, 201)[: 1 + created]}
    return {**done, **refused}


def with_problem(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an OpenAPI description with the schema of problems."""
    schema["components"]["schemas"]["Problem"] = Problem.model_json_schema()
    return schema

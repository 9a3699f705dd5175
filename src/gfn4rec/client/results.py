"""What the service answers, as frozen dataclasses. Fields that a newer service adds are ignored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4


def new_id() -> str:
    """Return an id that nobody else uses."""
    return uuid4().hex


@dataclass(frozen=True)
class Event:
    """Feedback to an item of a slate: that it got a response, or (value 0) that it did not after all."""

    decision_id: str
    item: str
    behaviour: str
    value: int = 1
    time: float | None = None
    """The client's seconds since 1970."""
    event_id: str = field(default_factory=new_id)
    """A repeated id changes nothing."""


@dataclass(frozen=True)
class SlateItem:
    """An item of a slate, with the probability that it was drawn with at its place."""

    id: str
    title: str | None
    probability: float


@dataclass(frozen=True)
class Slate:
    """A slate, and the decision that feedback to it names."""

    decision_id: str
    items: tuple[SlateItem, ...]
    log_prob: float


@dataclass(frozen=True)
class Recommendation:
    """The answer to a request. What was ignored is in the notes."""

    request_id: str
    version: int
    slates: tuple[Slate, ...]
    notes: tuple[str, ...]

    @property
    def decision_id(self) -> str:
        """That of the first slate."""
        return self.slates[0].decision_id

    @property
    def items(self) -> tuple[SlateItem, ...]:
        """Those of the first slate."""
        return self.slates[0].items

    @property
    def log_prob(self) -> float:
        """That of the first slate."""
        return self.slates[0].log_prob


@dataclass(frozen=True)
class EventStatus:
    """What became of an event: `stored`, `duplicate`, `late` or `unknown decision`."""

    event_id: str
    status: str


@dataclass(frozen=True)
class ShownStatus:
    """What became of a report that a slate was shown: `activated`, `active`, `late` or `unknown decision`."""

    decision_id: str
    status: str


@dataclass(frozen=True)
class Item:
    """An item of the catalogue. `features` are those given live; None: as in the data set."""

    id: str
    title: str | None
    features: Mapping[str, object] | None
    is_enabled: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Items:
    """Items that were found; `total` counts those that were left out, too."""

    items: tuple[Item, ...]
    total: int


@dataclass(frozen=True)
class Users:
    """Users of the log that were found; `total` counts those that were left out, too."""

    users: tuple[str, ...]
    total: int


@dataclass(frozen=True)
class HistoryEvent:
    """An item that a user met, with the responses to it."""

    item: str
    title: str | None
    behaviours: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """What the policy reads of a user now, oldest first. `is_known`: whether the user is in the log."""

    user: str
    is_known: bool
    history: tuple[HistoryEvent, ...]


@dataclass(frozen=True)
class Version:
    """A version of the policy: `candidate`, `promoted`, `retired` or, for a reason, `rejected`."""

    version: int
    parent: int | None
    state: str
    reason: str | None
    trained_to_seq: int
    step: int
    loss: float | None
    created: float
    promoted: float | None
    can_promote: bool


@dataclass(frozen=True)
class Versions:
    """All versions, newest first, and the one that serves."""

    promoted: int | None
    automatic_promotion: bool
    versions: tuple[Version, ...]


@dataclass(frozen=True)
class Readiness:
    """Whether the service answers requests, and why not."""

    is_ready: bool
    problem: str | None


@dataclass(frozen=True)
class RequestCounts:
    """Requests since the start; rate and latencies are those of the latest minute."""

    total: int
    per_second: float
    p50_ms: float | None
    p99_ms: float | None
    refused: int
    failed: int


@dataclass(frozen=True)
class EventCounts:
    """Feedback by what became of it."""

    stored: int
    duplicate: int
    late: int
    unknown: int


@dataclass(frozen=True)
class LearnerReport:
    """What the learner process says of itself; `lag` is the number of samples that it has not read."""

    state: str
    step: int | None
    cursor: int | None
    loss: float | None
    samples_per_step: int | None
    updated: float | None
    lag: int
    restarts: int


@dataclass(frozen=True)
class RewardWindow:
    """The rewards of the slates that were shown in some seconds."""

    start: float
    seconds: float
    slates: int
    mean: float
    deviation: float
    coverage: int


@dataclass(frozen=True)
class VersionReward:
    """The rewards of a version's slates, with the 95 % interval of their mean; a single slate has none."""

    version: int
    slates: int
    mean: float
    deviation: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ServedData:
    """The data set of the service: where it is on the service's machine, and checksums of its users and items."""

    directory: str
    users_sha256: str
    items_sha256: str


@dataclass(frozen=True)
class Status:
    """The state of the service, as its page shows it."""

    name: str
    data: ServedData
    policy: str
    slate_size: int
    num_items: int
    num_users: int
    behaviours: tuple[str, ...]
    has_prior: bool
    greediness: float
    reward_weight: float
    wait: float
    now: float
    started: float
    is_ready: bool
    problems: tuple[str, ...]
    store: str
    decisions: int
    open: int
    waiting: int
    expired: int
    samples: int
    events: EventCounts
    learner: LearnerReport | None
    versions: Versions
    requests: RequestCounts
    reward: tuple[RewardWindow, ...]
    by_version: tuple[VersionReward, ...]

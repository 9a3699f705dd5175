"""What the parts of the service hand to each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gfn4rec.errors import UserError

Behaviours: TypeAlias = tuple[str, ...]
History: TypeAlias = tuple[tuple[str, Behaviours], ...]
"""Items with the behaviours they got, oldest first."""
Rule: TypeAlias = Mapping[str, Sequence[str]]
"""Items that a request leaves out (`exclude`), and those it chooses from (`candidates`)."""
Features: TypeAlias = Mapping[str, str | float | Sequence[str] | None]
"""Raw values of an item's features."""


class ConflictError(UserError):
    """A request that contradicts an earlier one."""


class NotFoundError(UserError):
    """Something that is asked for by an id does not exist."""


@dataclass(frozen=True)
class Ask:
    """A request for slates, as validated from its body."""

    request_id: str
    body_hash: str
    user: str | None = None
    history: tuple[tuple[str, Behaviours | None], ...] | None = None
    """Replaces what is known of the user; None in place of behaviours means the first behaviour."""
    num_slates: int = 1
    greediness: float | None = None
    reward_weight: float | None = None
    exclude: tuple[str, ...] = ()
    candidates: tuple[str, ...] | None = None
    exclude_seen: bool = False
    is_shown_at_once: bool = True
    """Whether the slates count as shown when they are answered; otherwise they wait until they are reported so."""


@dataclass(frozen=True)
class Decision:
    """A slate that was answered, with all that is needed to compute its probabilities again."""

    decision_id: str
    request_id: str
    place: int
    body_hash: str
    user: str | None
    history: History
    rule: Rule
    sampling: Mapping[str, float]
    slate: tuple[str, ...]
    log_prob: tuple[float, ...]
    learned_log_prob: tuple[float, ...]
    version: int
    revision: int
    notes: tuple[str, ...]
    is_shown: bool


@dataclass(frozen=True)
class Event:
    """Feedback to an item of a slate: that it got a response, or (value 0) that it did not after all."""

    event_id: str
    decision_id: str
    item: str
    behaviour: str
    value: int = 1
    time: float | None = None


@dataclass(frozen=True)
class Sample:
    """A closed decision, ready to be learned from."""

    seq: int
    decision_id: str
    user: str | None
    history: History
    slate: tuple[str, ...]
    responses: tuple[Behaviours, ...]
    reward: float
    version: int
    revision: int
    shown: float
    """When it was answered, in seconds since 1970."""


@dataclass(frozen=True)
class ItemChange:
    """An item that was added or changed while the service ran."""

    revision: int
    item: str
    is_enabled: bool
    title: str | None
    features: Features = field(default_factory=dict)


@dataclass(frozen=True)
class VersionRow:
    """What the store keeps of a version of the policy."""

    version: int
    parent: int | None
    sha256: str
    trained_to_seq: int
    step: int
    loss: float | None
    state: str
    reason: str | None
    """Why it was rejected."""
    created: float
    promoted: float | None = None
    """When it was promoted last; going back to it does not count. None again after it was rolled back."""

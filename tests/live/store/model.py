"""What a store must hold after any sequence of requests, in plain Python: lists, dictionaries and no database."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gfn4rec.errors import UserError
from gfn4rec.live.records import Ask, ConflictError, Decision, Event, History
from tests.live.fakes import BEHAVIOURS, HISTORY, ITEMS

WAIT, SHOWN_WITHIN = 100.0, 150.0


def logged(user: str | None, is_responded_only: bool) -> History:
    """The events of a user in the log of `prepare_live_data`, by its rule."""
    if user not in ("u1", "u2", "u3", "u4"):
        return ()
    number = int(user[1:])
    history = []
    for time in range(6 * number):
        flags = ((time + number) % 2, time % 3 == 0, time % 5 == 4)
        names = tuple(name for name, flag in zip(BEHAVIOURS, flags, strict=True) if flag)
        history.append((ITEMS[(time + 3 * number) % len(ITEMS)], names))
    return _read(history, is_responded_only)


def _read(history: Iterable[tuple[str, tuple[str, ...]]], is_responded_only: bool) -> History:
    return tuple((item, names) for item, names in history if names or not is_responded_only)


@dataclass
class Slate:
    """A decision and what has become of it."""

    decision: Decision
    created: float
    due: float
    state: str
    responses: list[set[str]] = field(default_factory=list)

    @property
    def names(self) -> list[list[str]]:
        """The responses in the order of the data set's behaviours."""
        return [[name for name in BEHAVIOURS if name in names] for names in self.responses]

    @property
    def history(self) -> History:
        """Its part of a history."""
        return tuple((item, tuple(names)) for item, names in zip(self.decision.slate, self.names, strict=True))


@dataclass
class Model:
    """The store of a service whose data set's histories hold all items, or only those with a response."""

    is_responded_only: bool
    slates: dict[str, Slate] = field(default_factory=dict)
    requests: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """Of each request: the hash of its body, and its decisions."""
    events: dict[str, tuple[Event, float, str]] = field(default_factory=dict)
    closed: list[tuple[str, float]] = field(default_factory=list)
    """Decisions in the order of their samples, and when they closed."""
    latest: float = 0.0

    def history(self, user: str | None) -> History:
        """What the policy reads of a user."""
        since: list[tuple[str, tuple[str, ...]]] = []
        for slate in self.slates.values():
            has_responses = slate.state in ("open", "closed") and any(slate.responses)
            if user is not None and slate.decision.user == user and (has_responses or slate.state == "closed"):
                since += slate.history
        return (*logged(user, self.is_responded_only), *_read(since, self.is_responded_only))[-HISTORY:]

    def check_reply(self, ask: Ask, reply: Sequence[Decision] | UserError, history: History, now: float) -> None:
        """Check the answer to a request that read a history, and keep it if it is new."""
        if ask.request_id in self.requests:
            body_hash, decision_ids = self.requests[ask.request_id]
            if body_hash != ask.body_hash:
                assert isinstance(reply, ConflictError)
                return
            assert not isinstance(reply, UserError)
            # Whether it is shown is as it is now; all else is as it was.
            assert [_kept(decision) for decision in reply] == [
                _kept(self.slates[name].decision) for name in decision_ids
            ]
            return
        assert not isinstance(reply, UserError)
        assert [decision.place for decision in reply] == list(range(ask.num_slates))
        for decision in reply:
            self._add(ask, decision, history, now)
        self.requests[ask.request_id] = (ask.body_hash, [decision.decision_id for decision in reply])

    def _add(self, ask: Ask, decision: Decision, history: History, now: float) -> None:
        assert decision.decision_id not in self.slates
        assert (decision.request_id, decision.user, decision.history) == (ask.request_id, ask.user, history)
        assert len(set(decision.slate) & set(ITEMS)) == len(decision.slate) == 3
        assert decision.is_shown == ask.is_shown_at_once
        state, due = ("open", now + WAIT) if ask.is_shown_at_once else ("waiting", now + SHOWN_WITHIN)
        self.slates[decision.decision_id] = Slate(decision, now, due, state, [set() for _ in decision.slate])
        self.latest = max(self.latest, now)

    def feedback(self, batch: Sequence[Event], now: float) -> list[str] | None:
        """What becomes of each event, or None: one is wrong, so that all are refused."""
        fresh = {event.event_id: event for event in reversed(batch) if event.event_id not in self.events}
        for event in fresh.values():
            slate = self.slates.get(event.decision_id)
            if slate is not None and (event.behaviour not in BEHAVIOURS or event.item not in slate.decision.slate):
                return None
        statuses = []
        for event in batch:
            if event.event_id in self.events:
                statuses.append("duplicate")
                continue
            status = self._apply(event)
            self.events[event.event_id] = (event, now, status)
            self.latest = max(self.latest, now)
            statuses.append(status)
        return statuses

    def _apply(self, event: Event) -> str:
        if event.decision_id not in self.slates:
            return "unknown decision"
        slate = self.slates[event.decision_id]
        if slate.state in ("closed", "expired"):
            return "late"
        names = slate.responses[slate.decision.slate.index(event.item)]
        (names.add if event.value else names.discard)(event.behaviour)
        return "stored"

    def shown(self, decision_ids: Sequence[str], now: float) -> list[str]:
        """What becomes of each report that a slate has been shown."""
        statuses = []
        for name in decision_ids:
            slate = self.slates.get(name)
            if slate is None:
                statuses.append("unknown decision")
            elif slate.state == "waiting":
                slate.state, slate.due = "open", now + WAIT
                statuses.append("activated")
            else:
                statuses.append("active" if slate.state == "open" else "late")
        return statuses

    def close_due(self, now: float) -> list[str]:
        """The decisions that become samples now, in their order."""
        due = [slate for slate in self.slates.values() if slate.due <= now]
        opened = sorted((slate for slate in due if slate.state == "open"), key=lambda slate: slate.due)
        for slate in due:
            slate.state = {"waiting": "expired", "open": "closed"}.get(slate.state, slate.state)
        names = [slate.decision.decision_id for slate in opened]
        self.closed += [(name, now) for name in names]
        if names:
            self.latest = max(self.latest, now)
        return names


def item_rewards(slate: Slate) -> list[float]:
    """The reward of each item of a slate."""
    return [sum(BEHAVIOURS[name] for name in names) for names in slate.names]


def _kept(decision: Decision) -> dict[str, object]:
    return {name: value for name, value in vars(decision).items() if name != "is_shown"}

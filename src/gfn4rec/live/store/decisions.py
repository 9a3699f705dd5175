"""Operations on decisions and their feedback; each runs in the transaction of its connection."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gfn4rec.errors import UserError
from gfn4rec.live.records import Behaviours, ConflictError, Decision, Event, History, Sample
from gfn4rec.live.store.tables import (
    CLOSED,
    EXPIRED,
    LATE,
    OPEN,
    STORED,
    UNKNOWN,
    WAITING,
    decisions,
    events,
    samples,
    versions,
)

DUPLICATE: Final = "duplicate"
ACTIVATED, ACTIVE = "activated", "active"
_LARGEST_LIST: Final = 500  # of values in a condition; SQLite takes 32,766, older ones 999


@dataclass(frozen=True)
class Waits:
    """How long feedback is awaited after a slate was shown, and how long it may take until it is reported as shown."""

    feedback: float
    shown: float


def insert_decisions(
    connection: sa.Connection, batch: Sequence[Sequence[Decision]], now: float, waits: Waits
) -> list[tuple[Decision, ...] | ConflictError]:
    """Store the decisions of requests, and return them; of a request that came before, return those from then.

    A request id that came before with another body is a `ConflictError` in place of its decisions.
    """
    stored = find_decisions(connection, {request[0].request_id for request in batch})
    results: list[tuple[Decision, ...] | ConflictError] = []
    rows = []
    for request in batch:
        request_id, body_hash = request[0].request_id, request[0].body_hash
        if request_id not in stored:
            stored[request_id] = tuple(request)
            rows += [_row(decision, now, waits) for decision in request]
        results.append(repeated(stored[request_id], body_hash))
    if rows:
        connection.execute(sa.insert(decisions), rows)
    return results


def repeated(stored: tuple[Decision, ...], body_hash: str) -> tuple[Decision, ...] | ConflictError:
    """Return what a request gets whose id came before: the decisions from then if its body is the same."""
    if stored[0].body_hash == body_hash:
        return stored
    return ConflictError(f"request_id {stored[0].request_id}: was used before with another body; choose a new one")


def find_decisions(connection: sa.Connection, request_ids: Collection[str]) -> dict[str, tuple[Decision, ...]]:
    """Return the decisions of those requests that came before, by request id."""
    found: dict[str, tuple[Decision, ...]] = {}
    for part in _parts(list(request_ids)):
        query = sa.select(decisions).where(decisions.c.request_id.in_(part)).order_by(decisions.c.place)
        for row in connection.execute(query).mappings():
            found[row["request_id"]] = (*found.get(row["request_id"], ()), _decision(row))
    return found


def add_events(connection: sa.Connection, batch: Sequence[Event], behaviours: Collection[str], now: float) -> list[str]:
    """Store feedback, and return what became of each event; raise a `UserError` if one of them cannot be."""
    known_ids = _known_events(connection, [event.event_id for event in batch])
    states = _states(connection, {event.decision_id for event in batch})
    statuses, rows, changed = [], [], set()
    for event in batch:
        if event.event_id in known_ids:
            statuses.append(DUPLICATE)
            continue
        known_ids.add(event.event_id)
        state = states.get(event.decision_id)
        status = UNKNOWN if state is None else state.apply(event, behaviours)
        if status == STORED:
            changed.add(event.decision_id)
        statuses.append(status)
        rows.append(
            {
                "event_id": event.event_id,
                "decision_id": event.decision_id,
                "item": event.item,
                "behaviour": event.behaviour,
                "value": event.value,
                "client_time": event.time,
                "received": now,
                "status": status,
            }
        )
    if rows:
        connection.execute(sa.insert(events), rows)
    if changed:
        update = sa.update(decisions).where(decisions.c.number == sa.bindparam("key"))
        update = update.values(responses=sa.bindparam("responses"), has_feedback=sa.bindparam("has_feedback"))
        connection.execute(update, [_update(states[name]) for name in sorted(changed)])
    return statuses


def mark_shown(connection: sa.Connection, decision_ids: Sequence[str], now: float, waits: Waits) -> list[str]:
    """Begin to await feedback to decisions that have been shown; return what became of each."""
    states = _states(connection, set(decision_ids))
    statuses = []
    for decision_id in decision_ids:
        state = states.get(decision_id)
        if state is None:
            statuses.append(UNKNOWN)
        elif state.state == WAITING:
            change = {"state": OPEN, "due": now + waits.feedback}
            connection.execute(sa.update(decisions).where(decisions.c.number == state.number).values(**change))
            state.state = OPEN
            statuses.append(ACTIVATED)
        else:
            statuses.append(ACTIVE if state.state == OPEN else LATE)
    return statuses


def close_due(connection: sa.Connection, now: float, weights: Mapping[str, float], limit: int) -> list[Sample]:
    """Turn open decisions that are due into samples, in the order of their time, and expire those never shown."""
    expired = sa.update(decisions).where(decisions.c.state == WAITING, decisions.c.due <= now)
    connection.execute(expired.values(state=EXPIRED))
    query = sa.select(decisions).where(decisions.c.state == OPEN, decisions.c.due <= now)
    due = connection.execute(query.order_by(decisions.c.due, decisions.c.number).limit(limit)).mappings().all()
    if not due:
        return []
    first = 1 + newest_sample(connection)
    closed, rows = [], []
    for seq, row in enumerate(due, first):
        item_rewards = [sum(weights[name] for name in names) for names in row["responses"]]
        reward = sum(item_rewards) / len(item_rewards)
        closed.append(_sample(row, seq, row["responses"], reward))
        rows.append(
            {
                "seq": seq,
                "decision_id": row["decision_id"],
                "responses": row["responses"],
                "item_rewards": item_rewards,
                "reward": reward,
                "closed": now,
            }
        )
    connection.execute(sa.insert(samples), rows)
    for part in _parts([row["number"] for row in due]):
        connection.execute(sa.update(decisions).where(decisions.c.number.in_(part)).values(state=CLOSED))
    return closed


def newest_sample(connection: sa.Connection) -> int:
    """Return the number of the latest sample, or 0."""
    return connection.scalar(sa.select(sa.func.max(samples.c.seq))) or 0


def samples_after(connection: sa.Connection, seq: int, limit: int) -> list[Sample]:
    """Return the samples that follow one, in their order."""
    columns = [samples.c.seq, samples.c.reward, samples.c.responses.label("closed_responses")]
    query = sa.select(decisions, *columns).join(samples, samples.c.decision_id == decisions.c.decision_id)
    rows = connection.execute(query.where(samples.c.seq > seq).order_by(samples.c.seq).limit(limit)).mappings()
    return [_sample(row, row["seq"], row["closed_responses"], row["reward"]) for row in rows]


def shown_slates(
    connection: sa.Connection, user: str, limit: int, only_with_feedback: bool = False
) -> list[tuple[float, History]]:
    """Return the latest slates of a user that are part of the user's history, oldest first, with their times.

    These are closed ones, unless only those with feedback are wanted, and open ones that have feedback. What has been
    taken back is none.
    """
    is_part = decisions.c.state.in_((CLOSED, OPEN)) & decisions.c.has_feedback
    if not only_with_feedback:
        is_part |= decisions.c.state == CLOSED
    query = sa.select(decisions.c.created, decisions.c.slate, decisions.c.responses)
    query = query.where(decisions.c.user == user, is_part).order_by(decisions.c.number.desc()).limit(limit)
    rows = connection.execute(query).all()
    return [(created, _history(zip(slate, names, strict=True))) for created, slate, names in reversed(rows)]


def latest_time(connection: sa.Connection) -> float:
    """Return the latest time in the store, or 0."""
    columns = (decisions.c.created, events.c.received, samples.c.closed, versions.c.promoted)
    times = [sa.select(sa.func.max(column)) for column in columns]
    return max(connection.scalar(time) or 0.0 for time in times)


@dataclass
class _State:
    number: int
    state: str
    slate: list[str]
    responses: list[list[str]]

    def apply(self, event: Event, behaviours: Collection[str]) -> str:
        """Change the responses by an event, and return what becomes of it."""
        if event.behaviour not in behaviours:
            names = ", ".join(behaviours)
            raise UserError(f"event {event.event_id}: no behaviour {event.behaviour!r}; choose from {names}")
        if event.item not in self.slate:
            raise UserError(
                f"event {event.event_id}: item {event.item} is not in the slate of decision {event.decision_id}"
            )
        if self.state not in (WAITING, OPEN):
            return LATE
        place = self.slate.index(event.item)
        responses = {*self.responses[place]} - {event.behaviour} | ({event.behaviour} if event.value else set())
        self.responses[place] = [name for name in behaviours if name in responses]
        return STORED


def _update(state: _State) -> dict[str, object]:
    return {"key": state.number, "responses": state.responses, "has_feedback": any(state.responses)}


def _known_events(connection: sa.Connection, event_ids: Sequence[str]) -> set[str]:
    known: set[str] = set()
    for part in _parts(event_ids):
        known |= set(connection.scalars(sa.select(events.c.event_id).where(events.c.event_id.in_(part))))
    return known


def _states(connection: sa.Connection, decision_ids: Collection[str]) -> dict[str, _State]:
    columns = [decisions.c[name] for name in ("decision_id", "number", "state", "slate", "responses")]
    states = {}
    for part in _parts(list(decision_ids)):
        for decision_id, *values in connection.execute(sa.select(*columns).where(decisions.c.decision_id.in_(part))):
            states[decision_id] = _State(*values)
    return states


def _row(decision: Decision, now: float, waits: Waits) -> dict[str, object]:
    columns = {name: getattr(decision, name) for name in Decision.__dataclass_fields__ if name != "is_shown"}
    return columns | {
        "state": OPEN if decision.is_shown else WAITING,
        "responses": [[] for _ in decision.slate],
        "has_feedback": False,
        "created": now,
        "due": now + (waits.feedback if decision.is_shown else waits.shown),
    }


def _decision(row: sa.RowMapping) -> Decision:
    values = {name: row[name] for name in Decision.__dataclass_fields__ if name != "is_shown"}
    for name in ("slate", "log_prob", "learned_log_prob", "notes"):
        values[name] = tuple(values[name])
    return Decision(**values | {"history": _history(values["history"])}, is_shown=row["state"] != WAITING)


def _sample(row: sa.RowMapping, seq: int, responses: Iterable[Sequence[str]], reward: float) -> Sample:
    return Sample(
        seq=seq,
        decision_id=row["decision_id"],
        user=row["user"],
        history=_history(row["history"]),
        slate=tuple(row["slate"]),
        responses=tuple(tuple(names) for names in responses),
        reward=reward,
        version=row["version"],
        revision=row["revision"],
        shown=row["created"],
    )


def _history(pairs: Iterable[tuple[str, Sequence[str]]]) -> History:
    return tuple((item, _names(names)) for item, names in pairs)


def _names(names: Sequence[str]) -> Behaviours:
    return tuple(names)


def _parts(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (values[first : first + _LARGEST_LIST] for first in range(0, len(values), _LARGEST_LIST))

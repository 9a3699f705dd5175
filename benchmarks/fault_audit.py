"""A comparison of what a live service has acknowledged with what is in its store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fault_harness import Book


@dataclass
class Audit:
    """How the store compares with the book; everything but the counts has to be empty."""

    num_decisions: int
    num_events: int
    num_samples: int
    num_unanswered: int
    """Decisions that were stored, but whose answer was lost; a retry was answered with them."""
    faults: list[str]


def compare(book: Book, store: str) -> Audit:
    """Compare what was acknowledged with what is stored, after everything was closed."""
    import sqlalchemy as sa

    from gfn4rec.live.store.store import Store
    from gfn4rec.live.store.tables import decisions, events, samples

    opened = Store(store, read_only=True)
    with opened.read() as connection:
        stored = [dict(row) for row in connection.execute(sa.select(decisions)).mappings()]
        stored_events = [dict(row) for row in connection.execute(sa.select(events).order_by("number")).mappings()]
        sampled = [dict(row) for row in connection.execute(sa.select(samples).order_by("seq")).mappings()]
    opened.close()
    faults = [*book.problems, *_decision_faults(book, stored), *_event_faults(book, stored_events)]
    faults += _sample_faults(stored, stored_events, sampled)
    num_unanswered = sum(row["created"] < book.unanswered.get(row["request_id"], 0) for row in stored)
    return Audit(len(stored), len(stored_events), len(sampled), num_unanswered, faults)


def _decision_faults(book: Book, stored: Sequence[dict[str, Any]]) -> list[str]:
    by_request = {row["request_id"]: row for row in stored}
    faults = [f"request {name} has {count} decisions" for name, count in _repeated(stored, "request_id")]
    faults += [f"nobody asked for {name}" for name in by_request.keys() - book.asked]
    for name, answer in book.decisions.items():
        row = by_request.get(name)
        given = [item["id"] for item in answer["items"]]
        if row is None:
            faults.append(f"decision of {name} is lost")
        elif (row["decision_id"], row["slate"]) != (answer["decision_id"], given):
            faults.append(f"decision of {name} was answered {given}, and {row['slate']} is stored")
    return faults


def _event_faults(book: Book, stored: Sequence[dict[str, Any]]) -> list[str]:
    by_id = {row["event_id"]: row for row in stored}
    faults = [f"event {name} is stored {count} times" for name, count in _repeated(stored, "event_id")]
    for name, (event, status) in book.events.items():
        row = by_id.get(name)
        if row is None:
            faults.append(f"event {name} is lost")
            continue
        # A retry after a kill is answered "duplicate": the first attempt was stored.
        was_sent_again = f"{name.rpartition('/')[0]}/feedback" in book.unanswered
        is_same = status == row["status"] or (status == "duplicate" and was_sent_again)
        if not is_same or (row["decision_id"], row["item"]) != (event["decision_id"], event["item"]):
            faults.append(f"event {name} was acknowledged as {status}, and {row} is stored")
    return faults


def _sample_faults(
    stored: Sequence[dict[str, Any]], events: Sequence[dict[str, Any]], sampled: Sequence[dict[str, Any]]
) -> list[str]:
    faults = [f"decision {name} has {count} samples" for name, count in _repeated(sampled, "decision_id")]
    if [row["seq"] for row in sampled] != list(range(1, len(sampled) + 1)):
        faults.append("the sequence of samples has gaps")
    by_decision = {row["decision_id"]: row for row in sampled}
    clicked: dict[str, set[str]] = {}
    for event in events:
        if event["status"] == "stored":
            clicked.setdefault(event["decision_id"], set()).add(event["item"])
    for row in stored:
        sample = by_decision.get(row["decision_id"])
        if row["state"] != "closed" or sample is None:
            has = "no" if sample is None else "a"
            faults.append(f"decision {row['decision_id']} is {row['state']} and has {has} sample")
            continue
        learned = {item for item, names in zip(row["slate"], sample["responses"], strict=True) if names}
        if learned != clicked.get(row["decision_id"], set()):
            faults.append(f"sample {sample['seq']} has responses to {learned}, not those of its events")
    return faults


def _repeated(rows: Sequence[dict[str, Any]], name: str) -> list[tuple[str, int]]:
    return [(value, count) for value, count in Counter(row[name] for row in rows).items() if count > 1]

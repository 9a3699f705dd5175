"""From decisions and feedback to samples: cases worked out by hand. The clock stands at 1,000 when a test begins."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from gfn4rec.errors import UserError
from gfn4rec.live import service as joining
from gfn4rec.live.clock import steady_clock
from gfn4rec.live.records import ConflictError, Decision, Event, Sample
from gfn4rec.live.service import LiveService
from gfn4rec.live.store.decisions import (
    Waits,
    add_events,
    find_decisions,
    insert_decisions,
    latest_time,
    mark_shown,
    samples_after,
    shown_slates,
)
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.tables import decisions, samples
from gfn4rec.live.store.writer import StoreError
from tests.live.conftest import NewService
from tests.live.fakes import BEHAVIOURS, LONGEST_WAIT, FakeClock, recommend

WAITS = Waits(feedback=600.0, shown=3600.0)  # the defaults of a service


def send(service: LiveService, *events: Event) -> list[str]:
    return service.feedback(events).result(LONGEST_WAIT)


def shown(service: LiveService, *decision_ids: str) -> list[str]:
    return service.shown(decision_ids).result(LONGEST_WAIT)


def seqs(closed: Sequence[Sample]) -> list[tuple[int, str]]:
    return [(sample.seq, sample.decision_id) for sample in closed]


def states(store: Store) -> dict[str, str]:
    with store.read() as connection:
        query = sa.select(decisions.c.decision_id, decisions.c.state).order_by(decisions.c.number)
        return {row.decision_id: row.state for row in connection.execute(query)}


def plain_decision(number: int, user: str = "u") -> Decision:
    """A decision that no policy has made."""
    return Decision(
        decision_id=f"d{number}",
        request_id=f"r{number}",
        place=0,
        body_hash="h",
        user=user,
        history=(),
        rule={},
        sampling={},
        slate=("a", "b", "c"),
        log_prob=(0.0,) * 3,
        learned_log_prob=(0.0,) * 3,
        version=1,
        revision=0,
        notes=(),
        is_shown=True,
    )


def insert(store: Store, numbers: Sequence[int], now: float = 1_000.0) -> None:
    batch = [[plain_decision(number)] for number in numbers]
    store.write(lambda connection: insert_decisions(connection, batch, now, WAITS)).result(LONGEST_WAIT)


@pytest.fixture
def broken_commits() -> Iterator[list[bool]]:
    """Whether each of the next commits fails; those after them succeed."""
    fails: list[bool] = []

    def commit(_: sa.Connection) -> None:
        if fails and fails.pop(0):
            raise OperationalError("COMMIT", {}, Exception("disk I/O error"))

    sa.event.listen(sa.Engine, "commit", commit)
    yield fails
    sa.event.remove(sa.Engine, "commit", commit)


def test_a_slate_closes_after_the_waiting_time(service: LiveService, clock: FakeClock) -> None:
    (decision,) = recommend(service, "r1", user="u1")
    first, _, third = decision.slate
    name = decision.decision_id
    clock.now = 1_100.0
    click, like = Event("e1", name, first, "click"), Event("e2", name, first, "like")
    assert send(service, like, click, Event("e3", name, third, "hide")) == ["stored"] * 3
    clock.now = 1_599.9
    assert service.close_due() == []
    clock.now = 1_600.0
    (sample,) = service.close_due()
    assert (sample.seq, sample.decision_id, sample.slate) == (1, name, decision.slate)
    assert sample.responses == (("click", "like"), (), ("hide",))
    assert sample.reward == pytest.approx((1 + 2 - 1) / 3)
    assert (sample.shown, sample.version, sample.user, sample.history) == (1_000.0, 1, "u1", decision.history)
    with service.store.read() as connection:
        row = connection.execute(sa.select(samples)).mappings().one()
        assert samples_after(connection, 0, 10) == [sample]
        assert samples_after(connection, 1, 10) == []
    assert (row["item_rewards"], row["reward"], row["closed"]) == ([3.0, 0.0, -1.0], sample.reward, 1_600.0)
    assert service.close_due() == []


def test_late_feedback_is_stored_and_changes_nothing(service: LiveService, clock: FakeClock) -> None:
    (decision,) = recommend(service, "r1", user="u1")
    late = Event("e1", decision.decision_id, decision.slate[0], "click")
    clock.now = 1_600.0
    before = service.close_due()
    history = service.history("u1")
    assert history[-3:] == tuple((item, ()) for item in decision.slate)  # closed slates are part of it
    assert send(service, late) == ["late"]
    assert send(service, late) == ["duplicate"]
    with service.store.read() as connection:
        assert samples_after(connection, 0, 10) == before
        assert connection.scalar(sa.select(decisions.c.responses)) == [[], [], []]
    assert service.history("u1") == history
    assert shown(service, decision.decision_id) == ["late"]
    assert (service.statistics.counts["event/late"], service.statistics.counts["event/duplicate"]) == (1, 1)


def test_feedback_that_is_due_but_not_closed_still_counts(service: LiveService, clock: FakeClock) -> None:
    """The joiner decides what is late, so that a sample has all feedback that was answered with `stored`."""
    (decision,) = recommend(service, "r1")
    clock.now = 5_000.0
    assert send(service, Event("e1", decision.decision_id, decision.slate[1], "click")) == ["stored"]
    assert service.close_due()[0].responses == ((), ("click",), ())


def test_on_shown_the_waiting_time_begins_with_the_report(service: LiveService, clock: FakeClock) -> None:
    (decision,) = recommend(service, "r1", is_shown_at_once=False)
    assert not decision.is_shown
    early = Event("e1", decision.decision_id, decision.slate[0], "click")
    clock.now = 1_400.0
    assert send(service, early) == ["stored"]  # it may overtake the report
    assert service.history("u1") == decision.history  # but what was not shown is not read
    clock.now = 1_700.0
    assert service.close_due() == []
    names = [decision.decision_id, "nobody", decision.decision_id]
    assert shown(service, *names) == ["activated", "unknown decision", "active"]
    clock.now = 2_000.0
    assert shown(service, decision.decision_id) == ["active"]  # a second report does not prolong it
    clock.now = 2_299.9
    assert service.close_due() == []
    clock.now = 2_300.0
    assert [sample.responses for sample in service.close_due()] == [(("click",), (), ())]
    assert recommend(service, "r1", is_shown_at_once=False)[0].is_shown


def test_what_is_never_shown_expires(service: LiveService, clock: FakeClock) -> None:
    (decision,) = recommend(service, "r1", is_shown_at_once=False)
    name = decision.decision_id
    send(service, Event("e1", name, decision.slate[0], "click"))
    clock.now = 4_599.9
    assert service.close_due() == []
    assert states(service.store) == {name: "waiting"}
    clock.now = 4_600.0
    assert service.close_due() == []
    assert states(service.store) == {name: "expired"}
    assert shown(service, name) == ["late"]
    assert send(service, Event("e2", name, decision.slate[0], "like")) == ["late"]
    clock.now = 99_999.0
    assert service.close_due() == []
    assert service.history("u1") == decision.history


def test_samples_are_in_the_order_of_due_times(service: LiveService, clock: FakeClock) -> None:
    ((a,), (b, c)) = (
        recommend(service, "a", is_shown_at_once=False),
        recommend(service, "bc", num_slates=2),
    )
    clock.now = 1_010.0
    (d,) = recommend(service, "d")  # due at 1,610
    clock.now = 1_005.0
    shown(service, a.decision_id)  # due at 1,605
    clock.now = 2_000.0
    names = [b.decision_id, c.decision_id, a.decision_id, d.decision_id]  # b and c: as they were answered
    assert seqs(service.close_due()) == list(enumerate(names, 1))


def test_many_are_closed_in_parts(service: LiveService, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "_LARGEST_CLOSING", 3)
    parts: list[int] = []
    monkeypatch.setattr(service.statistics, "closed", lambda part: parts.append(len(part)))
    insert(service.store, range(8))
    clock.now = 1_600.0
    assert seqs(service.close_due()) == [(number + 1, f"d{number}") for number in range(8)]
    insert(service.store, range(8, 14))
    clock.now = 3_000.0
    assert seqs(service.close_due()) == [(number + 1, f"d{number}") for number in range(8, 14)]
    assert parts == [3, 3, 2, 3, 3, 0]


def test_more_than_a_condition_can_name(service: LiveService, clock: FakeClock) -> None:
    """Lists of ids are cut into conditions of 500; nothing is lost where they are cut."""
    store, numbers = service.store, range(1_001)
    insert(store, numbers)
    events = [Event(f"e{number}", f"d{number}", "abc"[number % 3], "click") for number in numbers]
    assert send(service, *events) == ["stored"] * 1_001
    assert send(service, *events) == ["duplicate"] * 1_001
    assert shown(service, *(f"d{number}" for number in numbers)) == ["active"] * 1_001
    with store.read() as connection:
        found = find_decisions(connection, [f"r{number}" for number in numbers])
    assert found == {f"r{number}": (plain_decision(number),) for number in numbers}
    clock.now = 1_600.0
    closed = service.close_due()
    assert seqs(closed) == [(number + 1, f"d{number}") for number in numbers]
    assert [sample.responses.index(("click",)) for sample in closed] == [number % 3 for number in numbers]
    assert set(states(store).values()) == {"closed"}


def test_numbers_go_on_after_a_restart(new_service: NewService, store: Store, store_url: str, clock: FakeClock) -> None:
    service = new_service(store)
    insert(store, [0, 1])
    insert(store, [2], now=1_500.0)
    clock.now = 1_700.0
    assert seqs(service.close_due()) == [(1, "d0"), (2, "d1")]
    service.batcher.close()
    store.close()
    again = Store(store_url)
    clock.now = 2_100.0
    assert seqs(new_service(again).close_due()) == [(3, "d2")]
    with again.read() as connection:
        assert seqs(samples_after(connection, 0, 2)) == [(1, "d0"), (2, "d1")]
        assert seqs(samples_after(connection, 2, 2)) == [(3, "d2")]
    again.close()


def test_closing_that_does_not_come_to_its_commit(
    service: LiveService, clock: FakeClock, broken_commits: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "_LARGEST_CLOSING", 2)
    insert(service.store, range(5))
    clock.now = 1_600.0
    broken_commits += [False, True]  # the second part of two
    with pytest.raises(StoreError, match="disk I/O error"):
        service.close_due()
    assert list(states(service.store).values()) == ["closed"] * 2 + ["open"] * 3
    clock.now = 1_700.0
    assert seqs(service.close_due()) == [(3, "d2"), (4, "d3"), (5, "d4")]
    with service.store.read() as connection:
        assert seqs(samples_after(connection, 0, 10)) == [(number + 1, f"d{number}") for number in range(5)]


def test_feedback_that_does_not_come_to_its_commit(service: LiveService, broken_commits: list[bool]) -> None:
    (decision,) = recommend(service, "r1")
    event = Event("e1", decision.decision_id, decision.slate[0], "click")
    broken_commits += [True]
    with pytest.raises(StoreError, match="disk I/O error"):
        send(service, event)
    assert service.statistics.counts["event/stored"] == 0
    assert service.history("u1") == decision.history
    assert send(service, event) == ["stored"]
    assert shown(service, decision.decision_id) == ["active"]  # by now the event has been counted
    assert service.statistics.counts["event/stored"] == 1


def test_responses_are_taken_back_and_repeated(service: LiveService, clock: FakeClock) -> None:
    (decision,) = recommend(service, "r1")
    name, (first, second, _) = decision.decision_id, decision.slate
    statuses = send(
        service,
        Event("e1", name, first, "hide"),
        Event("e2", name, first, "click"),
        Event("e2", name, second, "click"),  # the same id: only the first counts, whatever it says
        Event("e3", name, first, "click"),  # the same response once more is the same response
        Event("e4", name, second, "like"),
        Event("e5", name, second, "like", value=0),
        Event("e6", name, second, "click", value=0),  # nothing to take back
    )
    assert statuses == ["stored", "stored", "duplicate", "stored", "stored", "stored", "stored"]
    clock.now = 1_600.0
    (sample,) = service.close_due()
    assert sample.responses == (("click", "hide"), (), ())  # in the order of the data set
    assert sample.reward == 0.0


def test_a_batch_with_a_wrong_event_is_refused_as_a_whole(service: LiveService) -> None:
    (decision,) = recommend(service, "r1")
    name, item = decision.decision_id, decision.slate[0]
    other = next(item for item in "abcdefgh" if item not in decision.slate)
    good = Event("good", name, item, "click")
    with pytest.raises(UserError, match=f"event odd: item {other} is not in the slate of decision {name}"):
        send(service, good, Event("odd", name, other, "click"))
    with pytest.raises(UserError, match="event odd: no behaviour 'share'; choose from click, like, hide"):
        send(service, good, Event("odd", name, item, "share"))
    assert send(service, Event("odd", "nobody", other, "share"), good) == ["unknown decision", "stored"]
    assert service.history("u1")[-3:] == ((item, ("click",)), *((item, ()) for item in decision.slate[1:]))


def test_what_was_taken_back_is_no_feedback(store: Store) -> None:
    """An open slate is part of a history while it has a response; histories of responses alone skip all others."""

    def note(event_id: str, number: int, value: int) -> None:
        event = Event(event_id, f"d{number}", "b", "click", value)
        store.write(lambda connection: add_events(connection, [event], BEHAVIOURS, 1_001.0)).result(LONGEST_WAIT)

    def read(only_with_feedback: bool = False) -> list[tuple[float, Any]]:
        with store.read() as connection:
            return shown_slates(connection, "u", 1, only_with_feedback)

    insert(store, [0, 1])
    note("e1", 0, 1)
    clicked = [(1_000.0, (("a", ()), ("b", ("click",)), ("c", ())))]
    assert read() == read(only_with_feedback=True) == clicked
    note("e2", 1, 1)
    note("e3", 1, 0)
    assert read() == read(only_with_feedback=True) == clicked  # the later slate has none any more


def test_a_history_is_of_the_latest_slates_oldest_first(service: LiveService, clock: FakeClock) -> None:
    insert(service.store, [0, 1])
    insert(service.store, [2], now=1_001.0)
    insert(service.store, [3], now=1_500.0)  # open and without feedback: not part of it
    clock.now = 1_601.0
    assert len(service.close_due()) == 3
    nothing = (("a", ()), ("b", ()), ("c", ()))
    with service.store.read() as connection:
        assert shown_slates(connection, "u", 2) == [(1_000.0, nothing), (1_001.0, nothing)]
        assert [time for time, _ in shown_slates(connection, "u", 9)] == [1_000.0, 1_000.0, 1_001.0]
        assert shown_slates(connection, "u", 2, only_with_feedback=True) == []
        assert shown_slates(connection, "another", 2) == []


def test_the_same_request_twice(store: Store) -> None:
    first, other = plain_decision(1), plain_decision(2)
    changed = Decision(**vars(first) | {"body_hash": "another", "slate": ("d", "e", "f")})

    def answer(*batch: Decision) -> list[tuple[Decision, ...] | ConflictError]:
        return store.write(
            lambda connection: insert_decisions(connection, [[one] for one in batch], 1_000.0, WAITS)
        ).result(LONGEST_WAIT)

    assert answer(first, first) == [(first,), (first,)]
    redrawn = Decision(**vars(first) | {"slate": ("d", "e", "f")})
    assert answer(redrawn, other) == [(first,), (other,)]
    (conflict,) = answer(changed)
    assert isinstance(conflict, ConflictError)
    assert str(conflict) == "request_id r1: was used before with another body; choose a new one"
    assert list(states(store)) == ["d1", "d2"]


def test_a_clock_that_was_set_back_delays_nothing(new_service: NewService, store: Store) -> None:
    """What was answered at 1,000 closes at 1,600, although the system's clock reads 5 when the service starts again."""
    (decision,) = recommend(new_service(store), "r1")
    with store.read() as connection:
        assert latest_time(connection) == 1_000.0
    seconds = FakeClock(7.0)
    again = new_service(store)
    again.clock = steady_clock(1_000.0, wall=lambda: 5.0, steady=seconds)
    seconds.now = 7.0 + 599.0
    assert again.close_due() == []
    seconds.now = 7.0 + 600.0
    assert seqs(again.close_due()) == [(1, decision.decision_id)]


def test_a_clock_runs_steadily_whatever_the_wall_shows() -> None:
    wall, seconds = FakeClock(1_000.0), FakeClock(50.0)
    clock = steady_clock(0.0, wall, seconds)
    times = []
    for shown_by_wall in (1_000.0, 400.0, 9_000.0):
        wall.now = shown_by_wall
        seconds.advance(1.5)
        times.append(clock())
    assert times == [1_001.5, 1_003.0, 1_004.5]


def test_the_latest_time_is_that_of_anything(store: Store) -> None:
    def latest() -> float:
        with store.read() as connection:
            return latest_time(connection)

    def write(operation: Any) -> "Future[Any]":
        future = store.write(operation)
        future.result(LONGEST_WAIT)
        return future

    assert latest() == 0.0
    insert(store, [1], now=500.0)
    assert latest() == 500.0
    write(lambda connection: add_events(connection, [Event("e", "nobody", "a", "click")], BEHAVIOURS, 700.0))
    assert latest() == 700.0
    row = {"seq": 1, "decision_id": "d1", "responses": [], "item_rewards": [], "reward": 0.0, "closed": 900.0}
    write(lambda connection: connection.execute(sa.insert(samples).values(**row)))
    assert latest() == 900.0
    write(lambda connection: mark_shown(connection, ["d1"], 800.0, WAITS))
    assert latest() == 900.0

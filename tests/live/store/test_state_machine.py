"""Requests, reports, feedback, closing and restarts in any order: the store agrees with a model in plain Python."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live.records import Event
from gfn4rec.live.store.decisions import latest_time, samples_after
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.tables import decisions, events, samples
from tests.live.fakes import HISTORY, ITEMS, LONGEST_WAIT, FakeClock, ask, prepare_live_data, running_service
from tests.live.store.model import SHOWN_WITHIN, WAIT, Model, item_rewards

SEQUENCES = {"sqlite": 500, "postgresql": 40}
STEPS = 15
USERS = ("u1", "u3", "new", None)
TABLES = (samples, events, decisions)  # in an order in which they can be emptied

body = st.fixed_dictionaries(
    {
        "user": st.sampled_from(USERS),
        "num_slates": st.sampled_from([1, 1, 2]),
        "is_shown_at_once": st.sampled_from([True, True, False]),
    }
)
requests = st.lists(st.tuples(st.integers(0, 5), body), min_size=1, max_size=3)
# Which decision, which event id, which item of its slate: numbers are taken modulo what there is.
event = st.fixed_dictionaries(
    {
        "event_id": st.integers(0, 30),
        "decision": st.integers(0, 15),
        "place": st.integers(0, 2),
        "behaviour": st.sampled_from(["click", "click", "like", "hide"]),
        "value": st.sampled_from([1, 1, 1, 0]),
        "fault": st.sampled_from([None] * 12 + ["unknown decision", "item", "behaviour"]),
    }
)
batch = st.lists(event, min_size=1, max_size=4)
numbers = st.lists(st.integers(0, 16), min_size=1, max_size=3)


class Machine(RuleBasedStateMachine):
    """Runs a service and the model side by side; each sequence begins with empty tables."""

    data: dict[bool, SlateData]
    url: str
    store: Store

    @initialize(is_responded_only=st.booleans(), wanted=requests)
    def begin(self, is_responded_only: bool, wanted: list[tuple[int, dict[str, Any]]]) -> None:
        type(self).store.write(lambda connection: [connection.execute(sa.delete(table)) for table in TABLES]).result()
        self.clock, self.model = FakeClock(), Model(is_responded_only)
        self._serve()
        self.recommend(wanted)  # some sequences have no other requests, because hypothesis leaves out rules at random

    def _serve(self) -> None:
        self.stack = ExitStack()
        data = self.data[self.model.is_responded_only]
        self.service = self.stack.enter_context(
            running_service(data, type(self).store, self.clock, wait=WAIT, shown_within=SHOWN_WITHIN)
        )

    @rule(wanted=requests)
    def recommend(self, wanted: list[tuple[int, dict[str, Any]]]) -> None:
        """Several requests at once, which may share their ids and a batch."""
        asks = [ask(f"r{number}", **more) for number, more in wanted]
        histories = {user: self.model.history(user) for user in USERS}
        futures = [self.service.recommend(each) for each in asks]
        for each, future in zip(asks, futures, strict=True):
            self.model.check_reply(each, result(future), histories[each.user], self.clock())

    @rule(batches=st.lists(batch, min_size=1, max_size=3))
    def feedback(self, batches: list[list[dict[str, Any]]]) -> None:
        """Several batches at once, so that good ones share a transaction with such as are refused."""
        written = [[self._event(values) for values in one] for one in batches]
        futures = [self.service.feedback(one) for one in written]
        for one, future in zip(written, futures, strict=True):
            expected = self.model.feedback(one, self.clock())
            assert isinstance(result(future), UserError) if expected is None else result(future) == expected

    @rule(numbers=numbers, also=st.none() | batch)
    def shown(self, numbers: list[int], also: list[dict[str, Any]] | None) -> None:
        """Report slates as shown, perhaps while feedback arrives."""
        reported = [self._name(number) for number in numbers]
        shown = self.service.shown(reported)
        if also is not None:
            self.feedback([also])
        assert result(shown) == self.model.shown(reported, self.clock())

    @rule(seconds=st.sampled_from([1.0, 40.0, 60.0, 100.0]), is_closing=st.booleans())
    def wait(self, seconds: float, is_closing: bool) -> None:
        """Time passes; the joiner runs now or later."""
        self.clock.advance(seconds)
        if is_closing:
            self.close_due()

    @rule()
    def close_due(self) -> None:
        """What is due becomes samples, numbered on from those before."""
        num_before = len(self.model.closed)
        expected = list(enumerate(self.model.close_due(self.clock()), num_before + 1))
        assert [(sample.seq, sample.decision_id) for sample in self.service.close_due()] == expected

    @rule(user=st.sampled_from(USERS[:3]))
    def read(self, user: str) -> None:
        """A history holds all feedback so far."""
        assert self.service.history(user) == self.model.history(user)

    @rule(seconds_back=st.sampled_from([0.0, 30.0]))
    def restart(self, seconds_back: float) -> None:
        """Another process opens the store; the system's clock may have been set back meanwhile."""
        self.stack.close()
        self.store.close()
        type(self).store = Store(self.url)
        with type(self).store.read() as connection:
            assert latest_time(connection) == self.model.latest
        self.clock.now = max(self.clock.now - seconds_back, self.model.latest)
        self._serve()
        self.compare()

    def compare(self) -> None:
        """The tables hold what the model says, and nothing else."""
        with type(self).store.read() as connection:
            rows = {table: connection.execute(sa.select(table)).mappings().all() for table in TABLES}
            by_seq = samples_after(connection, 0, 1000)
        assert {row["event_id"]: event_row(row) for row in rows[events]} == {
            name: (event.decision_id, event.item, event.behaviour, event.value, received, status)
            for name, (event, received, status) in self.model.events.items()
        }
        assert [
            (row["decision_id"], row["state"], row["due"], row["created"], row["responses"])
            for row in sorted(rows[decisions], key=lambda row: row["number"])
        ] == [(name, slate.state, slate.due, slate.created, slate.names) for name, slate in self.model.slates.items()]
        closed = [self.model.slates[name] for name, _ in self.model.closed]
        assert [
            (row["seq"], row["decision_id"], row["responses"], row["item_rewards"], row["closed"])
            for row in sorted(rows[samples], key=lambda row: row["seq"])
        ] == [
            (seq, name, slate.names, item_rewards(slate), time)
            for seq, ((name, time), slate) in enumerate(zip(self.model.closed, closed, strict=True), 1)
        ]
        assert [sample.reward for sample in by_seq] == [sum(item_rewards(slate)) / 3 for slate in closed]
        assert [tuple(zip(sample.slate, sample.responses, strict=True)) for sample in by_seq] == [
            slate.history for slate in closed
        ]

    def teardown(self) -> None:
        """Whatever came before, each activated decision has become one sample once its time is over."""
        if not hasattr(self, "stack"):
            return
        with self.stack:
            self.clock.advance(WAIT + SHOWN_WITHIN)
            self.close_due()
            self.compare()
        is_sample = {name for name, _ in self.model.closed}
        assert len(is_sample) == len(self.model.closed)
        assert is_sample == {name for name, slate in self.model.slates.items() if slate.state == "closed"}
        assert {slate.state for slate in self.model.slates.values()} <= {"closed", "expired"}

    def _name(self, number: int) -> str:
        """A decision by its number, or one that does not exist."""
        known = [*self.model.slates, "no decision"]
        return known[number % len(known)]

    def _event(self, values: dict[str, Any]) -> Event:
        fault, name = values["fault"], self._name(values["decision"])
        if fault == "unknown decision" or name not in self.model.slates:
            return Event(f"e{values['event_id']}", "d-nobody", "a", values["behaviour"], values["value"])
        slate = self.model.slates[name].decision.slate
        item = next(item for item in ITEMS if item not in slate) if fault == "item" else slate[values["place"]]
        behaviour = "share" if fault == "behaviour" else values["behaviour"]
        return Event(f"e{values['event_id']}", name, item, behaviour, values["value"])


def event_row(row: sa.RowMapping) -> Sequence[object]:
    return tuple(row[name] for name in ("decision_id", "item", "behaviour", "value", "received", "status"))


def result(future: "Future[Any]") -> Any:
    """The result of a future, or the refusal."""
    error = future.exception(LONGEST_WAIT)
    if error is not None and not isinstance(error, UserError):
        raise error
    return future.result() if error is None else error


@pytest.fixture(scope="session")
def both_data(live_data: SlateData, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, SlateData]:
    """Data whose histories hold all items (False), or only those with a response (True)."""
    folder = tmp_path_factory.mktemp("responded") / "data"
    prepare_live_data(folder, history="responded")
    return {False: live_data, True: SlateData.open(folder, HISTORY)}


@pytest.mark.parametrize("dialect", SEQUENCES)
def test_any_sequence(dialect: str, new_store_url: Callable[[str], str], both_data: dict[bool, SlateData]) -> None:
    url = new_store_url(dialect)

    class OnStore(Machine):
        pass

    OnStore.data, OnStore.url, OnStore.store = both_data, url, Store(url)
    limits = settings(
        max_examples=SEQUENCES[dialect],
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(OnStore, settings=limits)
    finally:
        OnStore.store.close()

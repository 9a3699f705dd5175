"""Simulated users at a service that is written down, in a time that passes at once."""

import asyncio
import selectors
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from gfn4rec.client import ClientError, Event, EventStatus, Recommendation
from gfn4rec.client.results import Slate, SlateItem
from gfn4rec.live.traffic import traffic as traffic_module
from gfn4rec.live.traffic.config import TrafficConfig
from gfn4rec.live.traffic.tally import Period
from gfn4rec.live.traffic.traffic import Traffic
from gfn4rec.live.traffic.users import Responses, Shown

Result = TypeVar("Result")


class Hasty(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once whenever it would wait."""

    def __init__(self) -> None:
        self._now = 0.0
        selector = selectors.DefaultSelector()
        select = selector.select

        def skip(timeout: float | None = None) -> Any:
            assert timeout is not None, "all wait for each other"
            self._now += max(0.0, timeout)
            return select(0)

        selector.select = skip  # type: ignore[method-assign]
        super().__init__(selector)

    def time(self) -> float:
        """Return the seconds that would have passed."""
        return self._now


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run in a time of its own, which begins at 0."""
    with asyncio.Runner(loop_factory=Hasty) as runner:
        return runner.run(coroutine)


class Patience:
    """How long the client waits for a service."""

    seconds = 60.0


class FakeClient:
    """A service that answers all with the same items after some time, and notes what it gets and when."""

    def __init__(self, latency: float = 0.01, fails: frozenset[int] = frozenset()) -> None:
        self.latency, self.fails, self.patience = latency, fails, Patience()
        self.asked: list[tuple[float, str, float | None, str]] = []
        self.got: list[tuple[float, tuple[Event, ...]]] = []
        self.open: Counter[str] = Counter()
        self.most_open = 0

    async def recommend(self, user: str, *, greediness: float | None, request_id: str) -> Recommendation:
        number = len(self.asked)
        self.asked.append((asyncio.get_running_loop().time(), user, greediness, request_id))
        self.open[user] += 1
        assert self.open[user] == 1, "a user waits for one slate at a time"
        self.most_open = max(self.most_open, self.open.total())
        await asyncio.sleep(self.latency)
        self.open[user] -= 1
        if number in self.fails:
            raise ClientError("the service is tired")
        items = tuple(SlateItem(name, None, 0.5) for name in "ab")
        return Recommendation(request_id, 1, (Slate(f"d{number}", items, -1.0),), ())

    async def feedback_batch(self, events: Sequence[Event]) -> list[EventStatus]:
        known = {event.event_id for _, sent in self.got for event in sent}
        self.got.append((asyncio.get_running_loop().time(), tuple(events)))
        return [EventStatus(event.event_id, "duplicate" if event.event_id in known else "stored") for event in events]


class FakeUsers:
    """Users who click the first item of each slate and nothing else."""

    def __init__(self, count: int) -> None:
        self.ids = tuple(f"u{number}" for number in range(count))


class FakeResponder:
    """Responds at once, in the same thread."""

    def __init__(self, users: FakeUsers) -> None:
        self.users = users

    async def respond(self, shown: Shown) -> Responses:
        assert shown.items == ("a", "b")
        return Responses((("click",), ()), 1.0, 0.75, 0)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _respond_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_module, "Responder", FakeResponder)


def play(client: FakeClient, users: int = 100, **settings: Any) -> tuple[Traffic, float]:
    """Play users with these settings; return the traffic and the seconds that it took."""
    config = TrafficConfig.model_validate(settings)
    traffic = Traffic(client, FakeUsers(users), config)  # type: ignore[arg-type]
    return traffic, run(traffic.run())


def test_so_many_requests_and_no_more() -> None:
    client = FakeClient()
    traffic, _ = play(client, requests=57, rate=10)
    assert len(client.asked) == traffic.tally.counts["slates"] == 57
    assert len({request_id for *_, request_id in client.asked}) == 57
    assert [events[0].decision_id for _, events in client.got] != []
    assert {event.decision_id for _, events in client.got for event in events} == {f"d{n}" for n in range(57)}


def test_so_many_seconds_and_no_more() -> None:
    client = FakeClient()
    traffic, seconds = play(client, seconds=200.0, rate=5)
    assert max(time for time, *_ in client.asked) < 200
    assert 200 <= seconds <= 200 + client.latency + 0.2
    assert len(client.asked) == pytest.approx(1000, abs=4 * 1000**0.5)  # arrivals at random times
    gaps = [after[0] - before[0] for before, after in zip(client.asked, client.asked[1:], strict=False)]
    assert sum(gap > 0.2 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.07)  # exp(-1) wait for longer
    assert traffic.tally.counts["slates"] == len(client.asked)


def test_feedback_comes_after_its_delay() -> None:
    client = FakeClient()
    play(client, requests=2000, rate=20, delay=3.0)
    answered = {f"d{number}": time + client.latency for number, (time, *_) in enumerate(client.asked)}
    last = max(answered.values())
    delays = [time - answered[events[0].decision_id] for time, events in client.got]
    # What would come after the end is sent at the end; so only feedback to slates long before tells of the delay.
    early = [
        delay
        for delay, (_, events) in zip(delays, client.got, strict=True)
        if answered[events[0].decision_id] < last - 30
    ]
    assert len(early) > 1000
    assert sum(early) / len(early) == pytest.approx(3.0, abs=4 * 3 / len(early) ** 0.5)
    assert min(delays) >= -1e-9
    assert max(time for time, _ in client.got) <= last + 0.2


def test_losses_and_duplicates_are_counted() -> None:
    client = FakeClient()
    traffic, _ = play(client, requests=2000, rate=100, lose=0.25, duplicate=0.5, delay=0.1)
    counts = traffic.tally.counts
    sent = Counter(event.event_id for _, events in client.got for event in events)
    assert counts["events"] == 2000
    assert counts["lost on purpose"] == 2000 - len(sent) == pytest.approx(500, abs=80)
    assert counts["stored"] == len(sent)
    assert counts["duplicate"] == sum(count == 2 for count in sent.values()) == pytest.approx(750, abs=90)
    assert set(sent.values()) == {1, 2}


def test_the_same_seed_sends_the_same() -> None:
    def sent(seed: int) -> tuple[object, object]:
        client = FakeClient()
        play(client, requests=50, rate=10, seed=seed, lose=0.3)
        return [entry[:2] for entry in client.asked], [(time, len(events)) for time, events in client.got]

    assert sent(1) == sent(1)
    assert sent(1) != sent(2)


def test_rewards_and_latencies_are_those_of_the_answers() -> None:
    traffic, seconds = play(FakeClient(latency=0.25), requests=40, rate=2)
    whole = traffic.tally.summary(seconds + 1e-6).whole  # the last answer came at the very end
    assert (whole.reward, whole.expected_reward, whole.slates) == (1.0, 0.75, 40)
    assert whole.p50_ms == pytest.approx(250, abs=1)


def test_a_slow_service_is_not_flooded() -> None:
    client = FakeClient(latency=10.0)
    traffic, _ = play(client, requests=60, rate=100, concurrency=8)
    assert client.most_open == 8
    assert traffic.seconds_behind > 30


def test_few_users_wait_for_their_turn() -> None:
    client = FakeClient(latency=1.0)
    play(client, users=3, requests=30, rate=100)
    assert {user for _, user, *_ in client.asked} == {"u0", "u1", "u2"}
    assert client.most_open == 3


def test_greediness_is_sent() -> None:
    client = FakeClient()
    play(client, requests=1, greediness=0.4)
    assert client.asked[0][2] == 0.4


def test_failures_are_told_and_the_traffic_goes_on() -> None:
    client = FakeClient(fails=frozenset({3, 4}))
    traffic, seconds = play(client, requests=20, rate=10)
    assert traffic.tally.counts["slates"] == 18
    assert traffic.tally.summary(seconds).problems == ("2 times: the service is tired",)
    assert len(client.got) == 18


def test_asked_to_end() -> None:
    client = FakeClient()
    traffic = Traffic(client, FakeUsers(9), TrafficConfig(rate=10), is_ended=lambda: len(client.asked) >= 15)  # type: ignore[arg-type]
    run(traffic.run())
    assert len(client.asked) == 15
    assert client.patience.seconds == 2.0  # the service may have ended, too
    assert len(client.got) == 15


def test_windows_are_reported_while_it_runs() -> None:
    seen: list[Period] = []
    traffic = Traffic(
        FakeClient(),  # type: ignore[arg-type]
        FakeUsers(50),  # type: ignore[arg-type]
        TrafficConfig(rate=4, seconds=35),
        report=lambda period, _: seen.append(period),
    )
    run(traffic.run())
    assert [(period.start, period.end) for period in seen] == [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)]
    assert sum(period.slates for period in seen) == traffic.tally.period(0, 30).slates > 0

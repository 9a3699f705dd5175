"""What becomes of feedback on its way: as often lost, doubled and delayed as asked."""

import numpy as np
import pytest

from gfn4rec.client import Event
from gfn4rec.live.traffic.config import TrafficConfig
from gfn4rec.live.traffic.feedback import Delivery, deliveries

EVENTS = tuple(Event("d", item, "click", event_id=item) for item in "abcd")


def delivered(seed: int = 0, events: tuple[Event, ...] = EVENTS, **settings: float) -> list[Delivery]:
    """Return how events are sent with these settings."""
    return deliveries(events, TrafficConfig.model_validate(settings), np.random.default_rng(seed))


def test_all_events_of_a_slate_are_sent_once_and_together() -> None:
    (only,) = delivered()
    assert only.events == EVENTS


def test_all_are_lost() -> None:
    assert delivered(lose=1) == []
    assert delivered(lose=1, duplicate=1) == []


def test_a_duplicate_is_the_same_event_later() -> None:
    first, again = delivered(duplicate=1)
    assert first.events == again.events == EVENTS
    assert again.delay > first.delay > 0


def test_nothing_is_sent_without_events() -> None:
    assert delivered(events=()) == []


def test_without_delay_all_is_sent_at_once() -> None:
    assert [delivery.delay for delivery in delivered(duplicate=1, delay=0)] == [0, 0]


def test_shares_and_delays_are_as_asked() -> None:
    number, lose, duplicate, delay = 4000, 0.2, 0.3, 2.5
    sent = [delivered(seed, lose=lose, duplicate=duplicate, delay=delay) for seed in range(number)]
    first = [deliveries[0] for deliveries in sent if deliveries]
    again = [deliveries[1] for deliveries in sent if len(deliveries) > 1]
    events = number * len(EVENTS)
    # Four standard deviations of a share of 16,000 events, and of the mean of 4,000 exponential times.
    assert sum(len(delivery.events) for delivery in first) / events == pytest.approx(1 - lose, abs=0.013)
    assert sum(len(delivery.events) for delivery in again) / events == pytest.approx((1 - lose) * duplicate, abs=0.014)
    assert np.mean([delivery.delay for delivery in first]) == pytest.approx(delay, abs=0.16)
    assert np.std([delivery.delay for delivery in first]) == pytest.approx(delay, abs=0.25)  # exponential
    later = [deliveries[1].delay - deliveries[0].delay for deliveries in sent if len(deliveries) > 1]
    assert np.mean(later) == pytest.approx(delay, abs=0.2)
    assert all({*delivery.events} <= {*EVENTS} for delivery in again)


def test_events_that_are_lost_are_not_sent_again() -> None:
    for seed in range(50):
        sent = delivered(seed, lose=0.5, duplicate=1)
        assert len({delivery.events for delivery in sent}) <= 1

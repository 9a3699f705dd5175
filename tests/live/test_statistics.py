"""What the page and `gfn4rec live status` count, against values worked out by hand."""

import math
from typing import Any

import pytest

from gfn4rec.live.records import Sample
from gfn4rec.live.statistics import Moments, Statistics, quantile
from tests.live.fakes import FakeClock


def sample(reward: float, version: int = 1, shown: float = 1_000.0, slate: tuple[str, ...] = ("a", "b")) -> Sample:
    """Return a closed slate; what does not matter here is empty."""
    return Sample(1, "d", None, (), slate, (), reward, version, revision=0, shown=shown)


def by_version(statistics: Statistics) -> dict[int, dict[str, Any]]:
    """Return the rewards of versions by their numbers."""
    return {values["version"]: values for values in statistics.as_dict()["by_version"]}


def test_mean_deviation_and_interval() -> None:
    moments = Moments()
    for value in (1.0, 2.0, 3.0, 6.0):
        moments.add(value)
    # Squares around the mean 3: 4 + 1 + 0 + 9 = 14; 14 / 3 = 4.667, its root 2.1602; 1.96 * 2.1602 / 2 = 2.1170.
    assert (moments.count, moments.mean) == (4, 3.0)
    assert moments.deviation == pytest.approx(2.1602469)
    assert moments.interval() == pytest.approx((0.8829580, 5.1170420))


def test_counted_values_are_added_as_often() -> None:
    at_once, singly = Moments(), Moments()
    at_once.add(2.0, 3)
    at_once.add(5.0)
    for value in (2.0, 2.0, 2.0, 5.0):
        singly.add(value)
    assert at_once == singly
    assert at_once.deviation == pytest.approx(1.5)  # mean 2.75: 3 * 0.5625 + 5.0625 = 6.75; 6.75 / 3 = 2.25


@pytest.mark.parametrize("values", [(), (0.7,)])
def test_a_spread_needs_two_values(values: tuple[float, ...]) -> None:
    moments = Moments()
    for value in values:
        moments.add(value)
    assert moments.interval() is None
    assert moments.deviation == 0
    assert moments.mean == sum(values)


def test_equal_values_have_an_interval_without_width() -> None:
    moments = Moments()
    moments.add(0.1, 3)  # 3 * 0.01 is not exactly the sum of squares
    assert moments.interval() == pytest.approx((0.1, 0.1), abs=1e-7)


@pytest.mark.parametrize(("share", "milliseconds"), [(0.0, 1), (0.49, 49 + 1), (0.5, 51), (0.99, 100), (1.0, 100)])
def test_a_share_of_the_answers_is_faster_than_its_quantile(share: float, milliseconds: int) -> None:
    assert quantile([number / 1000 for number in range(1, 101)], share) == pytest.approx(milliseconds)


def test_no_answer_has_no_quantile() -> None:
    assert quantile([], 0.5) is None


def test_latencies_by_time_and_of_the_last_minute() -> None:
    clock = FakeClock(1_003.0)
    statistics = Statistics(clock)
    for seconds in (0.004, 0.001, 0.002):
        statistics.answered(seconds)
    clock.now = 1_012.0
    statistics.answered(0.010)
    values = statistics.as_dict()
    assert values["latency"] == [
        {"start": 1_000.0, "seconds": 10.0, "requests": 3, "p50_ms": 2.0, "p99_ms": 4.0},
        {"start": 1_010.0, "seconds": 10.0, "requests": 1, "p50_ms": 10.0, "p99_ms": 10.0},
    ]
    assert values["requests"] == {
        "total": 4,
        "per_second": pytest.approx(4 / 9),  # since the start at 1,003
        "p50_ms": 4.0,
        "p99_ms": 10.0,
        "refused": 0,
        "failed": 0,
    }


def test_the_rate_is_that_of_whole_tens_of_seconds_within_the_last_minute() -> None:
    clock = FakeClock(1_000.0)
    statistics = Statistics(clock)
    for second in range(200):  # one request per second
        clock.now = 1_000.0 + second
        statistics.answered(0.5 if second < 140 else 0.001)
    clock.now = 1_195.0 + 4.999
    values = statistics.as_dict()["requests"]
    # 1,140 to 1,199 are six tens of seconds, the last one not quite over; the slow requests before are not counted.
    assert values["per_second"] == pytest.approx(60 / 59.999)
    assert (values["p99_ms"], values["total"]) == (1.0, 200)
    clock.now = 1_300.0
    assert statistics.as_dict()["requests"] | {"total": 0} == {
        "total": 0,
        "per_second": 0.0,
        "p50_ms": None,
        "p99_ms": None,
        "refused": 0,
        "failed": 0,
    }


def test_quantiles_stay_when_the_single_latencies_are_no_longer_kept() -> None:
    clock = FakeClock(1_000.0)
    statistics = Statistics(clock)
    for seconds in (0.004, 0.001, 0.002):
        statistics.answered(seconds)
    first = {"start": 1_000.0, "seconds": 10.0, "requests": 3, "p50_ms": 2.0, "p99_ms": 4.0}
    for number in range(1, 8):
        clock.now = 1_000.0 + 10 * number
        statistics.answered(0.010)
        assert statistics.as_dict()["latency"][0] == first
        num_kept = sum(len(bucket.seconds or ()) for bucket in statistics._latencies)
        assert num_kept == (3 + number if number < 6 else 6)  # those of the last minute


def test_a_clock_that_goes_back_opens_no_earlier_bucket() -> None:
    clock = FakeClock(1_010.0)
    statistics = Statistics(clock)
    statistics.answered(0.001)
    clock.now = 1_001.0
    statistics.answered(0.003)
    assert [(bucket["start"], bucket["requests"]) for bucket in statistics.as_dict()["latency"]] == [(1_010.0, 2)]


def test_rewards_by_version_and_by_the_time_slates_were_shown() -> None:
    statistics = Statistics(FakeClock())
    statistics.closed([sample(2.0, 1, 1_001.0, ("a", "b")), sample(1.0, 2, 1_019.0, ("c", "d"))])
    statistics.closed([sample(5.0, 1, 1_009.9, ("b", "c"))])
    # Version 1: mean 3.5, squares around it 2 * 2.25 = 4.5, so the deviation is 2.1213, its 95 % margin 1.96 * 1.5.
    assert by_version(statistics)[1] == {
        "version": 1,
        "slates": 2,
        "mean": 3.5,
        "deviation": pytest.approx(math.sqrt(4.5)),
        "low": pytest.approx(3.5 - 2.94),
        "high": pytest.approx(3.5 + 2.94),
    }
    one = {"slates": 1, "mean": 1.0, "deviation": 0.0}
    assert by_version(statistics)[2] == {"version": 2, "low": None, "high": None, **one}
    assert statistics.as_dict()["reward"] == [
        {
            "start": 1_000.0,
            "seconds": 10.0,
            "slates": 2,
            "mean": 3.5,
            "deviation": pytest.approx(math.sqrt(4.5)),
            "coverage": 3,
        },
        {"start": 1_010.0, "seconds": 10.0, "coverage": 2, **one},
    ]


def test_memory_is_bounded_and_the_newest_stay() -> None:
    clock = FakeClock(0.0)
    statistics = Statistics(clock)
    for number in range(400):
        clock.now = 10.0 * number
        statistics.answered(0.001)
        statistics.closed([sample(1.0, number, clock.now)])
    values = statistics.as_dict()
    assert [bucket["start"] for bucket in values["reward"]] == [10.0 * number for number in range(40, 400)]
    assert [bucket["start"] for bucket in values["latency"]] == [10.0 * number for number in range(40, 400)]
    assert list(by_version(statistics)) == list(range(200, 400))
    assert values["requests"]["total"] == 400


def test_counts_of_refused_and_failed_requests() -> None:
    statistics = Statistics(FakeClock())
    statistics.count("refused", 3)
    statistics.count("failed")
    values = statistics.as_dict()["requests"]
    assert (values["refused"], values["failed"], values["total"]) == (3, 1, 0)

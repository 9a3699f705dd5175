"""The books of simulated traffic, against values worked out by hand."""

import json

import pytest

from gfn4rec.live.traffic.tally import Tally


def test_a_period_by_hand() -> None:
    tally = Tally()
    for time, latency, reward in ((1.0, 0.030, 1.0), (2.0, 0.010, 2.0), (9.0, 0.020, 6.0), (10.0, 0.5, 100.0)):
        tally.answered(time, latency, reward, reward / 2, version=1)
    period = tally.window(0)  # the last one came at its end, and belongs to the next
    # Mean 3; squares around it 4 + 1 + 9 = 14; deviation sqrt(7) = 2.6458; margin 1.96 * 2.6458 / sqrt(3) = 2.9940.
    assert (period.start, period.end, period.slates) == (0.0, 10.0, 3)
    assert (period.reward, period.expected_reward) == (3.0, 1.5)
    assert period.low == pytest.approx(0.0060, abs=1e-4)
    assert period.high == pytest.approx(5.9940, abs=1e-4)
    assert period.requests_per_second == 0.3
    assert period.p50_ms == pytest.approx(20)
    assert period.p99_ms == pytest.approx(30)
    assert tally.window(1).slates == 1


@pytest.mark.parametrize("slates", [0, 1])
def test_few_slates_have_no_interval(slates: int) -> None:
    tally = Tally()
    for _ in range(slates):
        tally.answered(1.0, 0.01, 2.0, 1.5, version=1)
    period = tally.period(0.0, 60.0)
    assert (period.low, period.high) == (None, None)
    assert period.reward == (2.0 if slates else None)
    assert period.p99_ms == (pytest.approx(10) if slates else None)


def test_a_summary_by_hand() -> None:
    tally = Tally()
    for second in range(150):  # one slate per second; reward 0, and 1 in the last minute
        tally.answered(second + 0.5, 0.01, float(second >= 90), 0.25, version=1 + second // 50)
    tally.counts["stored"] += 7
    summary = tally.summary(150.0)
    assert summary.whole.slates == 150
    assert summary.whole.reward == pytest.approx(0.4)
    assert (summary.first_minute.start, summary.first_minute.end, summary.first_minute.reward) == (0.0, 60.0, 0.0)
    assert (summary.last_minute.start, summary.last_minute.end, summary.last_minute.reward) == (90.0, 150.0, 1.0)
    assert [window.slates for window in summary.windows] == [10] * 15
    assert [window.reward for window in summary.windows] == [0.0] * 9 + [1.0] * 6
    assert summary.versions == {1: 50, 2: 50, 3: 50}
    assert summary.counts == {"slates": 150, "stored": 7}
    assert summary.problems == ()
    assert json.loads(json.dumps(summary.as_dict()))["last_minute"]["slates"] == 60


def test_a_short_summary() -> None:
    tally = Tally()
    tally.answered(3.0, 0.01, 1.0, 1.0, version=4)
    summary = tally.summary(12.5)
    assert (summary.first_minute.end, summary.last_minute.start) == (12.5, 0.0)
    assert [(window.start, window.end) for window in summary.windows] == [(0.0, 10.0), (10.0, 12.5)]
    assert summary.whole.requests_per_second == pytest.approx(1 / 12.5)


def test_answers_stay_in_the_order_of_time() -> None:
    tally = Tally()
    tally.answered(9.9, 0.01, 1.0, 1.0, version=1)
    tally.answered(9.8, 0.01, 1.0, 1.0, version=1)  # measured before, recorded after
    assert (tally.window(0).slates, tally.window(1).slates) == (2, 0)


def test_failures_are_counted_by_their_sentence() -> None:
    tally = Tally()
    for sentence in ("a", "b", "a"):
        tally.failed(sentence)
    assert tally.summary(1.0).problems == ("2 times: a", "1 times: b")
    for number in range(20):  # only the first ten sentences are kept
        tally.failed(f"sentence {number}")
    tally.failed("a")
    assert tally.counts["errors"] == 24
    assert len(tally.problems) == 10
    assert tally.problems["a"] == 3

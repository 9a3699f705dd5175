"""What `benchmarks/live.py` computes from its measurements, with known truth."""

import pytest
from load_harness import Phase, growth_per_hour


def test_percentiles_are_those_of_the_latencies_in_milliseconds() -> None:
    phase = Phase(100, latency=[number / 1000 for number in range(100, 0, -1)])
    assert (phase.percentile(0.5), phase.percentile(0.99)) == (51, 100)
    assert phase.percentile(0.5, [0.25]) == 250
    assert Phase(100).percentile(0.5) is None


def test_latencies_near_version_swaps_are_kept_apart() -> None:
    """Version 2 answers first at second 3; an answer of version 1 that comes later is no swap back."""
    due = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 2.5]
    phase = Phase(1, due=due, latency=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], version=[1, 1, 1, 2, 1, 2, 1])
    near, others = phase.near_swaps()
    assert (sorted(near), sorted(others), phase.num_swaps) == ([3, 4, 5, 7], [1, 2, 6], 1)


def test_growth_is_the_slope_of_the_second_half() -> None:
    """What the start takes does not count: 0.01 per second are 36 per hour."""
    samples = [(float(second), 50.0 * second if second < 10 else 500 + 0.01 * second) for second in range(20)]
    assert growth_per_hour(samples) == pytest.approx(36)
    assert growth_per_hour(samples[:4]) is None

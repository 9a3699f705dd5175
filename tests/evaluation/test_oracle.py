"""The oracle between its points."""

from dataclasses import replace

import pytest

from gfn4rec.evaluation.frontier import FrontierPoint
from gfn4rec.evaluation.oracle import frontier_line, oracle_reward, oracle_share


def point(sampler: str, reward: float, coverage: float) -> FrontierPoint:
    return FrontierPoint(sampler, None, reward, 0.0, coverage, 0.0, 0.0, 0.0)


POINTS = [
    point("random", 0.5, 600),
    point("boltzmann", 2.0, 300),
    point("boltzmann", 2.2, 100),
    point("greedy, slate-aware", 2.4, 20),
]


def test_straight_lines_between_points() -> None:
    assert oracle_reward(POINTS, 300) == pytest.approx(2.0)
    assert oracle_reward(POINTS, 200) == pytest.approx(2.1)
    assert oracle_reward(POINTS, 60) == pytest.approx(2.3)


def test_beyond_its_ends() -> None:
    assert oracle_reward(POINTS, 5) == 2.4
    assert oracle_reward(POINTS, 301) is None  # the random sampler is no part of the oracle
    assert oracle_share(POINTS, 301, 1.0) is None
    assert oracle_reward([], 10) is None


def test_share() -> None:
    assert oracle_share(POINTS, 200, 1.05) == pytest.approx(0.5)
    worthless = [replace(point, reward=0.0) for point in POINTS]
    assert oracle_share(worthless, 200, 0.1) is None


SLOPPY = [
    point("boltzmann", 1.848, 12),  # the greedy oracle shows more items and earns more
    point("greedy, slate-aware", 2.0, 20),
    point("boltzmann", 1.7, 60),  # so does the next one
    point("boltzmann", 1.8, 100),
    point("random", 0.5, 600),
]


def test_a_point_with_less_coverage_and_less_reward_is_left_out() -> None:
    assert frontier_line(SLOPPY) == [(20, 2.0), (100, 1.8)]
    assert oracle_reward(SLOPPY, 12) == oracle_reward(SLOPPY, 16) == oracle_reward(SLOPPY, 5) == 2.0
    assert oracle_reward(SLOPPY, 60) == pytest.approx(1.9)
    assert oracle_share(SLOPPY, 12, 1.868) == pytest.approx(0.934)  # not 1.868 / 1.848 = 1.011
    assert oracle_share(SLOPPY, 60, 1.71) == pytest.approx(0.9)


def test_equal_points_count_once() -> None:
    equal = [point("boltzmann", 2.0, 20), point("boltzmann", 2.0, 20), point("boltzmann", 2.0, 10)]
    assert frontier_line(equal) == [(20, 2.0)]
    assert frontier_line([point("boltzmann", 1.0, 20), point("boltzmann", 2.0, 20)]) == [(20, 2.0)]
    assert [oracle_reward(equal, coverage) for coverage in (5, 20, 21)] == [2.0, 2.0, None]

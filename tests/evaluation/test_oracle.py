"""The oracle between its points."""

from dataclasses import replace

import pytest

from gfn4rec.evaluation.frontier import FrontierPoint
from gfn4rec.evaluation.oracle import oracle_reward, oracle_share


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

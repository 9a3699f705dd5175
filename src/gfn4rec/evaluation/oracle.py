"""A policy's reward compared with the oracle's at the same coverage.

The oracle's reward at a coverage is the most that any oracle attains with at least this coverage, linear between
points. So it never rises with coverage, and a point is left out if another one has both more coverage and more reward:
no policy is held to less because one oracle happens to be worse than another.
"""

from collections.abc import Sequence
from itertools import pairwise

from gfn4rec.evaluation.frontier import RANDOM, FrontierPoint


def frontier_line(points: Sequence[FrontierPoint]) -> list[tuple[float, float]]:
    """Return coverage and reward of the oracle's best points, by coverage; rewards fall from point to point.

    Random slates are no part of it, and neither are points that another one exceeds or equals in both values.
    """
    line: list[tuple[float, float]] = []
    values = {(point.coverage, point.reward) for point in points if point.sampler != RANDOM}
    for coverage, reward in sorted(values, reverse=True):  # the most coverage first, and of equal ones the best
        if not line or reward > line[-1][1]:
            line.append((coverage, reward))
    return line[::-1]


def reward_at(points: Sequence[tuple[float, float]], coverage: float) -> float | None:
    """Interpolate (coverage, reward) points linearly; None outside their range."""
    for (left, left_reward), (right, right_reward) in pairwise(sorted(points)):
        if left <= coverage <= right:
            share = (coverage - left) / (right - left) if right > left else 0.0
            return left_reward + share * (right_reward - left_reward)
    return None


def oracle_reward(points: Sequence[FrontierPoint], coverage: float) -> float | None:
    """Return the oracle's reward at a coverage; None at a coverage that it does not reach."""
    line = frontier_line(points)
    # With fewer items than the best oracle shows, no policy is held to more than its reward.
    return line[0][1] if line and coverage <= line[0][0] else reward_at(line, coverage)


def oracle_share(points: Sequence[FrontierPoint], coverage: float, reward: float) -> float | None:
    """Return a reward divided by the oracle's at the same coverage; None where that is unknown or not positive."""
    oracle = oracle_reward(points, coverage)
    return None if oracle is None or oracle <= 0 else reward / oracle

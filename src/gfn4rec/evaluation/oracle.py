"""A policy's reward compared with the oracle's at the same coverage."""

from collections.abc import Sequence
from itertools import pairwise

from gfn4rec.evaluation.frontier import RANDOM, FrontierPoint


def frontier_line(points: Sequence[FrontierPoint]) -> list[tuple[float, float]]:
    """Return coverage and reward of the oracle's points, by coverage; random slates are no part of it."""
    return sorted((point.coverage, point.reward) for point in points if point.sampler != RANDOM)


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
    # With fewer items than the greedy oracle shows, no policy is held to more than its reward.
    return line[0][1] if line and coverage < line[0][0] else reward_at(line, coverage)


def oracle_share(points: Sequence[FrontierPoint], coverage: float, reward: float) -> float | None:
    """Return a reward divided by the oracle's at the same coverage; None where that is unknown or not positive."""
    oracle = oracle_reward(points, coverage)
    return None if oracle is None or oracle <= 0 else reward / oracle

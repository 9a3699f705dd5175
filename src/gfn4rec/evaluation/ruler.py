"""A policy's reward beside the ruler's, at the same coverage."""

from collections.abc import Sequence
from itertools import pairwise

from gfn4rec.evaluation.frontier import FrontierPoint


def reward_at(points: Sequence[tuple[float, float]], coverage: float) -> float | None:
    """Between the two (coverage, reward) points around a coverage, on a straight line; None outside of all."""
    for (left, left_reward), (right, right_reward) in pairwise(sorted(points)):
        if left <= coverage <= right:
            share = (coverage - left) / (right - left) if right > left else 0.0
            return left_reward + share * (right_reward - left_reward)
    return None


def ruler_reward(points: Sequence[FrontierPoint], coverage: float) -> float | None:
    """The ruler's reward at a coverage; None where it has none."""
    line = sorted((point.coverage, point.reward) for point in points if point.sampler != "random")
    # Fewer items than the ruler's greedy sampler shows cannot be asked for more than its reward.
    return line[0][1] if line and coverage < line[0][0] else reward_at(line, coverage)


def share_of_ruler(points: Sequence[FrontierPoint], coverage: float, reward: float) -> float | None:
    """The policy's reward as a share of the ruler's at its coverage; None where the ruler earns nothing."""
    ruler = ruler_reward(points, coverage)
    return None if ruler is None or ruler <= 0 else reward / ruler

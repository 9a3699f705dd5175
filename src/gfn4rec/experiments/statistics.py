"""What a few seeds allow to be said: mean, spread, and a paired test."""

import math
from collections.abc import Sequence
from typing import Final

from scipy.stats import ttest_rel

MIN_PAIRS: Final = 5
"""Fewer seeds say nothing about significance."""


def mean(values: Sequence[float]) -> float:
    """Of one value or more."""
    return math.fsum(values) / len(values)


def standard_deviation(values: Sequence[float]) -> float | None:
    """Of a sample (n - 1); one value has none."""
    if len(values) < 2:
        return None
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def paired_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Of a two-sided paired t-test; None for too few pairs, or where the differences do not vary."""
    differences = [one - other for one, other in zip(first, second, strict=True)]
    if len(differences) < MIN_PAIRS or not _varies(differences, max(map(abs, (*first, *second)))):
        return None
    return float(ttest_rel(first, second).pvalue)


def _varies(differences: Sequence[float], scale: float) -> bool:
    """More than subtraction's rounding makes them."""
    return max(differences) - min(differences) > 1e-12 * scale

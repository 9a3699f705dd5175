"""What a few seeds allow to be said: mean, spread, a paired test, and whether two orders agree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scipy.stats import spearmanr, ttest_rel

MIN_PAIRS: Final = 5
"""Fewer seeds say nothing about significance."""


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation, and how likely one as strong is by chance."""

    rho: float
    p: float


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


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> Correlation | None:
    """None where it is not defined: for fewer than three pairs, or where one side is constant."""
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}")
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    found = spearmanr(first, second)
    return Correlation(float(found.statistic), float(found.pvalue))


def _varies(differences: Sequence[float], scale: float) -> bool:
    """More than subtraction's rounding makes them."""
    return max(differences) - min(differences) > 1e-12 * scale

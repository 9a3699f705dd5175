"""Statistics over a few seeds: mean, standard deviation and a paired test."""

import math
from collections.abc import Sequence
from typing import Final

from scipy.stats import ttest_rel

MIN_PAIRS: Final = 5
"""With fewer seeds no significance is reported."""


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value."""
    return math.fsum(values) / len(values)


def standard_deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation (n - 1), None for a single value."""
    if len(values) < 2:
        return None
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def paired_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return p of a two-sided paired t-test, None for too few pairs or constant differences."""
    differences = [one - other for one, other in zip(first, second, strict=True)]
    if len(differences) < MIN_PAIRS or not _varies(differences, max(map(abs, (*first, *second)))):
        return None
    return float(ttest_rel(first, second).pvalue)


def _varies(differences: Sequence[float], scale: float) -> bool:
    """Whether differences vary by more than rounding errors of the subtraction."""
    return max(differences) - min(differences) > 1e-12 * scale

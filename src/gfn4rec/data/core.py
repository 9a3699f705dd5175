"""The k-core filter."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = npt.NDArray[np.int64]


def k_core(user: npt.NDArray[np.integer], item: npt.NDArray[np.integer], k: int) -> Rows:
    """The rows of the largest sub-log in which every user and every item has at least k rows.

    Users and items are small non-negative integers. Removing too rare ones makes others rare, so the filter is repeated
    until nothing changes; each round costs time in proportion to the rows that are left.
    """
    rows = np.arange(len(user))
    while len(rows):
        is_kept = (np.bincount(user) >= k)[user] & (np.bincount(item) >= k)[item]
        if is_kept.all():
            break
        user, item, rows = user[is_kept], item[is_kept], rows[is_kept]
    return rows


def largest_core(user: npt.NDArray[np.integer], item: npt.NDArray[np.integer]) -> int:
    """The largest k whose k-core keeps something. Cores are nested, so bisection finds it."""
    low, high = 1, int(min(np.bincount(user).max(), np.bincount(item).max()))
    while low < high:
        middle = (low + high + 1) // 2
        if len(k_core(user, item, middle)):
            low = middle
        else:
            high = middle - 1
    return low

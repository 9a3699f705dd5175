"""The k-core filter."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

Codes: TypeAlias = npt.NDArray[np.integer]

_COMPACT = 4  # integer ids that span less than this many times the rows are coded by their distance from the least


def codes(ids: pl.Series) -> tuple[npt.NDArray[np.int64], pl.Series]:
    """Return small integers, few more than there are rows, in the order of the ids; and the id of each code."""
    if ids.dtype.is_integer():
        values = ids.to_numpy()
        low, high = int(values.min()), int(values.max())
        if high - low < _COMPACT * len(values):
            return values - low, pl.Series(low + np.arange(high - low + 1))
    return ids.rank("dense").to_numpy().astype(np.int64) - 1, ids.unique().sort()


def k_core(user: Codes, item: Codes, k: int) -> npt.NDArray[np.bool_]:
    """Return which rows are in the largest sub-log in which every user and every item has at least k rows.

    Users and items are small non-negative integers. Removing rare ones makes others rare, so counting and removing
    repeat until nothing changes. Once more than half of the rows are gone, the rest is filtered on its own.
    """
    user_count, item_count = np.bincount(user), np.bincount(item)
    is_kept = np.ones(len(user), dtype=bool)
    while True:
        still = (user_count >= k)[user] & (item_count >= k)[item]
        removed = np.flatnonzero(is_kept & ~still)
        if not len(removed):
            return is_kept
        is_kept = still
        if 2 * len(removed) > len(user):
            is_kept[still] = k_core(user[still], item[still], k)
            return is_kept
        user_count -= np.bincount(user[removed], minlength=len(user_count))
        item_count -= np.bincount(item[removed], minlength=len(item_count))


def largest_core(user: Codes, item: Codes) -> int:
    """Return the largest k whose k-core is not empty, by bisection: cores are nested."""
    low, high = 1, int(min(np.bincount(user).max(), np.bincount(item).max()))
    while low < high:
        middle = (low + high + 1) // 2
        if k_core(user, item, middle).any():
            low = middle
        else:
            high = middle - 1
    return low

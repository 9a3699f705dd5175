"""The k-core filter against its definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gfn4rec.data.core import k_core, largest_core

logs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=60)


def naive_core(log: list[tuple[int, int]], k: int) -> list[int]:
    """Take one offending row away at a time: the union of all sub-logs with the property, by definition the largest."""
    rows = list(range(len(log)))
    while True:
        for row in rows:
            user, item = log[row]
            if sum(log[r][0] == user for r in rows) < k or sum(log[r][1] == item for r in rows) < k:
                rows.remove(row)
                break
        else:
            return rows


def core_rows(log: list[tuple[int, int]], k: int) -> list[int]:
    user, item = np.array(log).T
    return [int(row) for row in np.flatnonzero(k_core(user, item, k))]


@given(logs, st.integers(1, 6))
def test_core_is_a_fixed_point_and_maximal(log: list[tuple[int, int]], k: int) -> None:
    rows = core_rows(log, k)
    kept = [log[row] for row in rows]
    for side in (0, 1):
        ids = [pair[side] for pair in kept]
        assert all(ids.count(one) >= k for one in ids)
    if kept:
        assert core_rows(kept, k) == list(range(len(kept)))
    assert rows == naive_core(log, k)


@given(logs)
def test_largest_core_is_the_last_that_keeps_something(log: list[tuple[int, int]]) -> None:
    user, item = np.array(log).T
    k = largest_core(user, item)
    assert core_rows(log, k)
    assert not core_rows(log, k + 1)


def test_removing_an_item_can_remove_a_user() -> None:
    # User 0 has two rows, but item 9 occurs once; without it user 0 has one row, and then item 5 has one row less.
    log = [(0, 5), (0, 9), (1, 5), (1, 6), (2, 6), (2, 5)]
    assert core_rows(log, 2) == [2, 3, 4, 5]
    assert core_rows(log, 3) == []

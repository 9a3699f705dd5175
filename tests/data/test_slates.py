"""Slates against the rule written out for one user, row by row."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gfn4rec.data.slates import TEST, TRAIN, VAL, cut_segments, split_slates

user_logs = st.lists(st.lists(st.integers(1, 9), max_size=40), max_size=6)


def naive_segments(items: list[int], size: int) -> tuple[list[list[int]], int]:
    """Slates of one user as row numbers, and the number of skipped rows."""
    slates: list[list[int]] = []
    open_slate: list[int] = []
    repeats = skipped = 0
    for row in reversed(range(len(items))):
        if items[row] in [items[other] for other in open_slate]:
            repeats += 1
            continue
        open_slate.insert(0, row)
        if len(open_slate) == size:
            slates.insert(0, open_slate)
            skipped += repeats
            open_slate, repeats = [], 0
    return slates, skipped


def offsets(logs: list[list[int]]) -> np.ndarray:
    return np.cumsum([0] + [len(log) for log in logs])


@given(user_logs, st.integers(1, 7))
def test_segments_follow_the_rule(logs: list[list[int]], size: int) -> None:
    item = np.array([item for log in logs for item in log], dtype=np.uint32)
    offset = offsets(logs)
    segments = cut_segments(item, offset, size)
    expected, num_skipped = [], 0
    for start, log in zip(offset, logs, strict=False):
        slates, skipped = naive_segments(log, size)
        expected += [[int(start) + row for row in slate] for slate in slates]
        num_skipped += skipped
    assert segments.row_SK.tolist() == expected
    assert segments.num_skipped == num_skipped
    assert segments.num_leading == len(item) - len(expected) * size - num_skipped


@given(user_logs, st.integers(1, 7))
def test_segments_are_disjoint_ordered_distinct_and_cover_all_but_the_stated_rows(
    logs: list[list[int]], size: int
) -> None:
    item = np.array([item for log in logs for item in log], dtype=np.uint32)
    offset = offsets(logs)
    segments = cut_segments(item, offset, size)
    rows = segments.row_SK
    assert (np.diff(rows.ravel()) > 0).all()  # disjoint and in order at once
    for slate in rows:
        assert len(set(item[slate].tolist())) == size
        user = np.searchsorted(offset, slate, side="right")
        assert (user == user[0]).all()
    # Every row from a user's first slate on is in a slate or a repeat of an item of the slate around it.
    covered = set(rows.ravel().tolist())
    num_inside = 0
    for start, end in pairwise(offset.tolist()):
        of_user = [row for row in range(start, end) if row in covered]
        num_inside += end - of_user[0] if of_user else 0
    assert num_inside == rows.size + segments.num_skipped
    assert len(item) == rows.size + segments.num_skipped + segments.num_leading


def test_an_example_by_hand() -> None:
    # Backwards: 4, 3, (3 again: skipped), 5 -> full. Then 2, 1 and no third: leading.
    segments = cut_segments(np.array([1, 2, 5, 3, 3, 4]), np.array([0, 6]), 3)
    assert segments.row_SK.tolist() == [[2, 4, 5]]
    assert (segments.num_skipped, segments.num_leading) == (1, 2)


@given(st.lists(st.integers(0, 8), max_size=8), st.integers(0, 4), st.integers(0, 4))
def test_split_holds_out_the_last_slates_and_keeps_one_for_training(
    num_slates: list[int], test_slates: int, val_slates: int
) -> None:
    split = split_slates(np.array(num_slates, dtype=np.int64), test_slates, val_slates).tolist()
    assert len(split) == sum(num_slates)
    for count in num_slates:
        mine, split = split[:count], split[count:]
        assert mine == sorted(mine)  # train, then val, then test: no slate is trained on after a held-out one
        if count:
            assert mine.count(TRAIN) >= 1
            assert mine.count(TEST) == min(test_slates, count - 1)
            assert mine.count(VAL) == min(val_slates, count - 1 - mine.count(TEST))

"""Cuts the log of each user into slates of K distinct items, and splits them into training, validation and test."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]

SPLITS = ("train", "val", "test")
TRAIN, VAL, TEST = range(len(SPLITS))


@dataclass(frozen=True)
class Segments:
    """Slates as row numbers of the log, users in order, each user's slates from the oldest to the newest.

    Every row of the log is in exactly one slate, or skipped because it repeats an item of its slate, or leading: older
    than its user's first full slate. Skipped and leading rows stay in histories.
    """

    row_SK: Ints
    num_skipped: int
    num_leading: int


@dataclass(frozen=True)
class ShownSegments:
    """Slates that were shown, as row numbers of the log: the first K items of those that have as many.

    All other rows stay in histories.
    """

    row_SK: Ints
    num_slates: int  # of any length
    num_short: int  # of these, with fewer than K items
    num_beyond: int  # rows after the first K of their slate
    longest: int  # the number of items of the longest slate


def shown_segments(slate: npt.NDArray[np.integer], slate_size: int) -> ShownSegments:
    """Return the first K rows of each slate, given the slate of each row; the rows of a slate follow each other."""
    first_row = np.flatnonzero(np.append(True, slate[1:] != slate[:-1]))
    length = np.diff(np.append(first_row, len(slate)))
    is_full = length >= slate_size
    return ShownSegments(
        row_SK=first_row[is_full, None] + np.arange(slate_size),
        num_slates=len(length),
        num_short=int(np.count_nonzero(~is_full)),
        num_beyond=int((length[is_full] - slate_size).sum()),
        longest=int(length.max()),
    )


def cut_segments(item: npt.NDArray[np.integer], offset: Ints, slate_size: int) -> Segments:
    """Cut the rows `offset[u]:offset[u + 1]` of each user u into slates, from the end.

    Going back from a user's last row, a row joins the current slate unless its item is in it already; a full slate is
    closed and the next one begins.
    """
    has_repeats = _users_with_near_repeats(item, offset, slate_size)
    start, end = offset[:-1], offset[1:]
    walked, num_skipped = _walk_back(item, start[has_repeats], end[has_repeats], slate_size)
    row_SK = np.concatenate([_blocks(start[~has_repeats], end[~has_repeats], slate_size), walked])
    if len(walked):
        row_SK = row_SK[np.argsort(row_SK[:, 0])]
    return Segments(row_SK, num_skipped, len(item) - row_SK.size - num_skipped)


def _users_with_near_repeats(item: npt.NDArray[np.integer], offset: Ints, slate_size: int) -> npt.NDArray[np.bool_]:
    """Return which users have an item twice within K rows. The slates of all others are plain blocks of K rows."""
    has_repeats = np.zeros(len(offset) - 1, dtype=bool)
    if slate_size > np.max(np.diff(offset), initial=0):
        return has_repeats  # no log is long enough for a slate
    for distance in range(1, min(slate_size, len(item))):
        earlier = np.flatnonzero(item[distance:] == item[:-distance])
        user = np.searchsorted(offset, earlier, side="right") - 1
        has_repeats[user[earlier + distance < offset[user + 1]]] = True
    return has_repeats


def _blocks(start: Ints, end: Ints, slate_size: int) -> Ints:
    """Return the rows of users in blocks of K, counted from the end."""
    num_slates = (end - start) // slate_size
    first_slate = np.cumsum(num_slates) - num_slates
    number = np.arange(num_slates.sum()) - np.repeat(first_slate, num_slates)  # of a slate among those of its user
    first_row = np.repeat(end - num_slates * slate_size, num_slates) + number * slate_size
    rows: Ints = first_row[:, None] + np.arange(slate_size)
    return rows


def _walk_back(item: npt.NDArray[np.integer], start: Ints, end: Ints, slate_size: int) -> tuple[Ints, int]:
    """Apply the general rule; return the slates, and how many rows were skipped in them.

    A step handles one row of every user, so the longest log determines the number of steps.
    """
    by_length = np.argsort(start - end, kind="stable")
    start, end = start[by_length], end[by_length]
    num_active = np.searchsorted(start - end, -np.arange(np.max(end - start, initial=0)))  # users longer than a step
    open_item = np.full((len(end), slate_size), -1, dtype=np.int64)
    open_row = np.empty((len(end), slate_size), dtype=np.int64)
    num_open, num_repeats = np.zeros(len(end), dtype=np.int64), np.zeros(len(end), dtype=np.int64)
    closed, num_skipped = [np.empty((0, slate_size), dtype=np.int64)], 0
    for step, active in enumerate(num_active.tolist()):
        row = end[:active] - 1 - step
        is_new = (open_item[:active] != item[row, None]).all(axis=1)
        num_repeats[:active] += ~is_new
        user = np.flatnonzero(is_new)
        open_item[user, num_open[user]] = item[row[user]]
        open_row[user, num_open[user]] = row[user]
        num_open[user] += 1
        full = user[num_open[user] == slate_size]
        if len(full):
            closed.append(open_row[full, ::-1])
            num_skipped += int(num_repeats[full].sum())
            open_item[full], num_open[full], num_repeats[full] = -1, 0, 0
    return np.concatenate(closed), num_skipped


def split_slates(num_slates_of_user: Ints, test_slates: int, val_slates: int) -> npt.NDArray[np.uint8]:
    """Return TRAIN, VAL or TEST for each slate: a user's last slates are for test, those before them for validation.

    A user keeps at least one training slate; of the others, the test set gets its share first.
    """
    num_test = np.minimum(test_slates, np.maximum(num_slates_of_user - 1, 0))
    num_val = np.minimum(val_slates, np.maximum(num_slates_of_user - 1 - num_test, 0))
    end = np.repeat(np.cumsum(num_slates_of_user), num_slates_of_user)
    from_end = end - np.arange(len(end))  # 1 is a user's last slate
    num_test, num_val = np.repeat(num_test, num_slates_of_user), np.repeat(num_val, num_slates_of_user)
    split = np.where(from_end <= num_test, TEST, np.where(from_end <= num_test + num_val, VAL, TRAIN))
    return split.astype(np.uint8)

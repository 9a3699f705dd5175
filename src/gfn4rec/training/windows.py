"""Windows of the log for training on whole sequences: an epoch predicts each row once, from the rows before it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Windows:
    """Consecutive rows of one session, `first_target` to `end`, are predicted; histories are read from `first` on."""

    first: Tensor  # a place among the rows of histories
    first_target: Tensor
    end: Tensor

    def __len__(self) -> int:
        return len(self.first)


def cut_windows(
    first_row: Tensor,
    num_rows: int,
    history_length: int,
    stride: int,
    place_of: Callable[[Tensor], Tensor] = lambda row: row,
) -> Windows:
    """Cut the rows of each session into windows; without sessions, a user's rows are one.

    Histories have at most L rows. A session's first window predicts L + 1 rows, the first one from an empty history.
    Each later window predicts `stride` rows, from histories of at least L - stride + 1 rows. A smaller stride gives
    longer histories, and reads each row more often. `place_of` returns how many rows of histories are before a row, if
    these are not all rows.
    """
    last_row = torch.cat([first_row[1:], first_row.new_tensor([num_rows])])
    length = last_row - first_row
    num_later = (length - history_length - 1).clamp(min=0).add(stride - 1).div(stride, rounding_mode="floor")
    num_windows = 1 + num_later
    user = torch.repeat_interleave(torch.arange(len(first_row), device=first_row.device), num_windows)
    before = torch.repeat_interleave(num_windows.cumsum(0) - num_windows, num_windows)
    number = torch.arange(len(user), device=user.device) - before
    start, stop = first_row[user], last_row[user]
    later = start + history_length + 1 + (number - 1) * stride
    first_target = torch.where(number == 0, start, later)
    end = torch.minimum(torch.where(number == 0, start + history_length + 1, later + stride), stop)
    return Windows(torch.maximum(place_of(start), place_of(end - 1) - history_length), first_target, end)

"""Tables that have a row for each item, and one for padding."""

import torch.nn.functional as F
from torch import Tensor


def hide_rows(table_NX: Tensor, is_hidden_N: Tensor | None) -> Tensor:
    """Return a table with zeros in the hidden rows; None hides none."""
    return table_NX if is_hidden_N is None else table_NX.masked_fill(is_hidden_N[:, None], 0.0)


def add_rows(table: Tensor, num_rows: int) -> Tensor:
    """Return a table of so many rows: the given ones, bit for bit, and zeros after them."""
    return F.pad(table, (0, 0) * (table.dim() - 1) + (0, num_rows - len(table)))

"""The items that the slate of a request may be chosen from."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gfn4rec.errors import UserError
from gfn4rec.nn.scoring import ItemMatrix


@dataclass(frozen=True)
class Candidates:
    """Item ids in ascending order: one row for all requests, or a row for each. Shorter rows are padded with 0."""

    item_BC: Tensor
    num_padding_B: Tensor
    is_catalogue: bool = False  # all items, so a column is an id

    @classmethod
    def all_items(cls, num_items: int, device: torch.device) -> "Candidates":
        """Return the whole catalogue."""
        item_1N = torch.arange(num_items + 1, device=device)[None]
        return cls(item_1N, torch.ones(1, dtype=torch.int64, device=device), is_catalogue=True)

    @classmethod
    def of_lists(cls, item_BC: Tensor) -> "Candidates":
        """Return candidates from lists of different items in any order, padded with 0."""
        item_BC = item_BC.sort(dim=1).values
        return cls(item_BC, (item_BC == 0).sum(dim=1))

    @classmethod
    def of(
        cls, ids: Tensor | Sequence[int] | Sequence[Sequence[int]], num_requests: int, num_items: int, slate_size: int
    ) -> "Candidates":
        """Return validated candidates from ids for all requests, (C,), or a list for each, (B, C), of any length."""
        item_BC = ids if isinstance(ids, Tensor) else _padded(ids)
        if item_BC.dim() == 1:
            item_BC = item_BC[None]
        if item_BC.dim() != 2 or len(item_BC) not in (1, num_requests) or item_BC.is_floating_point():
            shape = tuple(item_BC.shape)
            raise UserError(
                f"candidates of shape {shape} do not fit {num_requests} requests; give item ids, (C,) or (B, C)"
            )
        candidates = cls.of_lists(item_BC.long())
        item_BC = candidates.item_BC
        unknown = item_BC[(item_BC < 0) | (item_BC > num_items)]
        if len(unknown):
            raise UserError(f"candidate {int(unknown[0])} is not in the catalogue; ids run from 1 to {num_items}")
        repeated = item_BC[:, 1:][(item_BC[:, 1:] == item_BC[:, :-1]) & (item_BC[:, 1:] > 0)]
        if len(repeated):
            raise UserError(f"candidate {int(repeated[0])} is given more than once; leave out the repetition")
        fewest = item_BC.shape[1] - int(candidates.num_padding_B.max())
        if fewest < slate_size:
            raise UserError(f"a slate has {slate_size} items, but there are only {fewest} candidates; give more")
        return candidates

    def to(self, device: torch.device) -> "Candidates":
        """Return the same candidates on another device."""
        return Candidates(self.item_BC.to(device), self.num_padding_B.to(device), self.is_catalogue)

    def count(self) -> Tensor:
        """Return the number of candidates, (1,) or (B,)."""
        return self.item_BC.shape[1] - self.num_padding_B

    def columns(self, slate_BK: Tensor) -> Tensor:
        """Return the columns of the items of slates, (B, K); raise a `UserError` if an item is not a candidate."""
        if self.is_catalogue:
            column_BK, is_inside_BK = slate_BK, (slate_BK > 0) & (slate_BK < self.item_BC.shape[1])
        else:
            item_BC = self.item_BC.expand(len(slate_BK), -1).contiguous()
            column_BK = torch.searchsorted(item_BC, slate_BK.contiguous()).clamp_(max=item_BC.shape[1] - 1)
            is_inside_BK = (item_BC.gather(1, column_BK) == slate_BK) & (slate_BK > 0)
        if not is_inside_BK.all():
            request, place = (int(index) for index in torch.nonzero(~is_inside_BK)[0])
            item = int(slate_BK[request, place])
            raise UserError(f"item {item} of slate {request} is not among the candidates of its request")
        return column_BK

    def items(self, column_BK: Tensor) -> Tensor:
        """Return the item ids at some columns."""
        return column_BK if self.is_catalogue else self.item_BC.expand(len(column_BK), -1).gather(1, column_BK)

    def matrix(self, table_ND: Tensor, dtype: torch.dtype | None = None) -> ItemMatrix:
        """Return the candidates' vectors, given the vectors of all items."""
        if self.is_catalogue:
            return ItemMatrix(table_ND, self.num_padding_B, dtype=dtype)
        if len(self.item_BC) == 1:
            return ItemMatrix(table_ND[self.item_BC[0]], self.num_padding_B, dtype=dtype)
        return ItemMatrix(table_ND, self.num_padding_B, self.item_BC, dtype=dtype)


def _padded(ids: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
    rows = [row if isinstance(row, Sequence) else None for row in ids]
    if not any(row is not None for row in rows):
        return torch.as_tensor(ids)
    longest = max(len(row or ()) for row in rows)
    return torch.tensor([[*(row or ()), *([0] * (longest - len(row or ())))] for row in rows])

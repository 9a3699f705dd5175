"""The items that the slate of a request may be chosen from."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gfn4rec.errors import UserError
from gfn4rec.nn.scoring import ItemMatrix

_CLOSING_SHARE = 8  # lists of more than this fraction of the catalogue are the catalogue with closed columns


@dataclass(frozen=True)
class Candidates:
    """Item ids in ascending order: one row for all requests, or a row for each. Shorter rows are padded with 0.

    Long lists of each request are represented as the whole catalogue with the other columns closed: to score all items
    is much faster than to gather the vectors of most of them for each request.
    """

    item_BC: Tensor
    num_padding_B: Tensor
    is_catalogue: bool = False  # all items, so a column is an id
    is_closed_BN: Tensor | None = None  # columns of the catalogue that are no candidates of a request

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
        item_BC = item_BC.long()
        unknown = item_BC[(item_BC < 0) | (item_BC > num_items)]
        if len(unknown):
            raise UserError(f"candidate {int(unknown[0])} is not in the catalogue; ids run from 1 to {num_items}")
        is_long = len(item_BC) > 1 and _CLOSING_SHARE * item_BC.shape[1] > num_items
        candidates = cls._closing_others(item_BC, num_items) if is_long else cls.of_lists(item_BC)
        if not is_long or int(candidates.count().sum()) < int((item_BC > 0).sum()):  # a mask hides repetitions
            _refuse_repeated(item_BC)
        fewest = int(candidates.count().min())
        if fewest < slate_size:
            raise UserError(f"a slate has {slate_size} items, but there are only {fewest} candidates; give more")
        return candidates

    @classmethod
    def _closing_others(cls, item_BC: Tensor, num_items: int) -> "Candidates":
        is_closed_BN = torch.ones(len(item_BC), num_items + 1, dtype=torch.bool, device=item_BC.device)
        is_closed_BN.scatter_(1, item_BC, False)
        is_closed_BN[:, 0] = True
        catalogue = cls.all_items(num_items, item_BC.device)
        return cls(catalogue.item_BC, catalogue.num_padding_B, is_catalogue=True, is_closed_BN=is_closed_BN)

    def to(self, device: torch.device) -> "Candidates":
        """Return the same candidates on another device."""
        is_closed_BN = None if self.is_closed_BN is None else self.is_closed_BN.to(device)
        return Candidates(self.item_BC.to(device), self.num_padding_B.to(device), self.is_catalogue, is_closed_BN)

    def count(self) -> Tensor:
        """Return the number of candidates, (1,) or (B,)."""
        if self.is_closed_BN is not None:
            return (~self.is_closed_BN).sum(dim=1)
        return self.item_BC.shape[1] - self.num_padding_B

    def columns(self, slate_BK: Tensor) -> Tensor:
        """Return the columns of the items of slates, (B, K); raise a `UserError` if an item is not a candidate."""
        if self.is_catalogue:
            column_BK, is_inside_BK = slate_BK, (slate_BK > 0) & (slate_BK < self.item_BC.shape[1])
            if self.is_closed_BN is not None:
                known_BK = slate_BK.clamp(0, self.item_BC.shape[1] - 1)
                is_inside_BK = is_inside_BK & ~self.is_closed_BN.gather(1, known_BK)
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
        """Return the item ids at some columns; 0, which is padding, at a closed one."""
        if self.is_closed_BN is not None:
            return column_BK.masked_fill(self.is_closed_BN.gather(1, column_BK), 0)
        return column_BK if self.is_catalogue else self.item_BC.expand(len(column_BK), -1).gather(1, column_BK)

    def matrix(self, table_ND: Tensor, dtype: torch.dtype | None = None, base_BC: Tensor | None = None) -> ItemMatrix:
        """Return the candidates' vectors, given the vectors of all items, and their base scores without gradients."""
        base_BC = None if base_BC is None else base_BC.detach()
        if self.is_catalogue:
            return ItemMatrix(
                table_ND, self.num_padding_B, dtype=dtype, is_closed_BN=self.is_closed_BN, base_BC=base_BC
            )
        if len(self.item_BC) == 1:
            return ItemMatrix(table_ND[self.item_BC[0]], self.num_padding_B, dtype=dtype, base_BC=base_BC)
        return ItemMatrix(table_ND, self.num_padding_B, self.item_BC, dtype=dtype, base_BC=base_BC)


def _refuse_repeated(item_BC: Tensor) -> None:
    item_BC = item_BC.sort(dim=1).values
    repeated = item_BC[:, 1:][(item_BC[:, 1:] == item_BC[:, :-1]) & (item_BC[:, 1:] > 0)]
    if len(repeated):
        raise UserError(f"candidate {int(repeated[0])} is given more than once; leave out the repetition")


def _padded(ids: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
    rows = [row if isinstance(row, Sequence) else None for row in ids]
    if not any(row is not None for row in rows):
        return torch.as_tensor(ids)
    longest = max(len(row or ()) for row in rows)
    return torch.tensor([[*(row or ()), *([0] * (longest - len(row or ())))] for row in rows])

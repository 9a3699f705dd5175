"""How the items of a slate change each other's rewards, predicted pair by pair."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gfn4rec.nn.kept import Kept
from gfn4rec.nn.rows import hide_rows

_INITIAL_DEVIATION = 0.1


class PairEffects(nn.Module):
    """Item j changes the reward of item i of its slate by the product of what i receives and what j gives.

    An item's two vectors are maps of its encoding plus vectors of its own. All effects start at 0.
    """

    def __init__(self, num_items: int, slate_size: int, item_dim: int, dim: int) -> None:
        super().__init__()
        self._share = 1 / max(1, slate_size - 1)
        self.kernel = nn.Linear(item_dim, 2 * dim, bias=False)
        self.own_ND = nn.Parameter(torch.randn(num_items + 1, 2 * dim) * _INITIAL_DEVIATION)
        with torch.no_grad():
            self.kernel.weight[dim:] = 0.0
            self.own_ND[:, dim:] = 0.0
        self._kept = Kept()

    def table(self, item_table_ND: Tensor, is_hidden_N: Tensor | None = None) -> Tensor:
        """Return what items receive and give, given their encodings: (N, 2 D)."""
        return self._kept.of(
            [item_table_ND, *self.kernel.parameters(), self.own_ND],
            lambda: self.kernel(item_table_ND) + hide_rows(self.own_ND, is_hidden_N),
            keep=is_hidden_N is None,
        )

    def effects(self, slate_BK: Tensor, table_ND: Tensor) -> Tensor:
        """Return the effect on each item, by row, of each other item, by column, (B, K, K)."""
        receives_BKD, gives_BKD = F.embedding(slate_BK, table_ND).chunk(2, dim=2)
        effect_BKK = self._share * receives_BKD @ gives_BKD.mT
        return effect_BKK - torch.diag_embed(effect_BKK.diagonal(dim1=1, dim2=2))

    def queries(self, slate_BK: Tensor, table_ND: Tensor, steps: range) -> Tensor:
        """Return the queries of steps, whose products with the table are what an item adds to the slate, (B, T, 2 D).

        It adds the effects of the items chosen so far on it, and its effects on them.
        """
        swapped_BKD = F.embedding(slate_BK, table_ND).roll(table_ND.shape[1] // 2, dims=2)
        total_BTD = F.pad(swapped_BKD.cumsum(dim=1), (0, 0, 1, 0))
        return self._share * total_BTD[:, steps.start : steps.stop]


def added(effect_BKK: Tensor) -> Tensor:
    """Return what each item adds to the sum of the effects, given the items before it, (B, K)."""
    return (effect_BKK + effect_BKK.mT).tril(diagonal=-1).sum(dim=2)

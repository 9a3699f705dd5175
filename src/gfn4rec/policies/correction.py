"""The correction of a prior-guided flow: what the items chosen so far change about the next item's reward."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gfn4rec.nn.kept import Kept
from gfn4rec.nn.mlp import mlp
from gfn4rec.nn.rows import hide_rows
from gfn4rec.policies.slate_network import prefixes

_INITIAL_DEVIATION = 0.1


class Correction(nn.Module):
    """Computes queries and flows from a request's state and the items chosen so far, in units of the reward.

    Both start at 0. An item's vector is a map of its encoding plus a vector of its own.
    """

    def __init__(
        self, num_items: int, slate_size: int, state_dim: int, item_dim: int, dim: int, hidden_dims: tuple[int, ...]
    ) -> None:
        super().__init__()
        width = state_dim + slate_size * dim
        self.kernel = nn.Linear(item_dim, dim)
        self.own_ND = nn.Parameter(torch.randn(num_items + 1, dim) * _INITIAL_DEVIATION)
        self.selection = _starting_at_zero(mlp(width, hidden_dims, dim))
        self.flow = _starting_at_zero(mlp(width, hidden_dims, 1))
        self._kept = Kept()

    def table(self, item_table_ND: Tensor, is_hidden_N: Tensor | None = None) -> Tensor:
        """Return the correction's own item vectors, given the items' encodings."""
        return self._kept.of(
            [item_table_ND, *self.kernel.parameters(), self.own_ND],
            lambda: self.kernel(item_table_ND) + hide_rows(self.own_ND, is_hidden_N),
            keep=is_hidden_N is None,
        )

    def prefixes(self, state_BS: Tensor, slate_BK: Tensor, table_ND: Tensor, steps: range) -> Tensor:
        """Return the inputs of both networks for each step, (B, T, X)."""
        return prefixes(state_BS, F.embedding(slate_BK, table_ND), steps)

    def queries(self, prefix_BTX: Tensor) -> Tensor:
        """Return the queries, whose dot products with the correction's item vectors are the corrections, (B, T, D)."""
        query_BTD: Tensor = self.selection(prefix_BTX)
        return query_BTD

    def flows(self, prefix_BTX: Tensor) -> Tensor:
        """Return the correction of the log flow of each prefix, (B, T)."""
        flow_BT: Tensor = self.flow(prefix_BTX)[:, :, 0]
        return flow_BT


def _starting_at_zero(network: nn.Sequential) -> nn.Sequential:
    for parameter in network[-1].parameters():
        nn.init.zeros_(parameter)
    return network

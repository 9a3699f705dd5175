"""Scores of items one by one, whatever else is on the slate."""

import torch.nn.functional as F
from torch import Tensor, nn

from gfn4rec.nn.mlp import mlp
from gfn4rec.policies.backbone import BackboneConfig


class PointwiseHead(nn.Module):
    """Products of a query, made from the request's state, and the items' vectors; and an offset per request."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.query = mlp(config.encoder.state_dim, config.hidden_dims, config.encoder.dim)
        self.offset = mlp(config.encoder.state_dim, config.hidden_dims, 1)
        self.scale = config.encoder.dim**-0.5

    def queries(self, state_BS: Tensor) -> Tensor:
        """(B, D)."""
        query_BD: Tensor = self.query(state_BS) * self.scale
        return query_BD

    def scores(self, state_BS: Tensor, table_ND: Tensor, item_BC: Tensor) -> Tensor:
        """The scores of some items of each request, without a catalogue-wide product."""
        product_BC = (F.embedding(item_BC, table_ND) @ self.queries(state_BS)[:, :, None])[:, :, 0]
        score_BC: Tensor = product_BC + self.offset(state_BS)
        return score_BC

"""Item scores that do not depend on the rest of the slate."""

import torch.nn.functional as F
from torch import Tensor, nn

from gfn4rec.nn.mlp import mlp
from gfn4rec.policies.backbone import BackboneConfig


class PointwiseHead(nn.Module):
    """Scores items by the dot product of their vector and a query from the request's state, plus an offset."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.query = mlp(config.encoder.state_dim, config.hidden_dims, config.encoder.dim)
        self.offset = mlp(config.encoder.state_dim, config.hidden_dims, 1)
        self.scale = config.encoder.dim**-0.5

    def queries(self, state_BS: Tensor) -> Tensor:
        """Return the queries, (B, D)."""
        query_BD: Tensor = self.query(state_BS) * self.scale
        return query_BD

    def scores(self, state_BS: Tensor, table_ND: Tensor, item_BC: Tensor) -> Tensor:
        """Return the scores of given items of each request, without scoring the catalogue."""
        product_BC = (F.embedding(item_BC, table_ND) @ self.queries(state_BS)[:, :, None])[:, :, 0]
        score_BC: Tensor = product_BC + self.offset(state_BS)
        return score_BC

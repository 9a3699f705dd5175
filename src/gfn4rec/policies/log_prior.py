"""The prior pi0(i|u) of a policy: which items users choose next, learned from the log."""

import torch
from torch import Tensor, nn

from gfn4rec.nn.mlp import mlp
from gfn4rec.nn.scoring import pointwise_log_probs
from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request

_INITIAL_SHARE = 0.1  # of the query's usual initial weights: the prior starts close to popularity


class LogPrior(nn.Module):
    """A softmax over the catalogue: an item's score is a dot product with the request's query, plus an item bias.

    The bias starts at the logarithm of the item's frequency, so that an untrained prior is popularity.
    """

    def __init__(self, catalogue: Catalogue, config: BackboneConfig) -> None:
        super().__init__()
        self.backbone = Backbone(catalogue, config)
        self.query = mlp(config.encoder.state_dim, config.hidden_dims, config.encoder.dim)
        log_count_N = (catalogue.count_N + 1).float().log()
        self.bias_N = nn.Parameter(log_count_N - log_count_N[1:].mean())
        with torch.no_grad():
            last = self.query[-1]
            for parameter in last.parameters():
                parameter.mul_(_INITIAL_SHARE)

    def encode(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states of requests, their queries, (B, D + 1), and the vectors of all items, (N, D + 1)."""
        state_BS, table_ND = self.backbone.encode(request)
        query_BD = torch.cat([self.query(state_BS), state_BS.new_ones(len(state_BS), 1)], dim=1)
        return state_BS, query_BD, torch.cat([table_ND, self.bias_N[:, None]], dim=1)

    def loss(self, request: Request, candidates: Candidates, slate_BK: Tensor) -> Tensor:
        """Return the mean of -log pi0 of the items of logged slates, each among the items not yet in its slate."""
        _, query_BD, table_ND = self.encode(request)
        matrix = candidates.matrix(table_ND, self.backbone.scoring_dtype)
        return -pointwise_log_probs(query_BD, matrix, candidates.columns(slate_BK)).mean()

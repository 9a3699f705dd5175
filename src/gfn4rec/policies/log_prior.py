"""The prior pi0(i|u) of a policy: which items users choose next, learned from the log."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from gfn4rec.nn.kept import Kept
from gfn4rec.nn.mlp import mlp
from gfn4rec.nn.rows import hide_rows
from gfn4rec.nn.scoring import pointwise_log_probs
from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request

_INITIAL_SHARE = 0.1  # of the query's usual initial weights: the prior starts close to popularity


@dataclass(frozen=True)
class PriorScores:
    """What a prior makes of requests: log pi0(i|u) is the product of query and vector, up to a constant."""

    query_BD: Tensor
    vector_ND: Tensor
    state_BS: Tensor  # for the correction


class ChoiceModel(nn.Module):
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
        self._kept = Kept()

    def encode(self, request: Request, is_hidden_N: Tensor | None = None) -> PriorScores:
        """Return the scores of requests, whose queries and vectors have D + 1 dimensions."""
        state_BS, table_ND = self.backbone.encode(request, is_hidden_N)
        query_BD = torch.cat([self.query(state_BS), state_BS.new_ones(len(state_BS), 1)], dim=1)
        return PriorScores(query_BD, self._vectors(table_ND, is_hidden_N), state_BS)

    def loss(
        self, request: Request, candidates: Candidates, slate_BK: Tensor, is_hidden_N: Tensor | None = None
    ) -> Tensor:
        """Return the mean of -log P of the items of logged slates, each among the items not yet in its slate."""
        scores = self.encode(request, is_hidden_N)
        matrix = candidates.matrix(scores.vector_ND, self.backbone.scoring_dtype)
        return -pointwise_log_probs(scores.query_BD, matrix, candidates.columns(slate_BK)).mean()

    def _vectors(self, table_ND: Tensor, is_hidden_N: Tensor | None) -> Tensor:
        """Return the item vectors that belong to the queries, (N, D + 1)."""
        return self._kept.of(
            [table_ND, self.bias_N],
            lambda: torch.cat([table_ND, hide_rows(self.bias_N[:, None], is_hidden_N)], dim=1),
            keep=is_hidden_N is None,
        )


class LogPrior(nn.Module):
    """The geometric mean of several choice models, which predicts choices better than any of them.

    They differ in their initial weights, and each learns for itself. The mean of their scores is one dot product, of
    longer vectors.
    """

    def __init__(self, catalogue: Catalogue, config: BackboneConfig, num_members: int) -> None:
        super().__init__()
        self.members = nn.ModuleList(ChoiceModel(catalogue, config) for _ in range(num_members))
        self._kept = Kept()

    def encode(self, request: Request, is_hidden_N: Tensor | None = None) -> PriorScores:
        """Return the mean scores of requests, with the states of the first member."""
        scores = [member.encode(request, is_hidden_N) for member in self._choice_models()]
        query_BD = torch.cat([member.query_BD for member in scores], dim=1) / len(scores)
        vectors = [member.vector_ND for member in scores]
        return PriorScores(query_BD, self._kept.of(vectors, lambda: torch.cat(vectors, dim=1)), scores[0].state_BS)

    def loss(
        self, request: Request, candidates: Candidates, slate_BK: Tensor, is_hidden_N: Tensor | None = None
    ) -> Tensor:
        """Return the mean loss of the members on logged slates."""
        losses = [member.loss(request, candidates, slate_BK, is_hidden_N) for member in self._choice_models()]
        return torch.stack(losses).mean()

    def _choice_models(self) -> Iterator[ChoiceModel]:
        return cast(Iterator[ChoiceModel], iter(self.members))

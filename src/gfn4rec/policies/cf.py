"""CF: the probability that a shown item is rewarded, item by item; shows the K best."""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Loss, Plan, Policy, constant_queries
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.pointwise import PointwiseHead
from gfn4rec.schema import Request, SlateBatch


class CFConfig(BackboneConfig):
    """Settings of CF."""

    probability: Literal["sigmoid", "softmax"] = "sigmoid"
    """P(i|u) from the score: its sigmoid, or a softmax over the catalogue as in the authors' code."""
    offsets: tuple[PositiveFloat, PositiveFloat] = (0.8, 0.1)
    """Added inside the two logarithms of the softmax variant, as in the authors' code."""


class CF(Policy):
    """Pointwise. Its sampler draws items without replacement from the softmax of the scores."""

    description: ClassVar = "reward-weighted binary cross-entropy of the shown items, top K"
    Config: ClassVar = CFConfig
    config: CFConfig

    def __init__(self, catalogue: Catalogue, config: CFConfig) -> None:
        super().__init__(catalogue, config)
        self.backbone = Backbone(catalogue, config)
        self.head = PointwiseHead(config)

    @override
    def plan(
        self, request: Request, candidates: Candidates, slate_BK: Tensor | None = None, latent_BZ: Tensor | None = None
    ) -> Plan:
        """The same scores at every step."""
        return self._plan(*self.backbone.encode(request), candidates)

    @override
    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        """The trained P(i|u)."""
        state_BS, table_ND = self.backbone.encode(request)
        if self.config.probability == "sigmoid":
            return self.head.scores(state_BS, table_ND, slate_BK).sigmoid()
        return self._plan(state_BS, table_ND, self._candidates(None, request)).log_probs(slate_BK, False).exp()

    def _plan(self, state_BS: Tensor, table_ND: Tensor, candidates: Candidates) -> Plan:
        shelf = candidates.shelf(table_ND, self.backbone.scoring_dtype)
        return Plan(candidates, shelf, constant_queries(self.head.queries(state_BS)))

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        state_BS, table_ND = self.backbone.encode(self.backbone.hide_users(batch.request, generator))
        target_BK = self.catalogue.scale_reward(batch.item_reward_BK)
        if self.config.probability == "sigmoid":
            score_BK = self.head.scores(state_BS, table_ND, batch.slate_BK)
            loss = F.binary_cross_entropy_with_logits(score_BK, target_BK)
        else:
            plan = self._plan(state_BS, table_ND, self._candidates(None, batch.request))
            prob_BK = plan.log_probs(batch.slate_BK, distinct=False).exp()
            first, second = self.config.offsets
            loss = -(target_BK * (prob_BK + first).log() + (1 - target_BK) * (1 - prob_BK + second).log()).mean()
        return Loss(loss, {"cross_entropy": loss})

"""CF: scores each item alone by the probability that it is rewarded, and shows the best K."""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Context, Loss, Plan, Policy, pointwise_plan
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.pointwise import PointwiseHead
from gfn4rec.schema import Request, SlateBatch


class CFConfig(BackboneConfig):
    """Settings of CF."""

    probability: Literal["sigmoid", "softmax"] = "sigmoid"
    """How a score becomes P(i|u): by a sigmoid, or by a softmax over the catalogue as in the authors' code."""
    offsets: tuple[PositiveFloat, PositiveFloat] = (0.8, 0.1)
    """Constants inside the two logarithms of the loss with a softmax, as in the authors' code."""


class CF(Policy):
    """Pointwise scores; sampled slates are drawn without replacement from their softmax."""

    description: ClassVar = "collaborative filtering with one score per item, trained by reward-weighted cross-entropy"
    Config: ClassVar = CFConfig
    config: CFConfig

    def __init__(self, catalogue: Catalogue, config: CFConfig) -> None:
        super().__init__(catalogue, config)
        self.backbone = Backbone(catalogue, config)
        self.head = PointwiseHead(config)

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan with the same scores at every step."""
        return self._plan(*self.backbone.encode(context.request), context.candidates)

    @override
    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the trained P(i|u)."""
        state_BS, table_ND = self.backbone.encode(request)
        if self.config.probability == "sigmoid":
            return self.head.scores(state_BS, table_ND, slate_BK).sigmoid()
        return self._plan(state_BS, table_ND, self._candidates(None, request)).log_probs(slate_BK, False).exp()

    def _plan(self, state_BS: Tensor, table_ND: Tensor, candidates: Candidates) -> Plan:
        matrix = candidates.matrix(table_ND, self.backbone.scoring_dtype)
        return pointwise_plan(candidates, matrix, self.head.queries(state_BS))

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        state_BS, table_ND = self.backbone.encode_to_learn(batch.request, generator)
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

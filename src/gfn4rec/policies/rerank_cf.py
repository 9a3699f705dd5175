"""RerankCF: an initial ranker that shows the top K of its list."""

from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Context, Loss, Plan, Policy, pointwise_plan
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.initial_ranker import InitialRanker, RankerConfig
from gfn4rec.schema import Request, SlateBatch


class RerankCFConfig(BackboneConfig):
    """Settings of RerankCF."""

    ranker: RankerConfig = RankerConfig()
    """Settings of the initial ranker."""


class RerankCF(Policy):
    """Chooses from the ranker's list by the ranker's scores."""

    description: ClassVar = "an initial ranker trained with random negatives; shows the best of its short list"
    Config: ClassVar = RerankCFConfig
    config: RerankCFConfig

    def __init__(self, catalogue: Catalogue, config: RerankCFConfig) -> None:
        super().__init__(catalogue, config)
        self.backbone = Backbone(catalogue, config)
        self.ranker = InitialRanker(config, config.ranker, catalogue.slate_size)

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan with the same scores at every step, over the ranker's list."""
        state_BS, table_ND = self.backbone.encode(context.request)
        shortlist = self.ranker.shortlist(state_BS, table_ND, context.candidates, context.slate_BK)
        query_BD = self.ranker.head.queries(state_BS)
        return pointwise_plan(shortlist, shortlist.matrix(table_ND, self.backbone.scoring_dtype), query_BD)

    @override
    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the trained P(i|u): a softmax over a list with the slate on it."""
        plan = self.plan(Context(request, self._candidates(None, request), slate_BK))
        return plan.log_probs(slate_BK, distinct=False).exp()

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        state_BS, table_ND = self.backbone.encode_to_learn(batch.request, generator)
        target_BK = self.catalogue.scale_reward(batch.item_reward_BK)
        loss = self.ranker.loss(state_BS, table_ND, batch.slate_BK, target_BK, generator)
        return Loss(loss, {"ranker": loss})

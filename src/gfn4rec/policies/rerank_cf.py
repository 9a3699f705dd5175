"""RerankCF: an initial ranker, and the top K of its list."""

from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Loss, Plan, Policy, constant_queries
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.initial_ranker import InitialRanker, RankerConfig
from gfn4rec.schema import Request, SlateBatch


class RerankCFConfig(BackboneConfig):
    """Settings of RerankCF."""

    ranker: RankerConfig = RankerConfig()
    """The initial ranker."""


class RerankCF(Policy):
    """The ranker's own scores decide, among the best of the catalogue."""

    description: ClassVar = "an initial ranker learned against random negatives, top K of its list"
    Config: ClassVar = RerankCFConfig
    config: RerankCFConfig

    def __init__(self, catalogue: Catalogue, config: RerankCFConfig) -> None:
        super().__init__(catalogue, config)
        self.backbone = Backbone(catalogue, config)
        self.ranker = InitialRanker(config, config.ranker, catalogue.slate_size)

    @override
    def plan(
        self, request: Request, candidates: Candidates, slate_BK: Tensor | None = None, latent_BZ: Tensor | None = None
    ) -> Plan:
        """The same scores at every step, over the ranker's list."""
        state_BS, table_ND = self.backbone.encode(request)
        shortlist = self.ranker.shortlist(state_BS, table_ND, candidates, slate_BK)
        query_BD = self.ranker.head.queries(state_BS)
        return Plan(shortlist, shortlist.shelf(table_ND, self.backbone.scoring_dtype), constant_queries(query_BD))

    @override
    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        """The trained P(i|u): a softmax over the list that holds the slate."""
        plan = self.plan(request, self._candidates(None, request), slate_BK)
        return plan.log_probs(slate_BK, distinct=False).exp()

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        state_BS, table_ND = self.backbone.encode(self.backbone.hide_users(batch.request, generator))
        target_BK = self.catalogue.scale_reward(batch.item_reward_BK)
        loss = self.ranker.loss(state_BS, table_ND, batch.slate_BK, target_BK, generator)
        return Loss(loss, {"ranker": loss})

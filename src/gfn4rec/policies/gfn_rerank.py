"""GFN4Rec as a re-ranker: builds the slate from the list of an initial ranker."""

from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.backbone import Backbone
from gfn4rec.policies.base import Context, Loss, Plan, Policy
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.flow_config import FlowConfig
from gfn4rec.policies.flow_loss import SlateFlow, flow_loss, flow_score, slate_flow
from gfn4rec.policies.initial_ranker import InitialRanker, RankerConfig
from gfn4rec.policies.slate_network import SlateNetwork
from gfn4rec.schema import Request, SlateBatch


class GFNRerankConfig(FlowConfig):
    """Settings of the re-ranking GFN4Rec."""

    ranker: RankerConfig = RankerConfig()
    """Settings of the initial ranker."""

    @property
    @override
    def idle_steps(self) -> int:
        """Number of learning steps in which only the ranker learns."""
        return self.ranker.first_steps


class GFNRerank(Policy):
    """A flow over the slates that can be built from the ranker's list, a few dozen items."""

    description: ClassVar = "builds the slate like gfn, but from the short list of an initial ranker"
    Config: ClassVar = GFNRerankConfig
    config: GFNRerankConfig

    def __init__(self, catalogue: Catalogue, config: GFNRerankConfig) -> None:
        super().__init__(catalogue, config)
        self.backbone = Backbone(catalogue, config)
        self.ranker = InitialRanker(config, config.ranker, catalogue.slate_size)
        self.network = SlateNetwork(config, catalogue.slate_size)

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan over the ranker's list, with given slates on it; queries depend on the items before them."""
        state_BS, table_ND = self.backbone.encode(context.request)
        shortlist = self.ranker.shortlist(state_BS, table_ND, context.candidates, context.slate_BK)
        return self.network.plan(state_BS, table_ND, shortlist, self.backbone.scoring_dtype)

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        state_BS, table_ND = self.backbone.encode_to_learn(batch.request, generator)

        def flow() -> Loss:
            return flow_loss(self.network, self.config, self._slate_flow(state_BS, table_ND, batch.slate_BK), batch)

        target_BK = self.catalogue.scale_reward(batch.item_reward_BK)
        return self.ranker.staged_loss(state_BS, table_ND, batch.slate_BK, target_BK, generator, step, flow)

    @override
    def _score(self, request: Request, slate_BK: Tensor) -> Tensor:
        return flow_score(self.network, self.config, self._slate_flow(*self.backbone.encode(request), slate_BK))

    def _slate_flow(self, state_BS: Tensor, table_ND: Tensor, slate_BK: Tensor) -> SlateFlow:
        catalogue = Candidates.all_items(self.catalogue.num_items, state_BS.device)
        shortlist = self.ranker.shortlist(state_BS, table_ND, catalogue, slate_BK)
        dtype = self.backbone.scoring_dtype
        return slate_flow(self.network, self.config, state_BS, table_ND, shortlist, slate_BK, dtype)

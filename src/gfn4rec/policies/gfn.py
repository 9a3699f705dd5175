"""GFN4Rec: builds a slate item by item, and learns slate probabilities that follow the rewards."""

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
from gfn4rec.policies.slate_network import SlateNetwork
from gfn4rec.schema import Request, SlateBatch


class GFNConfig(FlowConfig):
    """Settings of GFN4Rec."""


class GFN4Rec(Policy):
    """The paper's method, applied to the whole catalogue or to given candidates."""

    description: ClassVar = "the paper's method, a generative flow network that builds the slate item by item"
    Config: ClassVar = GFNConfig
    config: GFNConfig

    def __init__(self, catalogue: Catalogue, config: GFNConfig) -> None:
        super().__init__(catalogue, config)
        self.backbone = Backbone(catalogue, config)
        self.network = SlateNetwork(config, catalogue.slate_size)

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan in which each step's query depends on the items before it."""
        state_BS, table_ND = self.backbone.encode(context.request)
        return self.network.plan(state_BS, table_ND, context.candidates, self.backbone.scoring_dtype)

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        slates = self._slate_flow(*self.backbone.encode_to_learn(batch.request, generator), batch.slate_BK)
        return flow_loss(self.network, self.config, slates, batch)

    @override
    def _score(self, request: Request, slate_BK: Tensor) -> Tensor:
        return flow_score(self.network, self.config, self._slate_flow(*self.backbone.encode(request), slate_BK))

    def _slate_flow(self, state_BS: Tensor, table_ND: Tensor, slate_BK: Tensor) -> SlateFlow:
        candidates = Candidates.all_items(self.catalogue.num_items, state_BS.device)
        dtype = self.backbone.scoring_dtype
        return slate_flow(self.network, self.config, state_BS, table_ND, candidates, slate_BK, dtype)

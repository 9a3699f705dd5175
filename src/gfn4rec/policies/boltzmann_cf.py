"""Boltzmann CF: predicts the reward of each item, and samples slates from the softmax of the predictions."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.averaging import AVERAGING
from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Context, Loss, Plan, Policy, pointwise_plan
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.pointwise import PointwiseHead
from gfn4rec.schema import Request, SlateBatch


class BoltzmannCFConfig(BackboneConfig):
    """Settings of Boltzmann CF."""

    reward_temperature: float = Field(default=0.1, gt=0)
    """Items are drawn from softmax(predicted reward / reward_temperature)."""


class BoltzmannCF(Policy):
    """Pointwise regression of the item reward; slates are sampled without replacement."""

    description: ClassVar = "predicts each item's reward and samples from softmax(reward / temperature)"
    Config: ClassVar = BoltzmannCFConfig
    config: BoltzmannCFConfig
    training_defaults: ClassVar[Mapping[str, object]] = AVERAGING

    def __init__(self, catalogue: Catalogue, config: BoltzmannCFConfig) -> None:
        super().__init__(catalogue, config)
        self.backbone = Backbone(catalogue, config)
        self.head = PointwiseHead(config)

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan with the same scores at every step."""
        state_BS, table_ND = self.backbone.encode(context.request)
        query_BD = self.head.queries(state_BS) / self.config.reward_temperature
        matrix = context.candidates.matrix(table_ND, self.backbone.scoring_dtype)
        return pointwise_plan(context.candidates, matrix, query_BD)

    @override
    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the predicted rewards."""
        return self.head.scores(*self.backbone.encode(request), slate_BK)

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        state_BS, table_ND = self.backbone.encode_to_learn(batch.request, generator)
        error_BK = self.head.scores(state_BS, table_ND, batch.slate_BK) - batch.item_reward_BK
        loss = error_BK.square().mean()
        return Loss(loss, {"squared_error": loss})

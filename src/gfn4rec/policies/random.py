"""Random: uniformly random slates."""

from typing import ClassVar

import torch
from typing_extensions import override

from gfn4rec.policies.base import Context, Plan, Policy, PolicyConfig, pointwise_plan


class RandomConfig(PolicyConfig):
    """Random has no settings."""


class Random(Policy):
    """Uniformly random slates. All items are equally likely, so greedy shows those with the lowest ids."""

    description: ClassVar = "uniformly random slates"
    Config: ClassVar = RandomConfig
    is_learned: ClassVar = False
    training_defaults: ClassVar = {"num_steps": 100}  # there is nothing to learn, only to measure

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan in which all scores are 0."""
        device = context.request.user_B.device
        table_ND = torch.zeros(self.catalogue.num_items + 1, 1, device=device)
        query_BD = torch.zeros(len(context.request.user_B), 1, device=device)
        return pointwise_plan(context.candidates, context.candidates.matrix(table_ND), query_BD)

"""Random: every slate is as likely as any other."""

from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.base import Plan, Policy, PolicyConfig, constant_queries
from gfn4rec.policies.candidates import Candidates
from gfn4rec.schema import Request


class RandomConfig(PolicyConfig):
    """Random has no settings."""


class Random(Policy):
    """Greedy, it shows the items of lowest id: all are equally likely."""

    description: ClassVar = "every slate is as likely as any other"
    Config: ClassVar = RandomConfig
    is_learned: ClassVar = False

    @override
    def plan(
        self, request: Request, candidates: Candidates, slate_BK: Tensor | None = None, latent_BZ: Tensor | None = None
    ) -> Plan:
        """All scores are 0."""
        device = request.user_B.device
        table_ND = torch.zeros(self.catalogue.num_items + 1, 1, device=device)
        query_BD = torch.zeros(len(request.user_B), 1, device=device)
        return Plan(candidates, candidates.shelf(table_ND), constant_queries(query_BD))

"""Popularity: items in proportion to how often they occur in the training part of the log."""

from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.base import Plan, Policy, PolicyConfig, constant_queries
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request


class PopularityConfig(PolicyConfig):
    """Popularity has no settings."""


class Popularity(Policy):
    """Sampled in proportion to the counts, plus one; greedy shows the K most frequent items to everybody."""

    description: ClassVar = "items by their frequency in the log, the same for everybody"
    Config: ClassVar = PopularityConfig
    is_learned: ClassVar = False

    def __init__(self, catalogue: Catalogue, config: PopularityConfig) -> None:
        super().__init__(catalogue, config)
        self.log_count_N: Tensor
        self.register_buffer("log_count_N", (catalogue.count_N + 1).log())

    @override
    def plan(
        self, request: Request, candidates: Candidates, slate_BK: Tensor | None = None, latent_BZ: Tensor | None = None
    ) -> Plan:
        """Everybody's query is 1, and an item's vector its log-count."""
        query_BD = self.log_count_N.new_ones(len(request.user_B), 1)
        return Plan(candidates, candidates.shelf(self.log_count_N[:, None]), constant_queries(query_BD))

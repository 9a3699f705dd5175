"""Popularity: samples items in proportion to their frequency in the training part of the log."""

from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.base import Context, Plan, Policy, PolicyConfig, pointwise_plan
from gfn4rec.policies.catalogue import Catalogue


class PopularityConfig(PolicyConfig):
    """Popularity has no settings."""


class Popularity(Policy):
    """Samples in proportion to the counts plus one; greedy, it shows the K most frequent items to everybody."""

    description: ClassVar = "items by their frequency in the log, the same for all users"
    Config: ClassVar = PopularityConfig
    is_learned: ClassVar = False
    training_defaults: ClassVar = {"num_steps": 100}  # there is nothing to learn, only to measure

    def __init__(self, catalogue: Catalogue, config: PopularityConfig) -> None:
        super().__init__(catalogue, config)
        self.log_count_N: Tensor
        self.register_buffer("log_count_N", (catalogue.count_N + 1).log())

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan in which every query is 1 and an item's vector is its log-count."""
        query_BD = self.log_count_N.new_ones(len(context.request.user_B), 1)
        matrix = context.candidates.matrix(self.log_count_N[:, None])
        return pointwise_plan(context.candidates, matrix, query_BD)

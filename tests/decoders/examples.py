"""Lists of items with relevances and similarities, and policies with known scores of slates."""

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.base import Context, Plan
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.random import Random, RandomConfig
from gfn4rec.schema import Request
from tests.small_catalogue import generator


def random_lists(num_lists: int, length: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return relevances, similarities of random vectors, and whether there is an item: the last ones of some are none.

    At least five items are on every list.
    """
    drawn = generator(3)
    relevance_BC = torch.rand(num_lists, length, generator=drawn, dtype=torch.float64)
    vector_BCD = torch.randn(num_lists, length, width, generator=drawn, dtype=torch.float64)
    vector_BCD = F.normalize(vector_BCD, dim=2)
    num_items_B = 5 + torch.arange(num_lists) % (length - 4)
    is_item_BC = torch.arange(length) < num_items_B[:, None]
    return relevance_BC, (1 + vector_BCD @ vector_BCD.mT) / 2, is_item_BC


class Written(Random):
    """A policy whose item scores and list evaluator are written down.

    The score of an item is the same at every step. The evaluator knows every ordered slate of each user.
    """

    def __init__(self, catalogue: Catalogue, item_score_N: Sequence[float], seed: int = 0) -> None:
        super().__init__(catalogue, RandomConfig())
        self.item_score_N1 = torch.tensor(item_score_N)[:, None]
        slates = itertools.permutations(range(1, catalogue.num_items + 1), catalogue.slate_size)
        self.row = {slate: row for row, slate in enumerate(slates)}
        self.slate_score_US = torch.rand(catalogue.num_users + 1, len(self.row), generator=generator(seed))
        self.num_scored = 0
        self.scale_at_step: dict[int, float] = {}  # of the scores, where it is not 1

    @override
    def plan(self, context: Context) -> Plan:
        return Plan(context.candidates, context.candidates.matrix(self.item_score_N1), self._queries)

    def _queries(self, slate_BK: Tensor, steps: range) -> Tensor:
        assert not self.training, "dropout would change what is decoded"
        scale_T = torch.tensor([self.scale_at_step.get(step, 1.0) for step in steps])
        return scale_T[None, :, None].expand(len(slate_BK), -1, -1)

    @override
    def _score(self, request: Request, slate_BK: Tensor) -> Tensor:
        self.num_scored += len(slate_BK)
        pairs = zip(request.user_B.tolist(), slate_BK.tolist(), strict=True)
        return torch.tensor([self.known_score(user, slate) for user, slate in pairs])

    def known_score(self, user: int, slate: Sequence[int]) -> float:
        return float(self.slate_score_US[user, self.row[tuple(slate)]])

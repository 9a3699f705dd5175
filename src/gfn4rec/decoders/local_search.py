"""Local search: improves a policy's slate by single swaps, scored by the reward that its flow expects."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from gfn4rec.decoders.base import DecodedSlates, Decoder
from gfn4rec.decoders.top_items import TopItems, TopItemsConfig
from gfn4rec.policies.base import CandidateIds, Policy
from gfn4rec.policies.draws import Generators
from gfn4rec.schema import Request, Sampling

LEAST_GAIN = 1e-6
"""A swap is made if it raises the score by more than this share of it (of 1, if the score is smaller): no rounding."""
_MOST_SLATES = 4096  # scored at a time


class LocalSearchConfig(TopItemsConfig):
    """Settings of local search."""

    num_candidates: int = Field(default=20, ge=1)
    """Number of the policy's top items to swap in (C); at least the slate size is used."""
    max_sweeps: int = Field(default=10, ge=1)
    """Most sweeps over the places of a slate; the search ends with the first sweep that improves nothing."""


class LocalSearch(Decoder):
    """Starts from a slate of the policy, and puts at each place in turn the item that raises `Policy.score` most.

    A slate at which a sweep improves nothing is better than, or as good as, any that differs from it in one item, among
    the top items.
    """

    name: ClassVar = "local-search"
    description: ClassVar = "improves the policy's slate by single swaps, scored by the reward that its flow expects"
    Config: ClassVar = LocalSearchConfig
    draws: ClassVar = True
    starts_greedily: ClassVar = True
    config: LocalSearchConfig

    @override
    def _decode(
        self,
        policy: Policy,
        request: Request,
        generator: Generators | None,
        sampling: Sampling,
        candidates: CandidateIds | None,
    ) -> DecodedSlates:
        slate_BK = policy.recommend(request, generator, sampling, candidates).slate_BK
        score_B = policy.score(request, slate_BK)
        top = TopItems.of(policy, request, sampling, candidates, self.config.num_candidates)
        row_X = torch.arange(len(slate_BK), device=slate_BK.device)
        for _ in range(self.config.max_sweeps):
            before_X = score_B[row_X]
            slate_BK[row_X], score_B[row_X] = _sweep(
                policy, request[row_X], slate_BK[row_X], before_X, top.item_BC[row_X]
            )
            row_X = row_X[score_B[row_X] > before_X]
            if not len(row_X):
                break
        return top.decoded_slates(policy, slate_BK)


def _sweep(
    policy: Policy, request: Request, slate_BK: Tensor, score_B: Tensor, item_BC: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the slates after the best swap at each place in turn, and their scores."""
    for place in range(slate_BK.shape[1]):
        swapped_BCK = slate_BK[:, None].repeat(1, item_BC.shape[1], 1)
        swapped_BCK[:, :, place] = item_BC
        is_swap_BC = (item_BC > 0) & (item_BC[:, :, None] != slate_BK[:, None]).all(dim=2)
        swapped_score_BC = torch.full(item_BC.shape, -torch.inf, dtype=score_B.dtype, device=score_B.device)
        row_X = is_swap_BC.nonzero()[:, 0]
        swapped_score_BC[is_swap_BC] = _scores(policy, request, row_X, swapped_BCK[is_swap_BC])
        best = swapped_score_BC.max(dim=1)
        is_better_B = best.values > score_B + LEAST_GAIN * score_B.abs().clamp(min=1.0)
        best_B = item_BC.gather(1, best.indices[:, None])[:, 0]
        slate_BK[:, place] = torch.where(is_better_B, best_B, slate_BK[:, place])
        score_B = torch.where(is_better_B, best.values, score_B)
    return slate_BK, score_B


def _scores(policy: Policy, request: Request, row_X: Tensor, slate_XK: Tensor) -> Tensor:
    """Return the scores of slates, each for the request of a row."""
    parts = zip(row_X.split(_MOST_SLATES), slate_XK.split(_MOST_SLATES), strict=True)
    return torch.cat([policy.score(request[row_x], slate_xK) for row_x, slate_xK in parts])

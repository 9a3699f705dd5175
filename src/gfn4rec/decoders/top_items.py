"""A policy's top C items for each request, which decoders choose from."""

from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor

from gfn4rec.decoders.base import DecodedSlates, DecoderConfig
from gfn4rec.nn.sampling import top_columns
from gfn4rec.policies.base import CandidateIds, Plan, Policy, evaluating, refuse_diverged
from gfn4rec.schema import Request, Sampling


class TopItemsConfig(DecoderConfig):
    """Settings of a decoder that chooses among the policy's top items."""

    num_candidates: int = Field(default=50, ge=1)
    """Number of the policy's top items to choose from (C); at least the slate size is used."""


@dataclass(frozen=True)
class TopItems:
    """The items with the highest scores at the first step of a policy's plan, best first."""

    plan: Plan
    item_BC: Tensor
    """Items; 0 where a request has fewer candidates."""
    score_BC: Tensor
    """Their scores at the first step; they have no meaning where there is no item."""

    @classmethod
    def of(
        cls, policy: Policy, request: Request, sampling: Sampling, candidates: CandidateIds | None, count: int
    ) -> "TopItems":
        """Return the top `count` items of each request, or as many as a slate has if that is more."""
        plan = policy.greedy_plan(request, sampling.reward_weight, candidates)
        size = policy.catalogue.slate_size
        empty_BK = torch.zeros(len(request.user_B), size, dtype=torch.int64, device=request.user_B.device)
        with evaluating(policy), torch.inference_mode():
            query_BD = plan.queries(empty_BK, range(1))[:, 0]
            most = min(max(count, size), plan.matrix.num_columns)
            column_BC = top_columns(query_BD, plan.matrix, empty_BK[:, :0], most)
            score_BC = plan.matrix.score_at(query_BD[:, None].expand(-1, most, -1), column_BC)
            item_BC = plan.candidates.items(column_BC)
        refuse_diverged(score_BC[item_BC > 0])
        return cls(plan, item_BC, score_BC)

    def is_item(self) -> Tensor:
        """Return whether there is an item at a place, (B, C)."""
        return self.item_BC > 0

    def relevance(self) -> Tensor:
        """Return the scores scaled from 0, the last item of a request, to 1, its first, (B, C), in double precision.

        If all are the same, all are 0.
        """
        score_BC = self.score_BC.double()
        most_B1 = score_BC.masked_fill(~self.is_item(), -torch.inf).amax(dim=1, keepdim=True)
        least_B1 = score_BC.masked_fill(~self.is_item(), torch.inf).amin(dim=1, keepdim=True)
        range_B1 = (most_B1 - least_B1).masked_fill(most_B1 == least_B1, 1.0)
        return ((score_BC - least_B1) / range_B1).masked_fill(~self.is_item(), 0.0)

    def decoded(self, policy: Policy, place_BK: Tensor) -> DecodedSlates:
        """Return the slates of the items at some places."""
        return self.decoded_slates(policy, self.item_BC.gather(1, place_BK))

    def decoded_slates(self, policy: Policy, slate_BK: Tensor) -> DecodedSlates:
        """Return slates of the plan's candidates with the policy's probabilities of them."""
        with evaluating(policy), torch.inference_mode():
            log_prob_BK = self.plan.log_probs(slate_BK).clamp(max=0.0)
        refuse_diverged(log_prob_BK)
        return DecodedSlates(slate_BK.clone(), log_prob_BK.clone())

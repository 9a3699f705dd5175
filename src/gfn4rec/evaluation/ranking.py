"""R-NDCG and R-MRR, Eq. 12 of the paper: does the model's order of (user, item) pairs follow their rewards?

At each position of the slate, the B pairs of a batch are ranked by the model's score of the item at its step. Ties
share the mean of the discounts of the ranks they occupy.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias, TypeVar

import torch
from torch import Tensor

RankingRule: TypeAlias = Literal["sorted", "unsorted"]
Value = TypeVar("Value")


def ranking_metrics(score_BK: Tensor, reward_BK: Tensor) -> dict[str, float]:
    """Both metrics, and both as the authors' code computes them."""
    return {
        "r_ndcg": r_ndcg(score_BK, reward_BK),
        "r_mrr": r_mrr(score_BK, reward_BK),
        "r_ndcg_unsorted": r_ndcg(score_BK, reward_BK, "unsorted"),
        "r_mrr_unsorted": r_mrr(score_BK, reward_BK, "unsorted"),
    }


def by_rule(row: Mapping[str, Value], rule: RankingRule) -> dict[str, Value]:
    """The ranking metrics of one rule, under their plain names."""
    ending = "" if rule == "sorted" else f"_{rule}"
    return {name: row[f"{name}{ending}"] for name in ("r_ndcg", "r_mrr")}


def r_ndcg(score_BK: Tensor, reward_BK: Tensor, rule: RankingRule = "sorted") -> float:
    """Sum of reward * 2^(1 - rank) over the same sum in the ideal order, the mean over positions.

    An ideal sum of 0 or less gives 0. With the rule `unsorted` the pairs are ranked as they stand and the discount is
    e^(1 - rank), as in the authors' code.
    """
    rank_B = _ranks(reward_BK)
    discount_B = (1 - rank_B).exp() if rule == "unsorted" else 2 ** (1 - rank_B)
    found_K = (reward_BK.double() * _discounts(score_BK, discount_B, rule)).sum(dim=0)
    ideal_K = (reward_BK.double().sort(dim=0, descending=True).values * discount_B[:, None]).sum(dim=0)
    return float(torch.where(ideal_K > 0, found_K / ideal_K.clamp(min=1e-12), 0.0).mean())


def r_mrr(score_BK: Tensor, reward_BK: Tensor, rule: RankingRule = "sorted") -> float:
    """Mean over the batch of reward / rank, the mean over positions. The paper prints a sum; its values are means."""
    discount_BK = _discounts(score_BK, 1 / _ranks(reward_BK), rule)
    return float((reward_BK.double() * discount_BK).mean())


def _ranks(reward_BK: Tensor) -> Tensor:
    return torch.arange(1, len(reward_BK) + 1, dtype=torch.float64, device=reward_BK.device)


def _discounts(score_BK: Tensor, discount_B: Tensor, rule: RankingRule) -> Tensor:
    """The discount of each pair at its rank."""
    if rule == "unsorted":
        return discount_B[:, None].expand(score_BK.shape)
    score_KB = score_BK.double().T.contiguous()
    in_order_KB = score_KB.sort(dim=1).values
    num_below_KB = torch.searchsorted(in_order_KB, score_KB)
    num_up_to_KB = torch.searchsorted(in_order_KB, score_KB, right=True)
    # A pair shares the ranks from the number of better pairs + 1 to the number of pairs that are not worse.
    first_KB, last_KB = len(score_BK) - num_up_to_KB, len(score_BK) - num_below_KB
    sums = torch.cat([discount_B.new_zeros(1), discount_B.cumsum(dim=0)])
    return ((sums[last_KB] - sums[first_KB]) / (last_KB - first_KB)).T

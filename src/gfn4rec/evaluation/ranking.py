"""Ranking metrics (Eq. 12 of the paper): whether the model's order of (user, item) pairs follows their rewards.

Each public function computes the metric of its name in `gfn4rec.metrics`. At each position of the slate, the B pairs
of a batch are ranked by the model's score of the item at its step. Tied pairs share the mean of the discounts of the
ranks they occupy. By the authors' rule (`_unsorted`), pairs are ranked as they stand in the batch.
"""

import torch
from torch import Tensor


def r_ndcg(score_BK: Tensor, reward_BK: Tensor) -> float:
    """Return the sum of reward * 2^(1 - rank) divided by that of the ideal order, averaged over positions.

    A position with an ideal sum of 0 or less counts as 0.
    """
    discount_B = 2 ** (1 - _ranks(reward_BK))
    return _normalised_gain(reward_BK, _discounts(score_BK, discount_B), discount_B)


def r_mrr(score_BK: Tensor, reward_BK: Tensor) -> float:
    """Return the mean of reward / rank. The paper prints a sum over the batch, but its values are means."""
    return float((reward_BK.double() * _discounts(score_BK, 1 / _ranks(reward_BK))).mean())


def r_ndcg_unsorted(score_BK: Tensor, reward_BK: Tensor) -> float:
    """Return the authors' R-NDCG: the discount is e^(1 - rank), and the scores play no part."""
    discount_B = (1 - _ranks(reward_BK)).exp()
    return _normalised_gain(reward_BK, discount_B[:, None].expand(score_BK.shape), discount_B)


def r_mrr_unsorted(score_BK: Tensor, reward_BK: Tensor) -> float:
    """Return the authors' R-MRR: the scores play no part."""
    discount_B = 1 / _ranks(reward_BK)
    return float((reward_BK.double() * discount_B[:, None].expand(score_BK.shape)).mean())


def _ranks(reward_BK: Tensor) -> Tensor:
    return torch.arange(1, len(reward_BK) + 1, dtype=torch.float64, device=reward_BK.device)


def _normalised_gain(reward_BK: Tensor, discount_BK: Tensor, ideal_discount_B: Tensor) -> float:
    """Return the discounted reward divided by that of the ideal order, averaged over positions."""
    gain_K = (reward_BK.double() * discount_BK).sum(dim=0)
    ideal_K = (reward_BK.double().sort(dim=0, descending=True).values * ideal_discount_B[:, None]).sum(dim=0)
    return float(torch.where(ideal_K > 0, gain_K / ideal_K.clamp(min=1e-12), 0.0).mean())


def _discounts(score_BK: Tensor, discount_B: Tensor) -> Tensor:
    """Return the discount of each pair at its rank by score."""
    score_KB = score_BK.double().T.contiguous()
    in_order_KB = score_KB.sort(dim=1).values
    num_below_KB = torch.searchsorted(in_order_KB, score_KB)
    num_up_to_KB = torch.searchsorted(in_order_KB, score_KB, right=True)
    # A pair shares the ranks from the number of better pairs + 1 to the number of pairs that are not worse.
    first_KB, last_KB = len(score_BK) - num_up_to_KB, len(score_BK) - num_below_KB
    sums = torch.cat([discount_B.new_zeros(1), discount_B.cumsum(dim=0)])
    return ((sums[last_KB] - sums[first_KB]) / (last_KB - first_KB)).T

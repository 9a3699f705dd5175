"""Losses that several baselines share."""

import torch
from torch import Tensor

_MIN_LOG_COMPLEMENT = -20.0


def reward_cross_entropy(log_prob_BK: Tensor, target_BK: Tensor) -> Tensor:
    """-Y log P - (1 - Y) log(1 - P), the mean over shown items (Eq. 10; the printed sign is a misprint).

    Y is the reward as a share of what is attainable. A probability that has come to 1 would make the second logarithm
    infinite, so it stops at -20.
    """
    log_complement_BK = torch.log1p(-log_prob_BK.exp().clamp(max=1 - 1e-7)).clamp(min=_MIN_LOG_COMPLEMENT)
    return -(target_BK * log_prob_BK + (1 - target_BK) * log_complement_BK).mean()

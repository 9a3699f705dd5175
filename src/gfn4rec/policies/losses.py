"""Losses that several baselines share."""

import torch
from torch import Tensor


def reward_cross_entropy(score_BC: Tensor, column_BK: Tensor, target_BK: Tensor) -> Tensor:
    """Return the mean of -Y log P - (1 - Y) log(1 - P) over shown items (Eq. 10; its printed sign is a misprint).

    P is a softmax over the list, `column_BK` are the columns of the shown items in it, and Y is the reward scaled to
    [0, 1]. log(1 - P) is computed from the other items' scores, so it is exact however close to 1 P is.
    """
    log_sum_B1 = score_BC.logsumexp(dim=1, keepdim=True)
    log_prob_BK = score_BC.gather(1, column_BK) - log_sum_B1
    is_own_BKC = torch.zeros(*column_BK.shape, score_BC.shape[1], dtype=torch.bool, device=score_BC.device)
    is_own_BKC.scatter_(2, column_BK[:, :, None], True)
    log_others_BK = score_BC[:, None].masked_fill(is_own_BKC, -torch.inf).logsumexp(dim=2) - log_sum_B1
    return -(target_BK * log_prob_BK + (1 - target_BK) * log_others_BK).mean()

"""What a flow objective sees of a batch of slates, and how rewards and probabilities enter its logarithms."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FlowBatch:
    """Slates with the flows of their prefixes, the forward probabilities of their steps, and their rewards."""

    log_flow_BT: Tensor  # log F(u, O^t) for t = 0 .. K, or for t = 0 alone
    log_pf_BK: Tensor  # log P(a_t | u, O^(t-1)), shifted or not
    log_reward_B: Tensor  # log(R + b_r)
    log_b_z: float = 0.0


def log_reward(reward_B: Tensor, b_r: float) -> Tensor:
    """log(R + b_r) with R floored at 0: a slate can earn less than nothing where a behaviour has a negative weight."""
    return torch.log(reward_B.clamp(min=0) + b_r)


def shift_probability(log_prob_BK: Tensor, b_f: float) -> Tensor:
    """log(P + b_f); without a shift the logarithm is never taken back."""
    if b_f == 0:
        return log_prob_BK
    return torch.logaddexp(log_prob_BK, torch.full_like(log_prob_BK, math.log(b_f)))

"""The inputs of flow objectives, and the transformations of rewards and probabilities."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FlowBatch:
    """Slates with the flows of their prefixes, the forward probabilities of their steps, and their rewards."""

    log_flow_BT: Tensor  # log F(u, O^t) for t = 0 .. K, or for t = 0 alone
    log_pf_BK: Tensor  # log P(a_t | u, O^(t-1)), shifted or not
    log_reward_B: Tensor  # log(R + b_r), or beta R
    log_b_z: float = 0.0
    gain_BK: Tensor | None = None  # the part of log_reward_B that is credited to each step
    decay: float = 1.0  # a sub-trajectory of n steps has weight decay^n

    def left_over(self) -> Tensor:
        """Return the log reward minus the gains, (B,)."""
        return self.log_reward_B if self.gain_BK is None else self.log_reward_B - self.gain_BK.sum(dim=1)


def step_residuals(flow: FlowBatch, last_B: Tensor) -> Tensor:
    """Return (log b_z) / K + f(u, O^(t-1)) + log P_t - f(u, O^t) - gain_t, (B, K), where f(u, O^K) is `last_B`."""
    next_BK = torch.cat([flow.log_flow_BT[:, 1:-1], last_B[:, None]], dim=1)
    step_BK = flow.log_b_z / next_BK.shape[1] + flow.log_flow_BT[:, :-1] + flow.log_pf_BK - next_BK
    return step_BK if flow.gain_BK is None else step_BK - flow.gain_BK


def log_reward(reward_B: Tensor, b_r: float) -> Tensor:
    """Return log(max(R, 0) + b_r); a reward is negative if a behaviour with a negative weight outweighs the others."""
    return torch.log(reward_B.clamp(min=0) + b_r)


def relative_to_uniform(log_prob_BK: Tensor, num_choices_B: Tensor) -> Tensor:
    """Return log(P_t (N - t + 1)), which is 0 if P_t is uniform over the choices that are left of N, whatever N is."""
    step_K = torch.arange(log_prob_BK.shape[1], device=log_prob_BK.device)
    return log_prob_BK + (num_choices_B[:, None] - step_K).to(log_prob_BK.dtype).log()


def shift_probability(log_prob_BK: Tensor, b_f: float) -> Tensor:
    """Return log(P + b_f), computed from log P."""
    if b_f == 0:
        return log_prob_BK
    return torch.logaddexp(log_prob_BK, torch.full_like(log_prob_BK, math.log(b_f)))

"""Sub-trajectory balance (`subtb`, with gains `fl-subtb`): one residual per sub-trajectory (consecutive steps).

It lies between detailed and trajectory balance: a small `decay` gives short sub-trajectories most of the weight.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from gfn4rec.objectives.flow import FlowBatch, step_residuals


def sub_trajectory_balance(flow: FlowBatch) -> dict[str, Tensor]:
    """Return f(u, O^i) + sum of (log P_t - gain_t) - f(u, O^j) for all i < j, weighted by decay^(j - i).

    The log flow of a whole slate is its log reward minus its gains, if any. Weights have mean 1, and residuals are
    multiplied by their square roots, so that the mean of the squares is the weighted mean.
    """
    step_BK = step_residuals(flow, flow.left_over())
    size = step_BK.shape[1]
    sum_BT = F.pad(step_BK.cumsum(dim=1), (1, 0))
    start_P, end_P = torch.triu_indices(size + 1, size + 1, offset=1, device=step_BK.device)
    weight_P = flow.decay ** (end_P - start_P).to(step_BK.dtype)
    weight_P = weight_P / weight_P.mean()
    return {"stretch": (sum_BT[:, end_P] - sum_BT[:, start_P]) * weight_P.sqrt()}

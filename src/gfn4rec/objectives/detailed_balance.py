"""Detailed balance (`db`), Eq. 8 and 9 of the paper.

It learns a flow for every prefix. The paper finds it better than trajectory balance with many items.
"""

from torch import Tensor

from gfn4rec.objectives.flow import FlowBatch, step_residuals


def detailed_balance(flow: FlowBatch) -> dict[str, Tensor]:
    """Return (log b_z) / K + log F(u, O^(t-1)) + log P_t - log F(u, O^t) per step, and log F(u, O^K) - log R per slate.

    Differs from paper: b_z enters as its logarithm, a K-th of it at each step, not at the leaf.
    """
    last_B = flow.log_flow_BT[:, -1]
    return {"step": step_residuals(flow, last_B), "leaf": last_B - flow.log_reward_B}

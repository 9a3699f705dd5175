"""Detailed balance, Eq. 8 and 9 of the paper."""

from torch import Tensor

from gfn4rec.objectives.flow import FlowBatch


def detailed_balance(flow: FlowBatch) -> dict[str, Tensor]:
    """(log b_z) / K + log F(u, O^(t-1)) + log P_t - log F(u, O^t) per step, and log F(u, O^K) - log R at the leaf.

    Differs from paper: b_z enters as its logarithm, a K-th of it at each step, and not at the leaf.
    """
    size = flow.log_pf_BK.shape[1]
    step_BK = flow.log_b_z / size + flow.log_flow_BT[:, :-1] + flow.log_pf_BK - flow.log_flow_BT[:, 1:]
    return {"step": step_BK, "leaf": flow.log_flow_BT[:, -1] - flow.log_reward_B}

"""Trajectory balance (`tb`), Eq. 7 of the paper.

The simplest objective: one residual per slate, and no flow but that of the empty slate.
"""

from torch import Tensor

from gfn4rec.objectives.flow import FlowBatch


def trajectory_balance(flow: FlowBatch) -> dict[str, Tensor]:
    """Return log b_z + log F(u, empty) + sum_t log P_t - log R per slate.

    Differs from paper: b_z enters as its logarithm; the authors' code adds b_z itself.
    """
    return {"trajectory": flow.log_b_z + flow.log_flow_BT[:, 0] + flow.log_pf_BK.sum(dim=1) - flow.log_reward_B}

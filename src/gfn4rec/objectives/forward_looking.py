"""Forward-looking detailed balance: each item's share of the reward is paid at its own step."""

from torch import Tensor

from gfn4rec.objectives.flow import FlowBatch, step_residuals


def forward_looking_balance(flow: FlowBatch) -> dict[str, Tensor]:
    """f(u, O^(t-1)) + log P_t - f(u, O^t) - gain_t per step, where f is the log of the flow that is still to come.

    Nothing is still to come after the last item: f(u, O^K) is what the gains leave of the reward. Exact where the
    expected gain of a step depends on the items up to it alone; an item whose reward depends on later ones, too, is
    credited with its mean over them.
    """
    return {"step": step_residuals(flow, flow.left_over())}


def corrected_forward_looking_balance(flow: FlowBatch) -> dict[str, Tensor]:
    """The same with gains that are a function of the items up to each step, and f(u, O^K) - (log R - sum of gains) at
    the leaf: exact whatever the gains are, and noise of the answers enters at the leaf only.
    """
    last_B = flow.log_flow_BT[:, -1]
    return {"step": step_residuals(flow, last_B), "leaf": last_B - flow.left_over()}

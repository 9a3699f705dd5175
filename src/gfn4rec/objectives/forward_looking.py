"""Forward-looking detailed balance: each step is credited with the reward of its item.

Use `fl-db`, the default of the energy GFN, where an item's reward depends little on later items. `fl-db-exact` has no
such limit, but earned less after 1,000 steps (docs/beyond-the-paper.md).
"""

from torch import Tensor

from gfn4rec.objectives.flow import FlowBatch, step_residuals


def forward_looking_balance(flow: FlowBatch) -> dict[str, Tensor]:
    """Return f(u, O^(t-1)) + log P_t - f(u, O^t) - gain_t per step, where f is the log flow without the gains so far.

    At the leaf, f(u, O^K) is the log reward minus all gains. The objective is exact if the expected gain of a step
    depends only on the items up to it. If it also depends on later items, the step is credited with the mean over them.
    """
    return {"step": step_residuals(flow, flow.left_over())}


def corrected_forward_looking_balance(flow: FlowBatch) -> dict[str, Tensor]:
    """Return the same residuals with predicted gains, and f(u, O^K) - (log R - sum of gains) at the leaf.

    The gains are a function of the items up to each step. The objective is exact whatever the gains are, and feedback
    noise enters at the leaf only.
    """
    last_B = flow.log_flow_BT[:, -1]
    return {"step": step_residuals(flow, last_B), "leaf": last_B - flow.left_over()}

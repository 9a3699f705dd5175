"""Residuals, penalties and the reward transform, against numbers worked out by hand."""

import math
from dataclasses import replace

import pytest
import torch

from gfn4rec.objectives.detailed_balance import detailed_balance
from gfn4rec.objectives.flow import FlowBatch, log_reward, relative_to_uniform, shift_probability
from gfn4rec.objectives.forward_looking import corrected_forward_looking_balance, forward_looking_balance
from gfn4rec.objectives.penalty import huber, square
from gfn4rec.objectives.sub_trajectory import sub_trajectory_balance
from gfn4rec.objectives.trajectory_balance import trajectory_balance


def log(*values: float) -> torch.Tensor:
    return torch.tensor(values).log()


def test_trajectory_balance_by_hand() -> None:
    flow = FlowBatch(log(6.0)[:, None], log(0.5, 0.25)[None], log(3.0), log_b_z=math.log(2))
    # 2 * 6 * 0.5 * 0.25 = 1.5, half of the reward
    assert float(trajectory_balance(flow)["trajectory"]) == pytest.approx(math.log(0.5))


def test_detailed_balance_by_hand() -> None:
    flow = FlowBatch(log(6.0, 3.0, 1.0)[None], log(0.5, 0.25)[None], log(3.0), log_b_z=math.log(4))
    residuals = detailed_balance(flow)
    # b_z ** (1 / 2) = 2: 2 * 6 * 0.5 / 3 and 2 * 3 * 0.25 / 1 at the steps, 1 / 3 at the leaf
    torch.testing.assert_close(residuals["step"], log(2.0, 1.5)[None])
    torch.testing.assert_close(residuals["leaf"], log(1 / 3))


def test_forward_looking_balance_by_hand() -> None:
    flow = FlowBatch(log(6.0, 3.0, 9.0)[None], log(0.5, 0.25)[None], log(24.0), gain_BK=log(2.0, 4.0)[None])
    # 24 / (2 * 4) = 3 is left over for the leaf: 6 * 0.5 / 3 / 2 and 3 * 0.25 / 3 / 4; the leaf's own flow is not asked
    torch.testing.assert_close(forward_looking_balance(flow)["step"], log(0.5, 0.0625)[None])


def test_corrected_forward_looking_balance_by_hand() -> None:
    flow = FlowBatch(log(6.0, 3.0, 9.0)[None], log(0.5, 0.25)[None], log(24.0), gain_BK=log(2.0, 4.0)[None])
    residuals = corrected_forward_looking_balance(flow)
    torch.testing.assert_close(residuals["step"], log(0.5, 0.75 / 9 / 4)[None])
    torch.testing.assert_close(residuals["leaf"], log(3.0))


def test_sub_trajectory_balance_by_hand() -> None:
    flow = FlowBatch(log(6.0, 3.0, 9.0)[None], log(0.5, 0.25)[None], log(3.0), decay=0.5)
    # Steps 6 * 0.5 / 3 and 3 * 0.25 / 3; both 6 * 0.5 * 0.25 / 3. Weights 0.5, 0.25, 0.5 have the mean 1.25 / 3.
    residual_P = torch.stack([log(1.0), log(0.25), log(0.25)], dim=1)
    weight_P = torch.tensor([1.2, 0.6, 1.2])  # from nothing to 1 item, from nothing to 2, from 1 to 2
    torch.testing.assert_close(sub_trajectory_balance(flow)["stretch"], residual_P * weight_P.sqrt())


def test_sub_trajectories_with_gains_by_hand() -> None:
    flow = FlowBatch(log(6.0, 3.0, 9.0)[None], log(0.5, 0.25)[None], log(24.0), gain_BK=log(2.0, 4.0)[None])
    expected = torch.stack([log(0.5), log(0.5 * 0.0625), log(0.0625)], dim=1)
    torch.testing.assert_close(sub_trajectory_balance(flow)["stretch"], expected)


def test_the_normalising_bias_is_a_share_of_each_step() -> None:
    plain = FlowBatch(log(6.0, 3.0, 9.0)[None], log(0.5, 0.25)[None], log(24.0), gain_BK=log(2.0, 4.0)[None])
    biased = replace(plain, log_b_z=math.log(4.0))
    added = forward_looking_balance(biased)["step"] - forward_looking_balance(plain)["step"]
    torch.testing.assert_close(added, log(2.0, 2.0)[None])


def test_a_uniform_policy_is_the_zero_point() -> None:
    torch.testing.assert_close(
        relative_to_uniform(log(1 / 5, 1 / 4, 1 / 3).expand(2, -1), torch.tensor([5])), torch.zeros(2, 3)
    )
    torch.testing.assert_close(
        relative_to_uniform(log(0.5, 0.5).expand(2, -1), torch.tensor([5, 9])),
        torch.stack([log(2.5, 2.0), log(4.5, 4.0)]),
    )


def test_a_reward_below_zero_counts_as_none() -> None:
    torch.testing.assert_close(log_reward(torch.tensor([-5.0, 0.0, 1.5]), 0.5), log(0.5, 0.5, 2.0))


def test_probability_shift() -> None:
    torch.testing.assert_close(shift_probability(log(0.2, 0.5)[None], 0.3), log(0.5, 0.8)[None])


def test_no_shift_keeps_a_probability_too_small_to_be_written_down() -> None:
    tiny = torch.tensor([[-500.0]])
    assert float(shift_probability(tiny, 0.0)) == -500.0


def test_the_shift_weights_a_step_by_its_share() -> None:
    """d log(P + b) / d log P = P / (P + b)."""
    log_prob = log(0.2)[None].requires_grad_()
    shift_probability(log_prob, 0.3).sum().backward()
    assert log_prob.grad is not None
    assert float(log_prob.grad) == pytest.approx(0.4)


def test_penalties() -> None:
    residual = torch.tensor([-3.0, -0.5, 0.0, 1.5, 2.0])
    torch.testing.assert_close(square(residual), torch.tensor([9.0, 0.25, 0.0, 2.25, 4.0]))
    torch.testing.assert_close(huber(residual), torch.tensor([5.0, 0.25, 0.0, 2.0, 3.0]))

"""What every row of the table of objectives promises; a new row is covered unedited."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gfn4rec.objectives import OBJECTIVES
from gfn4rec.objectives.flow import FlowBatch
from gfn4rec.policies.flow_config import FlowConfig
from tests.conftest import REPOSITORY
from tests.small_catalogue import all_slates, generator, make_batch, make_catalogue, make_policy

SLATES = all_slates(range(1, 5), 3)
K = SLATES.shape[1]
B_Z = 8.0
OTHER_TERMS = {"item_reward", "log_root_flow", "log_prob"}  # of the loss, beside the residuals


def by_prefix(value_S: Tensor, size: int) -> Tensor:
    """Return, for each slate, the sum of the values of all slates that begin with the same `size` items."""
    is_same_SS = (SLATES[:, None, :size] == SLATES[None, :, :size]).all(dim=2)
    return is_same_SS.double() @ value_S


def exact_flow(objective: str, seed: int) -> FlowBatch:
    """Return all slates of a user whose probabilities are in proportion to random rewards, with their flows."""
    random = generator(seed)
    reward_S = (3 * torch.randn(len(SLATES), generator=random, dtype=torch.float64)).exp()
    log_sum_ST = torch.stack([by_prefix(reward_S, size).log() for size in range(K + 1)], dim=1)
    bias_T = torch.arange(K, -1, -1, dtype=torch.float64) / K * math.log(B_Z)  # a K-th of log b_z for each step to come
    gain_SK = torch.stack(
        [by_prefix(torch.rand(len(SLATES), generator=random, dtype=torch.float64), size) for size in range(1, K + 1)],
        dim=1,
    )
    has_gains = OBJECTIVES[objective].gains != "none"
    gained_ST = torch.nn.functional.pad(gain_SK.cumsum(dim=1), (1, 0)) * has_gains
    return FlowBatch(
        log_flow_BT=log_sum_ST - bias_T - gained_ST,
        log_pf_BK=log_sum_ST.diff(dim=1),
        log_reward_B=reward_S.log(),
        log_b_z=math.log(B_Z),
        gain_BK=gain_SK if has_gains else None,
        decay=0.8,
    )


def two_users(objective: str) -> FlowBatch:
    """Return the flows of two users in one batch; the sums of their rewards differ."""
    one, other = exact_flow(objective, 0), exact_flow(objective, 1)
    needed = slice(None) if OBJECTIVES[objective].needs_node_flows else slice(0, 1)
    assert abs(float(one.log_flow_BT[0, 0] - other.log_flow_BT[0, 0])) > 0.1
    return replace(
        one,
        log_flow_BT=torch.cat([one.log_flow_BT, other.log_flow_BT])[:, needed],
        log_pf_BK=torch.cat([one.log_pf_BK, other.log_pf_BK]),
        log_reward_B=torch.cat([one.log_reward_B, other.log_reward_B]),
        gain_BK=None if one.gain_BK is None or other.gain_BK is None else torch.cat([one.gain_BK, other.gain_BK]),
    )


def largest(objective: str, flow: FlowBatch) -> float:
    return max(float(residual.abs().max()) for residual in OBJECTIVES[objective].residuals(flow).values())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_exact_flows_leave_no_residual(objective: str) -> None:
    assert largest(objective, two_users(objective)) < 1e-9


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_wrong_value_leaves_a_residual(objective: str) -> None:
    """Also a wrong flow of the empty slate, which scores of slates are computed from."""
    flow = two_users(objective)
    wrong_flow_BT, wrong_prob_BK, wrong_reward_B = (
        values.clone() for values in (flow.log_flow_BT, flow.log_pf_BK, flow.log_reward_B)
    )
    wrong_flow_BT[:, 0] += 1
    wrong_reward_B += 1
    assert largest(objective, replace(flow, log_flow_BT=wrong_flow_BT)) > 0.1
    assert largest(objective, replace(flow, log_reward_B=wrong_reward_B)) > 0.1
    for step in range(K):
        wrong_prob_BK.copy_(flow.log_pf_BK)[:, step] += 1
        assert largest(objective, replace(flow, log_pf_BK=wrong_prob_BK)) > 0.1


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_residuals_have_names_of_their_own(objective: str) -> None:
    flow = two_users(objective)
    residuals = OBJECTIVES[objective].residuals(flow)
    assert not OTHER_TERMS & set(residuals)
    assert all(len(residual) == len(flow.log_reward_B) for residual in residuals.values())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_weight_of_a_policy_learns(objective: str) -> None:
    policy = make_policy("gfn-energy", make_catalogue(num_items=70), objective=objective)
    policy.loss(make_batch(policy.catalogue, 12), generator()).loss.backward()
    for name, weight in policy.named_parameters():
        if weight.requires_grad:
            assert weight.grad is not None, name
            assert torch.isfinite(weight.grad).all(), name


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_help_and_docs_name_it(objective: str) -> None:
    help_text = FlowConfig.model_fields["objective"].description or ""
    assert f"{objective} ({OBJECTIVES[objective].meaning})" in help_text
    _, _, section = (REPOSITORY / "docs" / "policies.md").read_text(encoding="utf-8").partition("\n## Objectives\n")
    names = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    assert any(f"`{objective}`" in name for name in names)

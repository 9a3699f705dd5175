"""Six items, slates of three, two users: every slate and its reward can be written down."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from gfn4rec.objectives import OBJECTIVES
from gfn4rec.objectives.flow import FlowBatch, log_reward
from gfn4rec.policies.gfn import GFN4Rec
from gfn4rec.policies.slate_network import prefixes
from gfn4rec.schema import Request, SlateBatch
from tests.small_catalogue import HISTORY, SMALL_ENCODER, all_slates, make_catalogue, make_policy

B_R = 0.3
CATALOGUE = make_catalogue()
SLATES = all_slates(range(1, 7), 3)  # 120 of them


def rewards(user: int) -> Tensor:
    """User 1 likes small items, early; user 2 likes large ones, late. Some slates earn nothing, some less."""
    weight_K = torch.tensor([3.0, 2.0, 1.0]) if user == 1 else torch.tensor([1.0, 2.0, 3.0])
    liking_K = (7 - SLATES if user == 1 else SLATES).float() - 3
    return (liking_K * weight_K).mean(dim=1).clamp(min=-1) / 2


def prefix_flow(user: int, prefix: tuple[int, ...]) -> float:
    """The sum of the rewards of all slates that begin so."""
    begins = (SLATES[:, : len(prefix)] == torch.tensor(prefix)).all(dim=1) if prefix else torch.ones(120).bool()
    return float((rewards(user).clamp(min=0) + B_R)[begins].sum())


@pytest.mark.parametrize("b_z", [1.0, 8.0])
@pytest.mark.parametrize("user", [1, 2])
@pytest.mark.parametrize("objective", ["tb", "db"])
def test_flows_written_by_hand_leave_no_residual(objective: str, user: int, b_z: float) -> None:
    log_flow, log_pf = [], []
    for slate in SLATES.tolist():
        flows = [prefix_flow(user, tuple(slate[:t])) for t in range(4)]
        log_pf.append([math.log(flows[t + 1] / flows[t]) for t in range(3)])
        # F(u, O^t) leaves out the b_z ** (1 / K) of each step to come.
        log_flow.append([math.log(flow) - (3 - t) / 3 * math.log(b_z) for t, flow in enumerate(flows)])
    batch = FlowBatch(
        torch.tensor(log_flow), torch.tensor(log_pf), log_reward(rewards(user), B_R), log_b_z=math.log(b_z)
    )
    for residual in OBJECTIVES[objective].residuals(batch).values():
        assert float(residual.abs().max()) < 1e-5


def all_answers() -> SlateBatch:
    """Every slate of both users, with its reward."""
    user_B = torch.tensor([1, 2]).repeat_interleave(120)
    request = Request(user_B, torch.zeros(240, HISTORY, dtype=torch.int64), torch.zeros(240, HISTORY, 2))
    reward_B = torch.cat([rewards(1), rewards(2)])
    slate_BK = SLATES.repeat(2, 1)
    return SlateBatch(request, slate_BK, torch.zeros(240, 3, 2), reward_B[:, None].expand(-1, 3).contiguous(), reward_B)


def train(num_steps: int, **settings: Any) -> GFN4Rec:
    """From scratch, until the loss is at its bottom."""
    policy = make_policy(
        "gfn",
        CATALOGUE,
        b_r=B_R,
        b_f=0.0,
        scale=0.3,
        learn_scale=True,
        unknown_user_share=0.0,
        encoder={**SMALL_ENCODER, "dim": 16},
        hidden_dims=(64,),
        **settings,
    )
    assert isinstance(policy, GFN4Rec)
    batch, generator = all_answers(), torch.Generator().manual_seed(0)
    # All slates are in the batch, so the loss has no noise, and a second-order method gets to its bottom soonest.
    optimizer = torch.optim.LBFGS(
        policy.parameters(), max_iter=num_steps, history_size=30, line_search_fn="strong_wolfe", tolerance_change=0.0
    )

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        loss = policy.loss(batch, generator).loss
        loss.backward()
        return loss

    optimizer.step(evaluate)
    return policy


def root_flows(policy: GFN4Rec, batch: SlateBatch) -> Tensor:
    state_BS, table_ND = policy.backbone.encode(batch.request)
    empty_BTX = prefixes(state_BS, table_ND[batch.slate_BK], range(1))
    return policy.network.log_flows(empty_BTX)[:, 0]


@pytest.mark.parametrize(("objective", "num_steps"), [("tb", 400), ("db", 700)])
@torch.no_grad()
def test_training_from_scratch_ends_with_probabilities_in_proportion_to_rewards(objective: str, num_steps: int) -> None:
    b_z, batch = 8.0, all_answers()
    with torch.enable_grad():
        policy = train(num_steps, objective=objective, b_z=b_z)
    prob_B = policy.log_probs(batch.request, batch.slate_BK).sum(dim=1).exp()
    root_flow_B = root_flows(policy, batch).exp()
    score_B = policy.score(batch.request, batch.slate_BK)
    for number, user in enumerate((1, 2)):
        rows = slice(120 * number, 120 * (number + 1))
        target = rewards(user).clamp(min=0) + B_R
        assert float((prob_B[rows] - target / target.sum()).abs().sum() / 2) < 0.02
        assert b_z * float(root_flow_B[rows][0]) == pytest.approx(float(target.sum()), rel=0.02)
        # The flow's estimate of a slate's reward is its reward.
        assert float((score_B[rows] - rewards(user).clamp(min=0)).abs().mean()) < 0.05


@pytest.mark.parametrize(("objective", "num_steps"), [("tb", 300), ("fl-db-exact", 400)])
@torch.no_grad()
def test_energy_from_scratch_ends_with_probabilities_in_proportion_to_its_exponential(
    objective: str, num_steps: int
) -> None:
    """Relative to uniform: the root flow is the logarithm of the mean of exp(beta R) over all slates."""
    beta, batch = 1.0, all_answers()
    with torch.enable_grad():
        policy = train(num_steps, objective=objective, reward="energy", beta=beta, relative=True, normalise_query=False)
    prob_B = policy.log_probs(batch.request, batch.slate_BK).sum(dim=1).exp()
    log_root_B = root_flows(policy, batch)
    score_B = policy.score(batch.request, batch.slate_BK)
    for number, user in enumerate((1, 2)):
        rows = slice(120 * number, 120 * (number + 1))
        target = (beta * rewards(user)).exp()
        assert float((prob_B[rows] - target / target.sum()).abs().sum() / 2) < 0.02
        assert float(log_root_B[rows][0]) == pytest.approx(float(target.mean().log()), abs=0.02)
        assert float((score_B[rows] - rewards(user)).abs().mean()) < 0.05

"""Six items, slates of three, answers by coin flip: what each objective makes of rewards that are noisy.

Flows and probabilities are tables with an entry per prefix, and a batch holds every slate with every answer as often as
it is given. So the minimum of the loss is known, and is reached.
"""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gfn4rec.objectives import OBJECTIVES
from gfn4rec.objectives.flow import FlowBatch, log_reward, relative_to_uniform
from tests.small_catalogue import all_slates

K, N, BETA, B_R = 3, 6, 4.0, 0.05
SLATES = all_slates(range(1, N + 1), K)
PREFIXES = [prefix for t in range(K + 1) for prefix in itertools.permutations(range(1, N + 1), t)]
NUMBER = {prefix: number for number, prefix in enumerate(PREFIXES)}
NODE_ST = torch.tensor([[NUMBER[tuple(slate[:t])] for t in range(K + 1)] for slate in SLATES.tolist()])
Probability = Callable[[Tensor], Tensor]


def of_the_prefix(slate_SK: Tensor) -> Tensor:
    """An item is liked for itself, and half as often straight after a smaller one."""
    liked_SK = torch.tensor([0.0, 0.0, 0.5, 0.5, 1.0, 1.0, 1.0])[slate_SK]
    follows_SK = torch.zeros_like(slate_SK, dtype=torch.bool)
    follows_SK[:, 1:] = slate_SK[:, 1:] > slate_SK[:, :-1]
    return torch.where(follows_SK, liked_SK / 2, liked_SK)


def of_the_whole_slate(slate_SK: Tensor) -> Tensor:
    """An item is liked half as often next to its neighbour among the ids, wherever that stands."""
    liked_SK = torch.tensor([0.0, 0.0, 0.5, 0.5, 1.0, 1.0, 1.0])[slate_SK]
    is_near_SKK = (slate_SK[:, :, None] - slate_SK[:, None]).abs() == 1
    return torch.where(is_near_SKK.any(dim=2), liked_SK / 2, liked_SK)


def answers(probability: Probability) -> tuple[Tensor, Tensor]:
    """The row of each slate, and the rewards of its items: each of four throws of three coins is a row."""
    probability_SK = probability(SLATES)
    throw_CK = torch.tensor(list(itertools.product([0.125, 0.375, 0.625, 0.875], repeat=K)))
    reward_SCK = (throw_CK < probability_SK[:, None]).double()
    return torch.arange(len(SLATES)).repeat_interleave(len(throw_CK)), reward_SCK.flatten(0, 1)


def train(objective: str, reward: str, probability: Probability, relative: bool = False) -> Tensor:
    """The probabilities of all slates at the minimum of the loss."""
    row_B, item_reward_BK = answers(probability)
    generator = torch.Generator().manual_seed(0)
    logit_PN = torch.randn(len(PREFIXES), N, generator=generator, dtype=torch.float64).requires_grad_()
    log_flow_P = torch.zeros(len(PREFIXES), dtype=torch.float64, requires_grad=True)
    gain_P = torch.randn(len(PREFIXES), generator=generator, dtype=torch.float64)  # right or wrong, it must not matter

    def log_probs() -> Tensor:
        steps = []
        for t in range(K):
            closed = torch.zeros(len(SLATES), N, dtype=torch.bool)
            closed.scatter_(1, SLATES[:, :t] - 1, value=True)
            log_prob_SN = logit_PN[NODE_ST[:, t]].masked_fill(closed, -torch.inf).log_softmax(dim=1)
            steps.append(log_prob_SN.gather(1, SLATES[:, t : t + 1] - 1))
        return torch.cat(steps, dim=1)

    def loss() -> Tensor:
        gains = OBJECTIVES[objective].gains
        gain_BK = {"none": None, "observed": BETA / K * item_reward_BK, "predicted": gain_P[NODE_ST[:, 1:]][row_B]}[
            gains
        ]
        reward_B = item_reward_BK.mean(dim=1)
        log_prob_SK = log_probs()
        flow = FlowBatch(
            log_flow_BT=log_flow_P[NODE_ST][row_B],
            log_pf_BK=(relative_to_uniform(log_prob_SK, torch.tensor([N])) if relative else log_prob_SK)[row_B],
            log_reward_B=BETA * reward_B if reward == "energy" else log_reward(reward_B, B_R),
            gain_BK=gain_BK,
            decay=0.8,
        )
        return torch.stack([each.square().mean() for each in OBJECTIVES[objective].residuals(flow).values()]).sum()

    optimizer = torch.optim.LBFGS(
        [logit_PN, log_flow_P], max_iter=400, history_size=40, line_search_fn="strong_wolfe", tolerance_change=1e-14
    )

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(evaluate)
    return log_probs().detach().sum(dim=1).exp()


def distance(prob_S: Tensor, weight_S: Tensor) -> float:
    """Total variation from the probabilities in proportion to the weights."""
    return float((prob_S - weight_S / weight_S.sum()).abs().sum() / 2)


def energy_target(probability: Probability) -> Tensor:
    return (BETA * probability(SLATES).double().mean(dim=1)).exp()


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_energy_follows_the_expected_reward_where_an_item_depends_on_earlier_ones(objective: str) -> None:
    assert distance(train(objective, "energy", of_the_prefix), energy_target(of_the_prefix)) < 0.002


@pytest.mark.parametrize("objective", [name for name, each in OBJECTIVES.items() if each.gains != "observed"])
def test_energy_follows_the_expected_reward_where_an_item_depends_on_later_ones(objective: str) -> None:
    assert distance(train(objective, "energy", of_the_whole_slate), energy_target(of_the_whole_slate)) < 0.002


@pytest.mark.parametrize(("objective", "expected"), [("fl-db", 0.142), ("fl-subtb", 0.084)])
def test_plain_forward_looking_is_biased_where_an_item_depends_on_later_ones(objective: str, expected: float) -> None:
    """By as much as the docs say."""
    bias = distance(train(objective, "energy", of_the_whole_slate), energy_target(of_the_whole_slate))
    assert bias == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_probabilities_relative_to_uniform_move_no_minimum(objective: str) -> None:
    assert distance(train(objective, "energy", of_the_prefix, relative=True), energy_target(of_the_prefix)) < 0.002


@pytest.mark.parametrize("objective", ["tb", "db", "subtb"])
def test_the_logarithm_follows_its_own_mean_and_not_the_mean_reward(objective: str) -> None:
    row_B, item_reward_BK = answers(of_the_prefix)
    log_B = log_reward(item_reward_BK.mean(dim=1), B_R)
    mean_log_S = torch.zeros(len(SLATES), dtype=torch.float64).index_add_(0, row_B, log_B) / (len(row_B) / len(SLATES))
    prob_S = train(objective, "log", of_the_prefix)
    assert distance(prob_S, mean_log_S.exp()) < 0.002
    assert distance(prob_S, of_the_prefix(SLATES).double().mean(dim=1) + B_R) > 0.02

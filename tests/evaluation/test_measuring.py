"""What is measured of one batch, and whom a policy is asked for, with doubles that remember it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation import frontier
from gfn4rec.evaluation.protocol import evaluate_in_simulator, evaluate_on_log, slate_metrics
from gfn4rec.evaluation.ranking import r_mrr, r_ndcg
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Proposal, Request, Sampling
from gfn4rec.simulator.environment import EnvironmentConfig, Feedback, UserEnvironment
from gfn4rec.simulator.oracle import random_slates
from tests.simulator.conftest import FixedUsers


class WatchedEnvironment(UserEnvironment):
    """Remembers the requests it made, and the answers it gave."""

    def __init__(self, *arguments: Any) -> None:
        self.made: list[Request] = []
        self.answers: list[Feedback] = []
        super().__init__(*arguments)

    def step(self, slate_BK: Tensor) -> Feedback:
        self.made.append(self.request)
        self.answers.append(super().step(slate_BK))
        return self.answers[-1]


class Recording:
    """Shows six items in a row, from a user's number on, and scores them by the latest event of the history."""

    def __init__(self, num_items: int) -> None:
        self.num_items = num_items
        self.asked: list[Request] = []
        self.ranked: list[Request] = []
        self.proposed: list[bool] = []

    def recommend(self, request: Request, *_: object, **__: object) -> Proposal:
        self.asked.append(request)
        slate_BK = (request.user_B[:, None] + torch.arange(6)) % self.num_items + 1
        return Proposal(slate_BK, -slate_BK.float(), -slate_BK.float())

    def relevance(self, request: Request, slate_BK: Tensor, log_prob_BK: Tensor | None = None) -> Tensor:
        assert log_prob_BK is None or torch.equal(log_prob_BK, -slate_BK.float())  # those of the proposal
        self.proposed.append(log_prob_BK is not None)
        self.ranked.append(request)
        return (slate_BK * request.history_BH[:, -1:] % 7).float()


@pytest.fixture
def environment(data: SlateData) -> WatchedEnvironment:
    return WatchedEnvironment(data, FixedUsers(data), EnvironmentConfig(num_users=32, rho=0.0, episode_length=2), 0)


def same(first: Request, second: Request) -> bool:
    return all(
        torch.equal(getattr(first, name), getattr(second, name)) for name in ("user_B", "history_BH", "response_BHR")
    )


def test_figures_of_a_batch_by_hand(data: SlateData, environment: UserEnvironment) -> None:
    """Two slates of three items; the behaviours are worth 1, 1, 1 and -1."""
    assert data.weight_R.tolist() == [1, 1, 1, -1]
    response_BKR = torch.zeros(2, 3, 4)
    response_BKR[0, 0] = torch.tensor([1, 1, 1, 0])  # 3 of one item, and 1 of the slate
    response_BKR[1, :, 0] = 1  # 1 of each item, but one is hated
    response_BKR[1, 2, 3] = 1
    item_reward_BK = torch.tensor([[3.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    expected_BK = torch.tensor([[0.25], [0.75]]).expand(2, 3)
    reward_B, expected_B = item_reward_BK.mean(dim=1), expected_BK.mean(dim=1)  # 1 and 2/3
    request = environment.request
    feedback = Feedback(
        response_BKR, item_reward_BK, reward_B, expected_BK, expected_B, torch.zeros(2, 3), 0.0, request, None
    )
    found = slate_metrics(environment, torch.tensor([[1, 2, 3], [3, 4, 5]]), feedback)
    assert found["reward"] == pytest.approx(5 / 6)
    assert found["max_reward"] == 1.0
    assert found["expected_reward"] == 0.5
    assert found["coverage"] == 5
    assert [found[f"rate_{name}"] for name in data.behaviours] == pytest.approx([4 / 6, 1 / 6, 1 / 6, 1 / 6])


def test_each_batch_is_for_the_users_as_they_are_by_then(data: SlateData, environment: WatchedEnvironment) -> None:
    policy = Recording(data.num_items)
    evaluate_in_simulator(policy, environment, Sampling(), 5, seed=1)  # type: ignore[arg-type]
    assert len(policy.asked) == len(policy.ranked) == len(environment.made) == 5
    assert all(policy.proposed)
    for asked, ranked, made in zip(policy.asked, policy.ranked, environment.made, strict=True):
        assert same(asked, made)
        assert same(ranked, made)
    assert not same(policy.asked[0], policy.asked[1])


def test_every_point_of_the_oracle_has_the_same_users_as_they_are_by_then(
    environment: WatchedEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Request]()

    def watched(environment: UserEnvironment, request: Request, generator: torch.Generator) -> Tensor:
        asked.append(request)
        return random_slates(environment, request, generator)

    monkeypatch.setattr(frontier, "random_slates", watched)
    frontier.measure_frontier(environment, temperatures=(), num_batches=5, seed=3)
    by_random, by_greedy = environment.made[:5], environment.made[5:]
    assert len(asked) == len(by_greedy) == 5
    assert all(same(request, made) for request, made in zip(asked, by_random, strict=True))
    assert not same(asked[0], asked[1])
    for first in (by_random[0], by_greedy[0]):
        assert same(first, environment.reset(3))


def test_the_ranking_is_that_of_the_answers_given(data: SlateData, environment: WatchedEnvironment) -> None:
    policy = Recording(data.num_items)
    found = evaluate_in_simulator(policy, environment, Sampling(), 1, seed=1)  # type: ignore[arg-type]
    ((request,), (answer,)) = policy.asked, environment.answers
    slate_BK = (request.user_B[:, None] + torch.arange(6)) % data.num_items + 1
    score_BK = (slate_BK * request.history_BH[:, -1:] % 7).float()
    reward_BK = answer.response_BKR @ data.weight_R
    assert found["r_ndcg"] == pytest.approx(r_ndcg(score_BK, reward_BK))
    assert found["r_mrr"] == pytest.approx(r_mrr(score_BK, reward_BK))


def test_a_policy_that_explores_shows_more_items(data: SlateData, environment: UserEnvironment) -> None:
    policy = build_policy("random", Catalogue.of(data))  # greedy, it shows items 1 to 6
    plain, explored = (
        evaluate_in_simulator(policy, environment, Sampling(greedy=True, epsilon=epsilon), 2, seed=1)
        for epsilon in (0.0, 1.0)
    )
    assert plain["coverage"] == 6
    assert explored["coverage"] > 50  # of 60: there are 32 x 6 draws


def test_batches_of_logged_slates_mix_users(data: SlateData) -> None:
    """Each of the 73 users has one test slate, and the log is in the order of users."""
    policy = Recording(data.num_items)
    evaluate_on_log(policy, data, batch_size=24)  # type: ignore[arg-type]
    numbers = [request.user_B.tolist() for request in policy.ranked]
    assert [len(batch) for batch in numbers] == [24, 24, 24, 1]
    assert len({user for batch in numbers for user in batch}) == 73
    assert all(min(batch) <= 24 and max(batch) > 48 for batch in numbers[:3])

"""Measuring a policy: known users, known rewards."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.prepare import PrepareConfig, prepare
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.errors import UserError
from gfn4rec.evaluation.protocol import evaluate_in_simulator, evaluate_on_log
from gfn4rec.evaluation.ranking import r_mrr, r_mrr_unsorted, r_ndcg
from gfn4rec.policies import build_policy
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request, Sampling
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from tests.simulator.conftest import FixedUsers


@pytest.fixture
def environment(data: SlateData) -> UserEnvironment:
    return UserEnvironment(data, FixedUsers(data), EnvironmentConfig(num_users=64, rho=0.0), seed=0)


def new_policy(name: str, data: SlateData) -> Policy:
    return build_policy(name, Catalogue.of(data))


def test_expected_figures_of_a_policy_that_shows_the_same_slate(data: SlateData, environment: UserEnvironment) -> None:
    policy = new_policy("random", data)  # greedy, it shows items 1 to 6
    found = evaluate_in_simulator(policy, environment, Sampling(greedy=True), 30, seed=1)
    probability = torch.arange(1, 7) / data.num_items
    assert found["coverage"] == 6
    assert found["expected_reward"] == pytest.approx(float(probability.mean() * data.weight_R.sum()), rel=1e-5)
    assert found["reward"] == pytest.approx(found["expected_reward"], abs=0.02)
    assert found["reward"] <= found["max_reward"]
    for name in data.behaviours:
        assert found[f"rate_{name}"] == pytest.approx(float(probability.mean()), abs=0.01)


def test_the_same_seed_gives_the_same_figures(data: SlateData, environment: UserEnvironment) -> None:
    policy = new_policy("popularity", data)
    first, again, other = (evaluate_in_simulator(policy, environment, Sampling(), 3, seed) for seed in (1, 1, 2))
    assert first == again
    assert first["reward"] != other["reward"]
    cold = evaluate_in_simulator(policy, environment, Sampling(temperature=0.1), 3, 1)
    assert cold["coverage"] < first["coverage"]


class Clairvoyant(torch.nn.Module):
    """Knows the log: its order of logged items is that of their rewards."""

    def __init__(self, data: SlateData, sign: float) -> None:
        super().__init__()
        self.answers = {}
        for split in ("val", "test"):
            batch = data.slates(data.split(split))
            for user, slate, reward in zip(batch.request.user_B, batch.slate_BK, batch.item_reward_BK, strict=True):
                self.answers[(int(user), tuple(slate.tolist()))] = sign * reward

    def relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        rows = zip(request.user_B.tolist(), slate_BK.tolist(), strict=True)
        return torch.stack([self.answers[(user, tuple(slate))] for user, slate in rows])


def test_ranking_of_logged_slates(data: SlateData) -> None:
    best, worst = (evaluate_on_log(Clairvoyant(data, sign), data, batch_size=32) for sign in (1.0, -1.0))  # type: ignore[arg-type]
    assert best["r_ndcg"] == pytest.approx(1, abs=1e-6)
    assert worst["r_ndcg"] < 0.7
    assert worst["r_mrr"] < best["r_mrr"]


def test_an_incomplete_batch_is_left_out_unless_unsorted(data: SlateData) -> None:
    num_slates, seen = len(data.split("test")), []

    class Counting(Clairvoyant):
        def relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
            seen.append(len(slate_BK))
            return super().relevance(request, slate_BK)

    policy, size = Counting(data, 1.0), num_slates // 2 + 1
    found = evaluate_on_log(policy, data, batch_size=size)  # type: ignore[arg-type]
    assert seen == [size, num_slates - size]
    order = torch.randperm(num_slates, generator=torch_generator(0, "evaluation/log"))
    first, last = (data.slates(data.split("test")[part]).item_reward_BK for part in order.split(size))
    assert found["r_mrr"] == pytest.approx(r_mrr(first, first))
    unsorted = [r_mrr_unsorted(part, part) for part in (first, last)]
    assert found["r_mrr_unsorted"] == pytest.approx(sum(unsorted) / 2)
    assert found["r_ndcg"] == pytest.approx(1)
    assert found["r_ndcg_unsorted"] < 1
    with pytest.raises(UserError, match="fewer than one batch of 9999"):
        evaluate_on_log(policy, data, batch_size=9999)  # type: ignore[arg-type]


def test_the_paper_order_is_that_of_the_models_own_probabilities(data: SlateData) -> None:
    policy = new_policy("popularity", data)
    batch = data.slates(data.split("test")[:40])
    score = policy.relevance(batch.request, batch.slate_BK)
    torch.testing.assert_close(score, policy.log_probs(batch.request, batch.slate_BK).exp())
    assert 0 <= r_ndcg(score, batch.item_reward_BK) <= 1


def test_sampled_items_of_logged_slates_are_not_ranked(tmp_path: Path) -> None:
    """A policy that puts them first, and orders the others as they should be, is right."""
    config = PrepareConfig(negatives=2)
    prepare(generate(PRESETS["tiny"], seed=1)[1], config, tmp_path / "data")
    data = SlateData.open(tmp_path / "data")

    class FavoursSampled:
        def relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
            (slates,) = (each for each in batches if torch.equal(each.request.user_B, request.user_B))
            assert torch.equal(slates.slate_BK, slate_BK)
            assert slates.is_sampled_BK is not None
            return slates.item_reward_BK + 100 * slates.is_sampled_BK

    order = torch.randperm(len(data.split("test")), generator=torch_generator(0, "evaluation/log"))
    batches = [data.slates(part) for part in data.split("test")[order].split(32)]
    row = evaluate_on_log(FavoursSampled(), data, batch_size=32)  # type: ignore[arg-type]
    assert row["r_ndcg"] == pytest.approx(1, abs=1e-6)
    full = [each.without_sampled(each.item_reward_BK) for each in batches if len(each.slate_BK) == 32]
    assert full[0].shape == (32, 4)
    # Pairs of a batch are ranked at each position by the reward itself; tied ones share the mean of their discounts.
    means = []
    for reward_BK in full:
        for reward_B in reward_BK.T:
            values, total = sorted(reward_B.tolist(), reverse=True), 0.0
            for value in values:
                ranks = [rank for rank, other in enumerate(values, 1) if other == value]
                total += value * sum(1 / rank for rank in ranks) / len(ranks)
            means.append(total / 32)
    assert row["r_mrr"] == pytest.approx(sum(means) / len(means), rel=1e-6)

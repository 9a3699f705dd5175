"""Rank correlation by hand, and which slates are scored for whom."""

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation.scores import evaluate_scores, rank_correlation
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from tests.simulator.conftest import FixedUsers


def test_rank_correlation_by_hand() -> None:
    one = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert rank_correlation(one, one.exp()) == pytest.approx(1.0)
    assert rank_correlation(one, -one.exp()) == pytest.approx(-1.0)
    # Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * (1 + 1 + 1 + 1) / (4 * 15)
    assert rank_correlation(one, torch.tensor([0.2, 0.1, 9.0, 7.0])) == pytest.approx(0.6)
    assert rank_correlation(one, torch.ones(4)) is None
    assert rank_correlation([1, 2], [1, 2]) is None
    # Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * 4 / (5 * 24).
    assert rank_correlation([10, 20, 30, 40, 50], [0.2, 0.1, 7, 3, 99]) == pytest.approx(0.8)


def test_slates_are_scored_for_those_who_see_them(data: SlateData, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that knows the truth agrees with it; random, logged and generated slates take turns."""
    config = EnvironmentConfig(num_users=16, slate_size=data.slate_size, rho=0.1)
    environment = UserEnvironment(data, FixedUsers(data), config, seed=0)
    policy = build_policy("popularity", Catalogue.of(data))
    asked: list[tuple[Request, Tensor]] = []

    def truth(request: Request, slate_BK: Tensor) -> Tensor:
        asked.append((request, slate_BK))
        return 3 * environment.expected_rewards(request, slate_BK)

    monkeypatch.setattr(policy, "score", truth)
    agreement = evaluate_scores(policy, environment, data, num_batches=2, seed=0)
    assert list(agreement) == ["random", "logged", "generated"]
    for row in agreement.values():
        assert row["slates"] == 32
        assert row["rank_correlation"] == pytest.approx(1.0)
        assert row["score"] == pytest.approx(3 * row["expected_reward"])  # type: ignore[operator]

    logged = {
        (int(each.request.user_B), *each.request.history_BH[0].tolist(), *each.slate_BK[0].tolist())
        for each in (data.slates(slate[None]) for slate in data.split("test"))
    }
    for request, slate_BK in asked[1::3]:
        for user, history, slate in zip(request.user_B, request.history_BH, slate_BK, strict=True):
            assert (int(user), *history.tolist(), *slate.tolist()) in logged
    assert not torch.equal(asked[1][1], asked[4][1])
    random, generated, later = asked[0], asked[2], asked[3]
    assert torch.equal(random[0].history_BH, generated[0].history_BH)
    assert torch.equal(later[0].history_BH[:, -data.slate_size :], generated[1])  # they have seen it by then
    assert not torch.equal(random[1], generated[1])


def test_a_log_without_test_slates(data: SlateData, monkeypatch: pytest.MonkeyPatch) -> None:
    config = EnvironmentConfig(num_users=4, slate_size=data.slate_size, rho=0.1)
    environment = UserEnvironment(data, FixedUsers(data), config, seed=0)
    policy = build_policy("popularity", Catalogue.of(data))
    monkeypatch.setattr(policy, "score", environment.expected_rewards)
    monkeypatch.setattr(data, "split", lambda _: torch.empty(0, dtype=torch.int64))
    assert list(evaluate_scores(policy, environment, data, num_batches=1, seed=0)) == ["random", "generated"]

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
        assert row["requests"] == 32
        assert row["rank_correlation"] == pytest.approx(1.0)
        assert row["within_request"] == pytest.approx(1.0)
        assert row["score"] == pytest.approx(3 * row["expected_reward"])  # type: ignore[operator]

    logged = {
        (int(each.request.user_B), *each.request.history_BH[0].tolist(), *each.slate_BK[0].tolist())
        for each in (data.slates(slate[None]) for slate in data.split("test"))
    }
    assert [row["slates"] for row in agreement.values()] == [32 * 20, 32 * 16, 32 * 20]
    own = asked[20], asked[56 + 20]
    for request, slate_BK in own:
        for user, history, slate in zip(request.user_B, request.history_BH, slate_BK, strict=True):
            assert (int(user), *history.tolist(), *slate.tolist()) in logged
    for shift, (request, slate_BK) in enumerate(asked[20:36]):  # and those of all others of the batch
        assert torch.equal(request.history_BH, own[0][0].history_BH)
        assert torch.equal(slate_BK, own[0][1].roll(shift, dims=0))
    assert not torch.equal(own[0][1], own[1][1])
    random, generated, later = asked[0], asked[36], asked[56]
    assert torch.equal(random[0].history_BH, generated[0].history_BH)
    assert torch.equal(later[0].history_BH[:, -data.slate_size :], generated[1])  # they have seen it by then
    assert not torch.equal(random[1], generated[1])


def test_whoever_knows_the_user_alone_agrees_over_all_slates_and_not_within_a_request(
    data: SlateData, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = EnvironmentConfig(num_users=16, slate_size=data.slate_size, rho=0.1)
    environment = UserEnvironment(data, FixedUsers(data), config, seed=0)
    policy = build_policy("popularity", Catalogue.of(data))
    monkeypatch.setattr(policy, "score", lambda request, _: request.user_B.double())
    monkeypatch.setattr(
        environment, "expected_rewards", lambda request, slate_BK: 1e6 * request.user_B.double() + slate_BK[:, 0]
    )
    row = evaluate_scores(policy, environment, data, num_batches=1, seed=0)["random"]
    assert (row["rank_correlation"] or 0.0) > 0.95
    assert row["within_request"] is None
    monkeypatch.setattr(policy, "score", lambda request, slate_BK: -1e6 * request.user_B.double() + slate_BK[:, 0])
    row = evaluate_scores(policy, environment, data, num_batches=1, seed=0)["random"]
    assert (row["rank_correlation"] or 0.0) < -0.9
    assert row["within_request"] == pytest.approx(1.0)


def test_a_log_without_test_slates(data: SlateData, monkeypatch: pytest.MonkeyPatch) -> None:
    config = EnvironmentConfig(num_users=4, slate_size=data.slate_size, rho=0.1)
    environment = UserEnvironment(data, FixedUsers(data), config, seed=0)
    policy = build_policy("popularity", Catalogue.of(data))
    monkeypatch.setattr(policy, "score", environment.expected_rewards)
    assert list(evaluate_scores(policy, environment, data, num_batches=1, seed=0)) == ["random", "logged", "generated"]
    settings = data.manifest.settings.model_copy(update={"negatives": 1})  # some items of logged slates were sampled
    with monkeypatch.context() as sampled:
        sampled.setattr(data, "manifest", data.manifest.model_copy(update={"settings": settings}))
        assert list(evaluate_scores(policy, environment, data, num_batches=1, seed=0)) == ["random", "generated"]
    monkeypatch.setattr(data, "split", lambda _: torch.empty(0, dtype=torch.int64))
    assert list(evaluate_scores(policy, environment, data, num_batches=1, seed=0)) == ["random", "generated"]

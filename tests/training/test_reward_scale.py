"""The scale of the reward is the largest that costs no measurable recall on validation slates."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation.held_out_protocol import HeldOut, recommend_before
from gfn4rec.policies.gfn_prior import PriorGFN
from gfn4rec.training import reward_scale
from gfn4rec.training.reward_scale import SCALES, choose_reward_scale, largest_good
from tests.training.conftest import new_policy, small_settings


def recalls(mean: float) -> Tensor:
    """A hundred slates with this mean and a standard deviation of 0.2: the standard error is 0.02."""
    return torch.tensor([mean - 0.2, mean + 0.2]).repeat(50)


@pytest.mark.parametrize(
    ("means", "chosen"),
    [
        ((0.50, 0.40, 0.30), 0.5),
        ((0.50, 0.49, 0.30), 1.0),
        ((0.50, 0.47, 0.49), 2.0),
        ((0.50, 0.479, 0.30), 0.5),
        ((0.30, 0.40, 0.50), 2.0),
    ],
)
def test_the_largest_scale_within_one_standard_error_of_the_best(means: tuple[float, ...], chosen: float) -> None:
    assert largest_good({scale: recalls(mean) for scale, mean in zip((0.5, 1.0, 2.0), means, strict=True)}) == chosen


def test_the_scale_is_chosen_on_validation_slates(data: SlateData, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = new_policy(data, small_settings("gfn-prior", "offline"))
    assert isinstance(policy, PriorGFN)
    policy.scale.fill_(9.0)
    seen: list[tuple[float, float]] = []

    def recalls_at(policy: PriorGFN, tests: HeldOut, scale: float) -> Tensor:
        assert set(tests.slate_B.tolist()) <= set(data.split("val").tolist())
        seen.append((scale, float(policy.scale)))
        return recalls(0.5 if scale <= 3 else 0.3)

    monkeypatch.setattr(reward_scale, "_recalls", recalls_at)
    choose_reward_scale(policy, data)
    assert seen == [(scale, 1.0) for scale in SCALES]
    assert float(policy.scale) == 3.0


def test_a_scale_that_is_given_stays(data: SlateData) -> None:
    policy = new_policy(data, small_settings("gfn-prior", "offline", {"reward_scale": 4.5}))
    choose_reward_scale(policy, data)
    assert isinstance(policy, PriorGFN)
    assert float(policy.scale) == 4.5


@pytest.mark.parametrize("has_slates", [True, False])
def test_without_a_slate_that_can_judge_the_scale_stays(
    has_slates: bool, data: SlateData, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, tests = new_policy(data, small_settings("gfn-prior", "offline")), HeldOut.of(data, split="val")
    assert isinstance(policy, PriorGFN)
    assert tests is not None
    nothing = replace(tests, relevant_BK=torch.zeros_like(tests.relevant_BK)) if has_slates else None
    monkeypatch.setattr(HeldOut, "of", lambda *_, **__: nothing)
    policy.scale.fill_(2.0)
    choose_reward_scale(policy, data)
    assert float(policy.scale) == 2.0


def test_a_recall_is_the_share_of_the_relevant_items_that_were_found(data: SlateData) -> None:
    policy, tests = new_policy(data, small_settings("gfn-prior", "offline")), HeldOut.of(data, split="val")
    assert tests is not None
    recall_B = reward_scale._recalls(policy, tests, 1.0)
    assert len(recall_B) == int((tests.count_relevant() > 0).sum()) > 10
    assert ((recall_B >= 0) & (recall_B <= 1)).all()
    by_hand = recommend_before(policy, tests)
    assert float(recall_B.mean()) == pytest.approx(reward_scale_by_hand(by_hand.slate_BK, tests))


def reward_scale_by_hand(slate_BK: Tensor, tests: HeldOut) -> float:
    shares = []
    for shown, relevant in zip(slate_BK.tolist(), tests.relevant_BK.tolist(), strict=True):
        wanted = {item for item in relevant if item}
        if wanted:
            shares.append(len(wanted & set(shown)) / len(wanted))
    return sum(shares) / len(shares)

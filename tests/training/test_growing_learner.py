"""A learner whose policy grows: old items go on learning as before, new ones begin with nothing."""

import copy

import pytest
import torch

from gfn4rec.policies import POLICIES
from gfn4rec.policies.base import Policy
from gfn4rec.schema import FeatureTensors, SlateBatch
from gfn4rec.training.online_learner import OnlineLearner, OnlineLearnerConfig
from tests.small_catalogue import make_batch, make_catalogue, make_policy

OLD, NEW = 12, 19
CONFIG = OnlineLearnerConfig(learning_batch=8, learning_rate=0.01)
LEARNED = [name for name, policy in POLICIES.items() if policy.is_learned]
NONE = FeatureTensors({}, {}, {}, {})


def new_learner(name: str) -> tuple[OnlineLearner, SlateBatch]:
    """Return a learner that has learned, and what it has observed."""
    catalogue = make_catalogue(num_items=OLD)
    settings = {"ranker": {"first_steps": 1}} if name in ("rerank-cf", "prm", "gfn-rerank") else {}
    policy = make_policy(name, catalogue, settings)
    learner, batch = OnlineLearner(policy, CONFIG), make_batch(catalogue, 24)
    learner.observe(batch.request, batch.slate_BK, batch.response_BKR)
    for _ in range(3):
        learner.learn()
    return learner, batch


def grow(learner: OnlineLearner) -> None:
    learner.grow(learner.policy.catalogue.with_items(NEW, NONE))


@pytest.mark.parametrize("name", LEARNED)
def test_the_state_of_the_optimiser_grows_with_the_weights(name: str) -> None:
    learner, _ = new_learner(name)
    before = {part: copy.deepcopy(values) for part, values in learner.state_dict().items()}
    weights = {key: weight.clone() for key, weight in learner.policy.state_dict().items()}
    grow(learner)
    state = learner.state_dict()
    assert learner.num_learned == 3
    assert [values.keys() for values in state.values()] == [values.keys() for values in before.values()]
    num_grown = 0
    for part, values in before.items():
        for key, value in values.items():
            later = state[part][key]
            if value.shape != later.shape:
                num_grown += 1
                assert (len(value), len(later)) == (OLD + 1, NEW + 1), key
                assert not later[OLD + 1 :].any()
            assert torch.equal(value, later[: len(value)] if value.dim() else later), key
    num_tables = sum(weight.shape != learner.policy.state_dict()[key].shape for key, weight in weights.items())
    assert num_grown % 2 == 0 < num_grown <= 2 * num_tables  # both moments of every table that learns
    metrics = learner.learn()
    assert metrics["loss"] == metrics["loss"]


def test_old_items_learn_as_without_growth() -> None:
    """CF's loss compares no items, so that other items make no difference."""
    (plain, _), (growing, _) = new_learner("cf"), new_learner("cf")
    grow(growing)
    for _ in range(4):
        assert growing.learn()["loss"] == pytest.approx(plain.learn()["loss"], rel=1e-5)
    later = growing.policy.state_dict()
    for key, weight in plain.policy.state_dict().items():
        torch.testing.assert_close(later[key][: len(weight)], weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LEARNED)
def test_a_new_item_learns_once_it_has_been_shown(name: str) -> None:
    learner, batch = new_learner(name)
    grow(learner)
    policy = learner.policy
    assert not any(bool(rows.any()) for rows in new_rows(policy))
    slate_BK = batch.slate_BK.clone()
    slate_BK[:, 0] = NEW  # the last of the new ones
    learner.observe(batch.request, slate_BK, batch.response_BKR)
    for _ in range(3):
        learner.learn()
    assert policy is learner.policy
    assert any(bool(rows[-1].any()) for rows in new_rows(policy))


def new_rows(policy: Policy) -> list[torch.Tensor]:
    """Return what weights have of new items."""
    return [weight[OLD + 1 :] for weight in policy.state_dict().values() if weight.dim() and len(weight) == NEW + 1]

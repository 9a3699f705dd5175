"""Online learning without an environment: feedback arrives from anywhere, in any portions."""

import math
from typing import Any

import pytest
import torch

from gfn4rec.errors import UserError
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Request, SlateBatch
from gfn4rec.training.online_learner import OnlineLearner, OnlineLearnerConfig
from tests.small_catalogue import make_batch, make_catalogue, make_policy

CATALOGUE = make_catalogue(num_items=8)


def new_learner(num_steps: int | None = None, **settings: Any) -> OnlineLearner:
    values = {"learning_batch": 8, "buffer_size": 20, "learning_rate": 0.01, **settings}
    return OnlineLearner(make_policy("gfn", CATALOGUE), OnlineLearnerConfig.parse(values, "test"), num_steps=num_steps)


def observe(learner: OnlineLearner, batch: SlateBatch, one_at_a_time: bool = False) -> None:
    rows = [slice(row, row + 1) for row in range(len(batch.slate_BK))] if one_at_a_time else [slice(None)]
    for row in rows:
        learner.observe(batch.request[row], batch.slate_BK[row], batch.response_BKR[row])


def weights_of(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in policy.state_dict().items()}


def assert_same_weights(one: Policy, other: Policy) -> None:
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name]), name


def test_slates_may_be_observed_one_at_a_time() -> None:
    together, single = new_learner(), new_learner()
    for step in range(4):  # more than the buffer holds
        batch = make_batch(CATALOGUE, 7, seed=step)
        observe(together, batch)
        observe(single, batch, one_at_a_time=True)
        assert together.learn() == single.learn()
    assert_same_weights(together.policy, single.policy)
    assert together.num_learned == single.num_learned == 4


def test_a_learner_lowers_the_loss_of_what_it_observed() -> None:
    learner = new_learner(learning_steps=3, newest_share=1.0)
    observe(learner, make_batch(CATALOGUE, 8))
    losses: list[Any] = [learner.learn()["loss"] for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    assert learner.num_learned == 60


@pytest.mark.parametrize("num_steps", [None, 10])
def test_a_restored_learner_continues_as_if_undisturbed(num_steps: int | None) -> None:
    """All of it is restored: replay, optimiser, schedule and generators. The two share nothing afterwards."""
    settings = {"schedule": "cosine", "newest_window": 3}
    first, second = new_learner(num_steps, **settings), new_learner(num_steps, **settings)
    for step in range(4):
        observe(first, make_batch(CATALOGUE, 7, seed=step))
        first.learn()
    second.policy.load_state_dict(weights_of(first.policy))
    second.load_state_dict(first.state_dict())
    lines = []
    for learner in (first, second):
        observe(learner, make_batch(CATALOGUE, 7, seed=9))
        lines.append([learner.learn() for _ in range(3)])
    assert lines[0] == lines[1]
    assert_same_weights(first.policy, second.policy)
    assert first.num_learned == second.num_learned == 7


def test_the_learning_rate_is_constant_without_a_number_of_steps() -> None:
    rates = []
    for num_steps in (None, 4):
        learner = new_learner(num_steps, schedule="cosine", final_share=0.1)
        observe(learner, make_batch(CATALOGUE, 8))
        for _ in range(5):
            learner.learn()
        rates.append(learner._learner.learning_rate())
    assert rates == pytest.approx([0.01, 0.001])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slate_BK": lambda values: values + 8}, "shows item .*, which is not in the catalogue; ids run from 1 to 8"),
        ({"slate_BK": lambda values: values[:, :1].expand(-1, 3)}, "slate 0 shows item . twice"),
        ({"slate_BK": lambda values: values[:, :2]}, r"slates of shape \(4, 2\), but \(4, 3\) is expected"),
        ({"slate_BK": lambda values: values[:1]}, r"slates of shape \(1, 3\), but \(4, 3\) is expected"),
        ({"response_BKR": lambda values: values[:, :, :1]}, r"responses to slates have shape \(4, 3, 1\); \(4, 3, 2\)"),
        ({"response_BKR": lambda values: values * 0.7}, "a response to slates is 0.7; responses are 0 or 1"),
        ({"response_BKR": lambda values: values * math.nan}, "a response to slates is nan; responses are 0 or 1"),
        ({"response_BHR": lambda values: values[:, :, :1]}, "responses to histories have shape"),
        ({"response_BHR": lambda values: values * 2}, "a response to histories is 2; responses are 0 or 1"),
        ({"user_B": lambda values: values + 2}, "user 3: ids run from 1 to 2, and 0 is unknown"),
        ({"history_BH": lambda values: values - 1}, "item of a history -1: ids run from 1 to 8"),
        (
            {"history_BH": lambda values: values[:, :1], "response_BHR": lambda values: values[:, :1]},
            r"a history of shape \(1,\); the ones before have \(5,\), and all must be alike",
        ),
    ],
)
def test_feedback_that_cannot_be_learned_from_is_refused(change: Any, message: str) -> None:
    """One line, and nothing of it is remembered: the learner goes on as if it had not been given."""
    learner, undisturbed = new_learner(buffer_size=4), new_learner(buffer_size=4)
    good, other = make_batch(CATALOGUE, 4), make_batch(CATALOGUE, 4, seed=1)
    for each in (learner, undisturbed):
        observe(each, good)
    given = {
        "user_B": other.request.user_B,
        "history_BH": other.request.history_BH,
        "response_BHR": other.request.response_BHR,
        "slate_BK": other.slate_BK,
        "response_BKR": other.response_BKR,
    }
    values = {name: change[name](tensor) if name in change else tensor for name, tensor in given.items()}
    request = Request(values["user_B"], values["history_BH"], values["response_BHR"])
    with pytest.raises(UserError, match=message) as caught:
        learner.observe(request, values["slate_BK"], values["response_BKR"])
    assert "\n" not in str(caught.value)
    assert learner.learn() == undisturbed.learn()


def test_responses_may_be_truth_values() -> None:
    numbers, truths = new_learner(), new_learner()
    batch = make_batch(CATALOGUE, 8)
    observe(numbers, batch)
    truths.observe(batch.request, batch.slate_BK, batch.response_BKR.bool())
    assert numbers.learn() == truths.learn()


def test_nothing_can_be_learned_before_feedback_or_by_a_policy_without_weights() -> None:
    with pytest.raises(UserError, match="the replay buffer is empty; nothing can be learned yet"):
        new_learner().learn()
    learner = OnlineLearner(make_policy("popularity", CATALOGUE), OnlineLearnerConfig())
    observe(learner, make_batch(CATALOGUE, 4))
    with pytest.raises(UserError, match="a Popularity has nothing to learn"):
        learner.learn()

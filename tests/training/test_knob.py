"""One model, the whole way from diverse to greedy."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from gfn4rec.evaluation.protocol import evaluate_in_simulator
from gfn4rec.evaluation.scores import evaluate_scores
from gfn4rec.schema import Sampling
from gfn4rec.training.group import Group
from gfn4rec.training.online import train_online
from gfn4rec.training.opened_run import Users
from gfn4rec.training.run import Run
from tests.training.conftest import new_policy, small_settings

LONG = {"num_steps": 300, "warmup_steps": 10, "evaluate_every": 300, "checkpoint_every": 300, "final_batches": 1}


def test_a_greedier_setting_earns_more_and_shows_less(users: Users, new_run: Callable[..., Run]) -> None:
    run = new_run(small_settings("gfn-energy", changes=LONG | {"beta": 20.0, "learning_rate": 5e-3}))
    policy = new_policy(users.data, run.manifest.settings)
    train_online(run, policy, users, Group())
    environment = users.environment(seed=1)
    points = [
        evaluate_in_simulator(policy, environment, Sampling(greediness=each), num_batches=40, seed=1)
        for each in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    for milder, greedier in pairwise(points):
        assert milder["expected_reward"] < greedier["expected_reward"]
        assert milder["coverage"] > greedier["coverage"]

    agreement = evaluate_scores(policy, environment, users.data, num_batches=10, seed=1)
    assert set(agreement) == {"random", "logged", "generated"}
    for found in agreement.values():
        assert (found["within_request"] or 0.0) > 0.9
        assert found["score"] == pytest.approx(found["expected_reward"], abs=0.03)

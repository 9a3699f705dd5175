"""The online loop: it learns, it repeats itself, and an interruption changes nothing."""

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gfn4rec.errors import RunError, UserError
from gfn4rec.policies import POLICIES
from gfn4rec.policies.base import Loss, Policy
from gfn4rec.schema import Sampling
from gfn4rec.training import online_learner
from gfn4rec.training.config import OnlineConfig
from gfn4rec.training.group import Group
from gfn4rec.training.online import OnlineState, train_online
from gfn4rec.training.opened_run import Users
from gfn4rec.training.run import Run, RunResults
from tests.training.conftest import new_policy, small_settings

NewRun = Callable[..., Run]


def untimed(value: Any) -> Any:
    """Without what a clock measured."""
    if isinstance(value, RunResults):
        return untimed(value.as_dict())
    if isinstance(value, dict):
        return {key: untimed(each) for key, each in value.items() if key != "seconds"}
    return [untimed(each) for each in value] if isinstance(value, list) else value


def train(run: Run, users: Users, **more: Any) -> Any:
    return train_online(run, new_policy(users.data, run.settings), users, **more)


@pytest.mark.parametrize("name", list(POLICIES))
def test_training_twice_gives_equal_figures(name: str, users: Users, new_run: NewRun) -> None:
    runs = [new_run(small_settings(name), f"run{number}") for number in range(2)]
    results = [train(run, users) for run in runs]
    assert results[0] is not None
    assert untimed(results[0]) == untimed(results[1]) == untimed(runs[0].results)
    assert untimed(runs[0].metrics()) == untimed(runs[1].metrics())
    steps = [line["step"] for line in runs[0].metrics() if "reward" in line]
    assert steps == list(range(1, 13))
    assert [line["step"] for line in runs[0].metrics() if "greedy" in line] == [0, 1, 2, 3, 4, 5, 10, 12]
    has_learned = ["loss" in line for line in runs[0].metrics() if "reward" in line]
    assert has_learned == [False] * 2 + [POLICIES[name].is_learned] * 10


@pytest.mark.parametrize("name", ["gfn", "gfn-energy", "prm", "list-cvae"])
def test_going_on_after_an_interruption_changes_nothing(name: str, users: Users, new_run: NewRun) -> None:
    """Asked to end in the middle, with dropout and every generator at work."""
    changes = {"encoder.dropout": 0.2, "epsilon": 0.1} | ({"ranker.first_steps": 3} if name == "prm" else {})
    settings = small_settings(name, changes=changes)
    whole, parts = new_run(settings, "whole"), new_run(settings, "parts")
    expected = train(whole, users)
    for stop_at in (3, 7, 8):

        def interrupt(step: int, _: dict[str, float], stop_at: int = stop_at) -> None:
            if step == stop_at:
                os.kill(os.getpid(), signal.SIGINT)

        assert train(parts, users, report=interrupt) is None
        checkpoint = parts.load_checkpoint()
        assert checkpoint is not None
        assert checkpoint.step == stop_at
    assert untimed(train(parts, users)) == untimed(expected)
    assert untimed(parts.metrics()) == untimed(whole.metrics())


@pytest.mark.parametrize("num_steps", [12, 130])
def test_the_last_hundred_steps_are_averaged(num_steps: int, users: Users, new_run: NewRun) -> None:
    run = new_run(small_settings("random", changes={"num_steps": num_steps, "evaluate_every": 50}))
    results = train(run, users)
    assert results is not None
    rewards: list[Any] = [line["reward"] for line in run.metrics() if "reward" in line]
    assert len(rewards) == num_steps
    last = rewards[-100:]
    assert results.last_steps["reward"] == pytest.approx(sum(last) / len(last))


class BrokenError(Exception):
    """Stands for a bug in the middle of a step."""


def test_a_run_that_died_before_its_first_checkpoint_begins_anew(
    users: Users, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, whole = new_run(small_settings("cf"), "run"), new_run(small_settings("cf"), "whole")
    train(whole, users)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save_checkpoint", die)
        with pytest.raises(KeyboardInterrupt):
            train(run, users)
    assert run.metrics()
    train(run, users)
    assert untimed(run.metrics()) == untimed(whole.metrics())


def test_metrics_after_the_last_checkpoint_are_made_anew(users: Users, new_run: NewRun) -> None:
    settings = small_settings("gfn")
    whole, parts = new_run(settings, "whole"), new_run(settings, "parts")
    expected = train(whole, users)

    def fail(step: int, _: dict[str, float]) -> None:
        if step == 6:
            raise BrokenError

    with pytest.raises(BrokenError):
        train(parts, users, report=fail)
    with (parts.directory / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "reward": 99.0}\n{"step": 6, "rew')  # what a killed process may leave
    assert untimed(train(parts, users)) == untimed(expected)
    assert untimed(parts.metrics()) == untimed(whole.metrics())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_a_number_stops_the_run(
    value: float, users: Users, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(small_settings("cf"))
    policy = new_policy(users.data, run.manifest.settings)
    calls: list[int] = []
    proper = policy.loss

    def poisoned(*arguments: Any) -> Loss:
        calls.append(1)
        made = proper(*arguments)
        return Loss(made.loss * value, made.terms) if len(calls) == 4 else made

    monkeypatch.setattr(policy, "loss", poisoned)
    with pytest.raises(RunError, match=f"the loss is {value} at step 6; the batch is in stopped-batch.safetensors"):
        train_online(run, policy, users, Group())
    assert load_file(run.directory / "stopped-batch.safetensors")["slate"].shape == (32, 6)
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.step == 4


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if policy.is_learned])
def test_weights_that_grow_beyond_all_bounds_are_told_in_one_line(name: str, users: Users, new_run: NewRun) -> None:
    """Gradients stay finite; scores do not, and no slate can be drawn from them, or no loss computed."""
    run = new_run(small_settings(name, changes={"learning_rate": 1e25}))
    with pytest.raises(RunError, match=r"lower learning_rate$") as told:
        train(run, users)
    assert "\n" not in str(told.value)


def test_a_gradient_that_is_not_a_number_stays_out_of_the_weights(
    users: Users, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss alone does not show it: the slope of a root is infinite at 0."""
    run = new_run(small_settings("cf"))
    policy = new_policy(users.data, run.manifest.settings)
    proper = policy.loss

    def poisoned(*arguments: Any) -> Loss:
        made = proper(*arguments)
        return Loss(made.loss + (made.loss - made.loss).sqrt(), made.terms)

    monkeypatch.setattr(policy, "loss", poisoned)
    with pytest.raises(RunError, match="the norm of the gradient is nan at step 3; the batch is in stopped-batch"):
        train_online(run, policy, users, Group())
    assert all(torch.isfinite(weight).all() for weight in policy.parameters())


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if policy.is_learned])
def test_each_learning_policy_beats_random(name: str, users: Users, new_run: NewRun) -> None:
    """Three hundred steps: greedy slates earn half as much again as random ones; ListCVAE's no less than those."""
    long = {"num_steps": 300, "warmup_steps": 10, "evaluate_every": 300, "checkpoint_every": 300, "final_batches": 20}
    changes: dict[str, Any] = long | {"learning_rate": 5e-3}
    changes |= {"ranker.first_steps": 30} if name in ("prm", "gfn-rerank") else {}
    changes |= {"beta": 1.0} if name == "list-cvae" else {}
    changes |= {"reward_scale": 10.0} if name == "gfn-prior" else {}
    results = train(new_run(small_settings(name, changes=changes), name), users)
    chance = train(new_run(small_settings("random", changes={"num_steps": 1, "final_batches": 20}), "random"), users)
    assert results is not None
    assert chance is not None
    margin = 1.0 if name == "list-cvae" else 1.5
    assert results.greedy["expected_reward"] >= margin * chance.sampled["expected_reward"]


KILLED = """
import sys
from pathlib import Path
from gfn4rec.data.dataset import SlateData
from gfn4rec.simulator.environment import EnvironmentConfig
from gfn4rec.training.online import train_online
from gfn4rec.training.opened_run import Users
from gfn4rec.training.run import Run
from tests.simulator.conftest import FixedUsers
from tests.training.conftest import new_policy
import torch
torch.set_num_threads(1)
data = SlateData.open(Path(sys.argv[2]), 10)
users = Users(data, FixedUsers(data), EnvironmentConfig(num_users=16, slate_size=6, rho=0.1))
run = Run.open(Path(sys.argv[1]))
print("ready", flush=True)
train_online(run, new_policy(data, run.settings), users, report=lambda step, _: print(step, flush=True))
"""


def test_a_killed_run_goes_on_as_if_it_had_not_been(data_folder: Path, users: Users, new_run: NewRun) -> None:
    """Ten times `kill -9`, at moments drawn from a seed: between steps, in a step, while a checkpoint is written."""
    settings = small_settings("gfn", changes={"num_steps": 60, "checkpoint_every": 3, "evaluate_every": 20})
    whole, killed = new_run(settings, "whole"), new_run(settings, "killed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    expected = train(whole, users)
    torch.set_num_threads(threads)
    draw = random.Random(0)
    command = [sys.executable, "-c", KILLED, str(killed.directory), str(data_folder)]
    for number in range(11):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert process.stdout is not None
        if number < 10:
            for _ in range(draw.randint(1, 8)):
                process.stdout.readline()
            time.sleep(draw.random() * 0.02)  # a moment inside a step, not a wait for anything
            process.kill()
        process.communicate()
        if killed.results is not None:
            break
    assert killed.results is not None
    assert untimed(killed.results) == untimed(expected)
    assert untimed(killed.metrics()) == untimed(whole.metrics())


def test_learning_settings_are_used(users: Users, new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"learning_steps": 3, "learning_batch": 20, "epsilon": 0.5, "temperature": 2.0}
    run = new_run(small_settings("cf", changes=changes))
    policy, sizes, samplings = new_policy(users.data, run.settings), list[int](), list[Sampling]()
    proper, recommend = policy.loss, Policy.recommend
    monkeypatch.setattr(policy, "loss", lambda batch, *rest: sizes.append(len(batch.slate_BK)) or proper(batch, *rest))  # type: ignore[func-returns-value]

    def watched(request: Any, generator: Any, sampling: Sampling, candidates: Any = None) -> Any:
        samplings.append(sampling)
        return recommend(policy, request, generator, sampling, candidates)

    monkeypatch.setattr(policy, "recommend", watched)
    train_online(run, policy, users, Group())
    assert sizes == [20] * 30
    assert Sampling(temperature=2.0, epsilon=0.5) in samplings


def test_a_batch_that_does_not_divide_is_told(users: Users, new_run: NewRun) -> None:
    run = new_run(small_settings("cf"))
    with pytest.raises(UserError, match="num_users 16 is not divisible by the 3 processes"):
        train_online(run, new_policy(users.data, run.manifest.settings), users, Group(0, 3))
    settings = small_settings("cf", changes={"learning_batch": 17})
    config = settings.training
    assert isinstance(config, OnlineConfig)
    with pytest.raises(UserError, match="learning_batch 17 is not divisible by the 2 processes"):
        OnlineState(new_policy(users.data, settings), users, config, 0, Group(0, 2))


def test_each_process_has_users_of_its_own(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online_learner, "Learner", lambda *_: None)  # which would look for the other process
    settings = small_settings("cf")
    config = settings.training
    assert isinstance(config, OnlineConfig)
    met = [
        OnlineState(new_policy(users.data, settings), users, config, 0, Group(rank, 2)).environment.request.user_B
        for rank in (0, 1, 0)
    ]
    assert not torch.equal(met[0], met[1])
    assert torch.equal(met[0], met[2])

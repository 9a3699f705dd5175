"""How weights change: schedule, clipping, and two processes as one."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gfn4rec.training.learner import Learner, LearnerConfig
from tests.small_catalogue import SMALL_ENCODER, make_batch, make_catalogue, make_policy


def new_learner(num_steps: int | None = 100, **settings: object) -> Learner:
    policy = make_policy("gfn", make_catalogue(), unknown_user_share=0.0)
    return Learner(policy, LearnerConfig.parse(settings, "test"), num_steps=num_steps)


def test_the_cosine_falls_from_all_to_its_final_share() -> None:
    learner = new_learner(100, learning_rate=0.2, schedule="cosine", final_share=0.1)
    rates = []
    for learner.step in (0, 50, 100, 150):
        rates.append(learner.learning_rate())
    assert rates == pytest.approx([0.2, 0.2 * (0.1 + 0.9 / 2), 0.02, 0.02])
    assert new_learner(learning_rate=0.2).learning_rate() == 0.2


def test_without_a_number_of_steps_the_learning_rate_is_constant() -> None:
    learner = new_learner(None, learning_rate=0.2, schedule="cosine")
    for learner.step in (0, 50, 10_000):
        assert learner.learning_rate() == 0.2


def test_each_step_is_made_at_the_rate_of_the_schedule() -> None:
    learner = new_learner(4, learning_rate=0.2, schedule="cosine", final_share=0.1)
    rates = []
    for _ in range(5):
        learner.learn(make_batch(learner.policy.catalogue, 8))
        rates.append(learner._optimizer.param_groups[0]["lr"])
    heights = [1, (1 + math.sqrt(0.5)) / 2, 1 / 2, (1 - math.sqrt(0.5)) / 2, 0]
    assert rates == pytest.approx([0.2 * (0.1 + 0.9 * height) for height in heights])


def test_the_schedule_of_some_modules_ends_after_a_share_of_the_steps() -> None:
    policy = make_policy("gfn-prior", make_catalogue(), unknown_user_share=0.0)
    config = LearnerConfig(learning_rate=0.2, schedule="cosine", final_share=0.1)
    learner = Learner(policy, config, num_steps=4, shares={"reward": 0.5})
    rates = []
    for _ in range(4):
        learner.learn(make_batch(policy.catalogue, 8))
        rates.append(
            {id(weight): group["lr"] for group in learner._optimizer.param_groups for weight in group["params"]}
        )
    for name, weight in policy.named_parameters():
        usual = [(1 + math.cos(math.pi * step / 4)) / 2 for step in range(4)]
        expected = [
            0.2 * (0.1 + 0.9 * height) for height in ([1, 1 / 2, 0, 0] if name.startswith("reward.") else usual)
        ]
        assert [rate[id(weight)] for rate in rates] == pytest.approx(expected), name


def test_weight_decay_adds_its_share_of_the_weights_to_the_gradient() -> None:
    """Adam's memory of a first gradient is 1 - beta_1 = 0.1 of it."""
    memories = []
    for weight_decay in (0.0, 0.5):
        learner = new_learner(weight_decay=weight_decay)
        weights = {weight: weight.detach().clone() for weight in learner.policy.parameters()}
        learner.learn(make_batch(learner.policy.catalogue, 8))
        state = learner._optimizer.state
        memories.append([(state[weight]["exp_avg"], weights[weight]) for weight in weights if weight in state])
    for (plain, weight), (decayed, _) in zip(*memories, strict=True):
        torch.testing.assert_close(decayed - plain, 0.1 * 0.5 * weight, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_each_step_drops_out_anew(dropout: float) -> None:
    """One batch and a rate too small to change a weight: only dropout tells one step from the next."""
    encoder = {**SMALL_ENCODER, "dropout": dropout}
    policy = make_policy("gfn", make_catalogue(), encoder=encoder, unknown_user_share=0.0)
    learner = Learner(policy, LearnerConfig(learning_rate=1e-30))
    batch = make_batch(policy.catalogue, 8)
    losses = [learner.learn(batch)["loss"] for _ in range(3)]
    assert len(set(losses)) == (3 if dropout else 1)


def test_a_long_gradient_is_shortened() -> None:
    """The first step of Adam has the learning rate's size, whatever the gradient; its memory of it does not."""
    learner = new_learner(clip_norm=1e-3)
    norm = learner.learn(make_batch(learner.policy.catalogue, 8))["gradient_norm"]
    assert isinstance(norm, float)
    assert norm > 1e-3
    total = sum(float(state["exp_avg"].square().sum()) for state in learner._optimizer.state.values())
    assert math.sqrt(total) == pytest.approx(0.1 * 1e-3, rel=1e-3)  # 1 - beta_1 of the clipped gradient


def test_learning_lowers_the_loss_and_counts_steps() -> None:
    learner = new_learner(learning_rate=1e-2)
    batch = make_batch(learner.policy.catalogue, 32)
    losses: list[float] = [learner.learn(batch)["loss"] for _ in range(60)]  # type: ignore[misc]
    assert losses[-1] < losses[0] / 4
    assert learner.step == 60


TWO = """
import sys
import torch
from gfn4rec.training.group import process_group
from gfn4rec.training.learner import Learner, LearnerConfig
from gfn4rec.schema import Request, SlateBatch
from tests.small_catalogue import make_batch, make_catalogue, make_policy
torch.set_num_threads(1)
with process_group("cpu") as group:
    policy = make_policy("gfn", make_catalogue(), unknown_user_share=0.0)
    learner = Learner(policy, LearnerConfig(learning_rate=1e-2), 20, 0, group)
    for step in range(20):
        whole = make_batch(policy.catalogue, 32, seed=step)
        part = slice(group.rank * 32 // group.size, (group.rank + 1) * 32 // group.size)
        asked, shown = whole.request, (whole.slate_BK, whole.response_BKR, whole.item_reward_BK, whole.reward_B)
        request = Request(asked.user_B[part], asked.history_BH[part], asked.response_BHR[part])
        learner.learn(SlateBatch(request, *(each[part] for each in shown)))
    if group.is_first:
        torch.save(policy.state_dict(), sys.argv[1])
"""


def test_two_processes_learn_what_one_does_with_the_whole_batch(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(TWO)
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    subprocess.run([*command, str(tmp_path / "two.pt")], check=True, cwd=root, env=environment, capture_output=True)
    subprocess.run([sys.executable, str(script), str(tmp_path / "one.pt")], check=True, cwd=root, env=environment)
    one, two = (torch.load(tmp_path / name, weights_only=True) for name in ("one.pt", "two.pt"))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=1e-5, rtol=1e-5, msg=name)

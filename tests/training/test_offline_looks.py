"""The offline loop's looks at the validation slates, and the final figures of the best one."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation.protocol import evaluate_on_log
from gfn4rec.policies.base import Loss, Policy
from gfn4rec.schema import SlateBatch
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.training import offline
from gfn4rec.training.config import OfflineConfig
from gfn4rec.training.group import Group
from gfn4rec.training.offline import OfflineState, train_offline
from gfn4rec.training.opened_run import Users
from gfn4rec.training.run import Checkpoint, Progress, Run, Validation
from tests.training.conftest import new_policy, small_settings
from tests.training.test_offline import train
from tests.training.test_online import untimed

NewRun = Callable[..., Run]
LOSSES = [5.0, 3.0, 4.0, 3.5, 3.2, 3.4, 3.3, 3.1]  # of steps 2, 4, ...: the lowest is that of step 4
BEST_AT_4 = {"num_steps": 16, "evaluate_every": 2, "patience": 3, "checkpoint_every": 100, "learning_rate": 0.01}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Begin the looks of a run, which find the losses written down."""

    def begin() -> None:
        losses = iter(LOSSES)
        monkeypatch.setattr(offline, "_validation_losses", lambda *_: {"": next(losses)})

    return begin


def checkpoint_of(run: Run) -> Checkpoint:
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None
    return checkpoint


def test_an_interruption_after_the_best_look_forgets_neither_it_nor_its_weights(
    data: SlateData, new_run: NewRun, script: Callable[[], None]
) -> None:
    def interrupt(step: int, _: dict[str, float]) -> None:
        if step == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    settings = small_settings("cf", "offline", BEST_AT_4)
    whole, parts = new_run(settings, "whole"), new_run(settings, "parts")
    script()
    expected = train(whole, data)
    script()
    assert train(parts, data, report=interrupt) is None
    found = train(parts, data)
    assert found is not None
    assert (found.step, found.best_step, found.validation_loss) == (10, 4, 3.0)
    assert untimed(found) == untimed(expected)
    for name, weight in checkpoint_of(whole).tensors["policy"].items():
        assert torch.equal(checkpoint_of(parts).tensors["policy"][name], weight), name


def test_before_the_first_look_a_checkpoint_has_the_weights_as_they_stand(data: SlateData, new_run: NewRun) -> None:
    def interrupt(step: int, _: dict[str, float]) -> None:
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    run = new_run(small_settings("cf", "offline", {"num_steps": 16, "evaluate_every": 8, "learning_rate": 0.01}))
    assert train(run, data, report=interrupt) is None
    tensors = checkpoint_of(run).tensors
    fresh = new_policy(data, run.manifest.settings).state_dict()
    assert any(not torch.equal(tensors["policy"][name], weight) for name, weight in fresh.items())
    assert all(torch.equal(tensors["policy"][name], weight) for name, weight in tensors["current"].items())


def test_the_final_figures_are_those_of_the_best_weights(
    data: SlateData, new_run: NewRun, script: Callable[[], None]
) -> None:
    run = new_run(small_settings("cf", "offline", BEST_AT_4))
    script()
    results = train(run, data)
    assert results is not None
    policy, figures = new_policy(data, run.manifest.settings), {}
    for name in ("policy", "current"):  # after step 4, and after step 10
        policy.load_state_dict(checkpoint_of(run).tensors[name])
        figures[name] = evaluate_on_log(policy, data, batch_size=len(data.split("test")))
    assert results.test == figures["policy"]
    assert results.test != figures["current"]


def test_the_final_figures_come_from_users_before_the_test_slates(
    data: SlateData, users: Users, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, starts = Users.environment, list[torch.Tensor | None]()

    def watched(self: Users, seed: int, start_rows: torch.Tensor | None = None) -> UserEnvironment:
        starts.append(start_rows)
        return environment(self, seed, start_rows=start_rows)

    monkeypatch.setattr(Users, "environment", watched)
    train(new_run(small_settings("cf", "offline")), data, users)
    assert len(starts) == 1
    assert starts[0] is not None
    assert torch.equal(starts[0], data.first_rows(data.split("test")))


def looks(run: Run) -> dict[Any, Any]:
    """Validation losses by step."""
    return {line["step"]: line["validation_loss"] for line in run.metrics() if "validation_loss" in line}


def test_the_last_step_is_looked_at(data: SlateData, new_run: NewRun) -> None:
    run = new_run(small_settings("cf", "offline", {"num_steps": 7, "evaluate_every": 3}))
    train(run, data)
    assert list(looks(run)) == [3, 6, 7]


def test_each_look_draws_the_same_noise(data: SlateData, new_run: NewRun) -> None:
    """ListCVAE's loss has noise in it; the weights hardly move at this rate."""
    changes = {"num_steps": 3, "evaluate_every": 1, "learning_rate": 1e-30}
    run = new_run(small_settings("list-cvae", "offline", changes))
    train(run, data)
    first, *others = looks(run).values()
    assert others == pytest.approx([first] * 2, rel=1e-6)


@pytest.mark.parametrize(("most", "sizes"), [(4096, [50, 23]), (60, [50, 10])])
def test_the_validation_loss_is_the_mean_over_slates(
    most: int, sizes: list[int], data: SlateData, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all 73 validation slates, or of the first ones. Here the loss of a validation batch is its mean reward."""
    run = new_run(small_settings("cf", "offline", {"num_steps": 1, "validation_slates": most}))
    policy, looked_at = new_policy(data, run.manifest.settings), list[int]()
    proper = policy.loss

    def loss(batch: SlateBatch, *rest: Any) -> Loss:
        if torch.is_grad_enabled():
            return proper(batch, *rest)
        looked_at.append(len(batch.reward_B))
        return Loss(batch.reward_B.mean())

    monkeypatch.setattr(policy, "loss", loss)
    monkeypatch.setattr(offline, "_VALIDATION_BATCH", 50)
    train_offline(run, policy, data, None, Group())
    reward_B = data.slates(data.split("val")).reward_B[:most]
    assert looked_at == sizes
    assert looks(run)[1] == pytest.approx(float(reward_B.mean()), rel=1e-5)
    assert looks(run)[1] != pytest.approx(float(reward_B[:50].mean() + reward_B[50:].mean()) / 2, rel=1e-5)


def test_without_validation_slates_the_training_slates_are_looked_at(
    data: SlateData, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, policy = data.split, new_policy(data, small_settings("cf", "offline"))
    monkeypatch.setattr(data, "split", lambda name: split(name)[:0] if name == "val" else split(name))
    monkeypatch.setattr(policy, "loss", lambda batch, *_: Loss(batch.reward_B.mean()))
    config = OfflineConfig(validation_slates=90)
    reward_B = data.slates(split("train")[:90]).reward_B
    assert offline._validation_losses(policy, data, config)[""] == pytest.approx(float(reward_B.mean()), rel=1e-5)
    assert float(reward_B.mean()) != pytest.approx(float(data.slates(split("test")).reward_B.mean()), rel=1e-3)


# The reward model learns in the first 0.4 of 16 steps, so it is frozen after step 8, with the weights of step 4. The
# prior is best at step 8 and frozen after step 14, because patience is 3. From then on only the rest learns. Its losses
# up to there no longer count: step 16 is best.
PARTS = {
    "reward": [2.0, 1.0, 1.5, 1.4],
    "prior": [5.0, 4.5, 4.2, 4.0, 4.1, 4.4, 4.3],
    "": [0.1, 0.2, 0.3, 0.1, 0.1, 0.1, 0.1, 0.5],
}


def test_each_part_keeps_its_own_best_weights_and_is_frozen_when_it_no_longer_improves(
    data: SlateData, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small_settings("gfn-prior", "offline", {**BEST_AT_4, "reward_scale": 1.0, "evaluate_every": 2})
    seen = list[dict[str, torch.Tensor]]()

    def begin() -> None:
        losses, steps = {part: iter(values) for part, values in PARTS.items()}, iter(range(8))

        def validate(policy: Policy, *_: Any) -> dict[str, float]:
            number = next(steps)
            assert policy.frozen == {part for part, frozen_at in (("reward", 4), ("prior", 7)) if number >= frozen_at}
            seen.append({name: weight.clone() for name, weight in policy.state_dict().items()})
            return {part: next(values) for part, values in losses.items() if part not in policy.frozen}

        monkeypatch.setattr(offline, "_validation_losses", validate)

    begin()
    whole = new_run(settings, "whole")
    results = train(whole, data)
    assert results is not None
    assert (results.step, results.best_step) == (16, 16)
    assert results.validation_loss == pytest.approx(1.0 + 4.0 + 0.5)
    kept, current = (checkpoint_of(whole).tensors[name] for name in ("policy", "current"))
    for name, weight in kept.items():
        best = {"reward": 1, "prior": 3}.get(name.partition(".")[0], 7)
        assert torch.equal(weight, seen[best][name]), name
        assert torch.equal(weight, current[name]), name  # frozen parts have their best weights
    for name, weight in seen[6].items():
        is_learning = not torch.equal(weight, seen[5][name])
        assert not is_learning or name.startswith(("prior.", "correction.")), name

    def interrupt(step: int, _: object) -> None:
        if step == 11:
            os.kill(os.getpid(), signal.SIGTERM)

    begin()
    parts = new_run(settings, "parts")
    assert train(parts, data, report=interrupt) is None
    assert untimed(train(parts, data)) == untimed(results)
    again = checkpoint_of(parts).tensors["policy"]
    assert all(torch.equal(weight, again[name]) for name, weight in kept.items())


@pytest.mark.parametrize("correct_logged", [True, False])
def test_the_validation_losses_of_the_parts_sum_to_the_loss(correct_logged: bool, data: SlateData) -> None:
    settings = small_settings("gfn-prior", "offline", {"correct_logged": correct_logged})
    policy = new_policy(data, settings).eval()
    config = OfflineConfig(validation_slates=20)
    losses = offline._validation_losses(policy, data, config)
    with torch.no_grad():
        terms = policy.loss(data.slates(data.split("val")[:20]), torch_generator(0, "validation")).terms
    assert set(losses) == {"reward", "prior", *([""] if correct_logged else [])}
    assert (losses["reward"], losses["prior"]) == pytest.approx((float(terms["response"]), float(terms["prior"])))
    assert sum(losses.values()) == pytest.approx(sum(float(term) for term in terms.values()))


def test_a_policy_of_frozen_parts_alone_ends_and_can_learn_again(data: SlateData, new_run: NewRun) -> None:
    changes = {"num_steps": 20, "evaluate_every": 2, "correct_logged": False, "beta": 3.0}
    run = new_run(small_settings("gfn-anchored", "offline", changes))
    policy = new_policy(data, run.settings)
    results = train_offline(run, policy, data, None, Group())
    assert results is not None
    assert results.step == 8  # the reward model learns for 0.4 of the steps, and there is nothing else
    assert policy.frozen == set()
    again = train_offline(new_run(run.settings, "again"), policy, data, None, Group())
    assert again is not None
    assert again.step == 8


def test_a_part_frozen_by_the_last_evaluation_leaves_the_rest_as_it_is(data: SlateData) -> None:
    settings = small_settings("gfn-prior", "offline", {"patience": 3})
    assert isinstance(settings.training, OfflineConfig)
    policy = new_policy(data, settings)
    state = OfflineState(policy, settings.training, 8, 0, Group())
    seen = []
    for number, (prior, rest) in enumerate(zip([1.0, 2.0, 3.0, 4.0], [0.1, 0.5, 0.5, 0.9], strict=True)):
        state.step = 2 * (number + 1)
        with torch.no_grad():
            for weight in policy.parameters():
                weight.add_(1.0)
        seen.append({name: weight.clone() for name, weight in policy.state_dict().items()})
        losses = {"reward": 5.0 - number, "prior": prior, "": rest}
        state.validate({part: loss for part, loss in losses.items() if part not in policy.frozen})
    assert [validation.frozen for validation in state.validations] == [(), ("reward",), (), ("prior",)]
    for name, best_weight in state.best.items():
        best = {"reward": 1, "prior": 0}.get(name.partition(".")[0], 3)
        assert torch.equal(best_weight, seen[best][name]), name
    kept = state.kept()
    assert (kept.step, kept.parts) == (8, {"reward": 4.0, "prior": 1.0, "": 0.9})
    rates = {group["share"] for group in state.learner._optimizer.param_groups}
    assert rates == {0.4, 1.0}


def test_at_the_last_step_a_part_that_still_improves_is_not_frozen(data: SlateData) -> None:
    settings = small_settings("gfn-prior", "offline", {"patience": 3})
    assert isinstance(settings.training, OfflineConfig)
    state = OfflineState(new_policy(data, settings), settings.training, 2, 0, Group())
    state.step = 2
    state.validate({"reward": 1.0, "prior": 1.0, "": 1.0})
    assert state.policy.frozen == {"reward"}


def test_validations_of_earlier_versions_count_for_the_whole_policy(data: SlateData) -> None:
    settings = small_settings("cf", "offline", BEST_AT_4)
    assert isinstance(settings.training, OfflineConfig)
    policy = new_policy(data, settings)
    state = OfflineState(policy, settings.training, 16, 0, Group())
    old = Progress(validations=(Validation(step=2, loss=5.0), Validation(step=4, loss=3.0)))
    state.load(Checkpoint(step=4, tensors=state.tensors(), progress=old), Group())
    assert [validation.parts for validation in state.validations] == [{"": 5.0}, {"": 3.0}]
    assert state.kept().step == 4

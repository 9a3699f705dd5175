"""The offline loop: it learns, stops when it has converged, and an interruption changes nothing."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.policies import POLICIES
from gfn4rec.policies.base import Loss
from gfn4rec.policies.gfn_prior import PriorGFN
from gfn4rec.policies.guided import GuidedGFN
from gfn4rec.schema import SlateBatch
from gfn4rec.training import offline
from gfn4rec.training.config import OfflineConfig
from gfn4rec.training.group import Group
from gfn4rec.training.offline import OfflineState, train_offline
from gfn4rec.training.opened_run import Users
from gfn4rec.training.run import Run
from tests.training.conftest import new_policy, small_settings
from tests.training.test_online import untimed

NewRun = Callable[..., Run]
LEARNED = [name for name, policy in POLICIES.items() if policy.is_learned]


def train(run: Run, data: SlateData, users: Users | None = None, **more: Any) -> Any:
    return train_offline(run, new_policy(data, run.settings), data, users, **more)


@pytest.mark.parametrize("name", LEARNED)
def test_every_policy_learns_offline_and_is_measured(name: str, data: SlateData, users: Users, new_run: NewRun) -> None:
    run = new_run(small_settings(name, "offline", {"num_steps": 40, "evaluate_every": 10, "learning_rate": 5e-3}))
    results = train(run, data, users)
    assert results is not None
    losses: list[Any] = [line["validation_loss"] for line in run.metrics() if "validation_loss" in line]
    if issubclass(POLICIES[name], GuidedGFN):  # its parts keep the weights of different steps
        assert results.validation_loss <= min(losses)
    else:
        assert results.validation_loss == min(losses)
        assert results.best_step == 10 * (1 + losses.index(min(losses)))
    assert min(losses[1:]) < losses[0]
    assert set(results.test) == {"r_ndcg", "r_mrr", "r_ndcg_unsorted", "r_mrr_unsorted"}
    assert results.greedy["coverage"] <= results.sampled["coverage"]


def test_it_stops_when_it_has_converged_and_keeps_the_best(
    data: SlateData, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(small_settings("cf", "offline", {"num_steps": 500, "evaluate_every": 2, "patience": 3}))
    looks = iter([5.0, 3.0, 4.0, 3.5, 3.0, 1.0])
    best: dict[str, torch.Tensor] = {}

    def look(policy: torch.nn.Module, *_: Any) -> dict[str, float]:
        value = next(looks)
        if value == 3.0 and not best:
            best.update({name: tensor.clone() for name, tensor in policy.state_dict().items()})
        return {"": value}

    monkeypatch.setattr(offline, "_validation_losses", look)
    results = train(run, data)
    assert results is not None
    assert (results.step, results.best_step, results.validation_loss) == (10, 4, 3.0)
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None
    assert all(torch.equal(best[name], checkpoint.tensors["policy"][name]) for name in best)
    assert not all(torch.equal(best[name], checkpoint.tensors["current"][name]) for name in best)


def test_it_stops_after_the_largest_number_of_passes(data: SlateData, new_run: NewRun) -> None:
    """The learning rate has reached its end by then, and reports know the smaller number of steps."""
    per_pass, reported = len(data.split("train")) // 16, []
    changes = {"num_steps": 500, "num_epochs": 2, "learning_batch": 16, "schedule": "cosine", "evaluate_every": 100}
    run = new_run(small_settings("cf", "offline", changes))
    results = train(run, data, report=lambda step, metrics: reported.append((step, metrics["num_steps"])))
    assert results is not None
    assert per_pass > 1
    assert (results.step, results.best_step) == (2 * per_pass, 2 * per_pass)
    assert reported == [(step, 2 * per_pass) for step in range(1, 2 * per_pass + 1)]
    policy, settings = new_policy(data, run.settings), run.settings.training
    assert isinstance(settings, OfflineConfig)
    learner = OfflineState(policy, settings, settings.steps_on(len(data.split("train"))), 0, Group()).learner
    learner.step = 2 * per_pass
    assert learner.learning_rate() == pytest.approx(settings.learning_rate * settings.final_share)
    assert settings.steps_on(10**9) == 500
    assert settings.steps_on(3) == 2  # less than a batch counts as one
    few = {"num_steps": 500, "num_epochs": 1, "learning_batch": 16, "ranker.first_steps": per_pass}
    with pytest.raises(UserError, match=rf"would not learn in {per_pass} learning steps; lower ranker.first_steps"):
        train(new_run(small_settings("prm", "offline", few), "idle"), data)


def test_the_scale_of_the_reward_is_chosen_for_the_weights_that_are_kept(
    data: SlateData, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(small_settings("gfn-prior", "offline", {"num_steps": 4, "evaluate_every": 2}))
    losses, judged = iter([1.0, 2.0]), list[dict[str, torch.Tensor]]()

    def choose(policy: PriorGFN, _: SlateData) -> None:
        judged.append({name: tensor.clone() for name, tensor in policy.state_dict().items() if name != "scale"})
        policy.scale.fill_(5.0)

    monkeypatch.setattr(offline, "_validation_losses", lambda *_: {"": next(losses)})
    monkeypatch.setattr(offline, "choose_reward_scale", choose)
    assert train(run, data).best_step == 2
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None
    kept, current = (checkpoint.tensors[name] for name in ("policy", "current"))
    assert (float(kept["scale"]), float(current["scale"])) == (5.0, 1.0)
    (weights,) = judged
    assert all(torch.equal(kept[name], weights[name]) for name in weights)
    assert not all(torch.equal(current[name], weights[name]) for name in weights)


def test_going_on_after_an_interruption_changes_nothing(data: SlateData, new_run: NewRun) -> None:
    settings = small_settings("list-cvae", "offline", {"num_steps": 30, "encoder.dropout": 0.2})
    whole, parts = new_run(settings, "whole"), new_run(settings, "parts")
    expected = train(whole, data)
    for stop_at in (3, 14):

        def interrupt(step: int, _: dict[str, float], stop_at: int = stop_at) -> None:
            if step == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)

        assert train(parts, data, report=interrupt) is None
    assert untimed(train(parts, data)) == untimed(expected)
    assert untimed(parts.metrics()) == untimed(whole.metrics())


def test_a_pass_shows_every_slate_once(data: SlateData) -> None:
    slates = data.split("train")
    size, num_batches = 16, len(slates) // 16
    passes = []
    for epoch in range(2):
        steps = range(epoch * num_batches, (epoch + 1) * num_batches)
        passes.append(torch.cat([offline._batch(slates, step, size, 0, Group()) for step in steps]).tolist())
    for each in passes:
        assert len(set(each)) == len(each) == size * num_batches
    assert passes[0] != passes[1]
    halves = [offline._batch(slates, 3, size, 0, Group(rank, 2)) for rank in range(2)]
    assert torch.equal(torch.cat(halves), offline._batch(slates, 3, size, 0, Group()))


def test_another_seed_shows_slates_in_another_order(
    data: SlateData, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = list[list[list[int]]]()
    for seed in (0, 0, 1):
        shown, slates = list[list[int]](), data.slates

        def watched(index: torch.Tensor, shown: list[list[int]] = shown, slates: Any = slates) -> SlateBatch:
            shown.append(index.tolist())
            batch: SlateBatch = slates(index)
            return batch

        with monkeypatch.context() as patch:
            patch.setattr(data, "slates", watched)
            settings = small_settings("cf", "offline", {"num_steps": 2}).model_copy(update={"seed": seed})
            train(new_run(settings, f"run {len(orders)}"), data)
        orders.append(shown[:2])
    assert orders[0] == orders[1] != orders[2]


def test_validation_asks_for_the_last_stage_from_the_start(
    data: SlateData, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The losses of a re-ranker and of its ranker alone cannot be compared."""
    run = new_run(small_settings("prm", "offline", {"ranker.first_steps": 8, "evaluate_every": 4}))
    policy = new_policy(data, run.manifest.settings)
    proper, asked = policy.loss, []

    def watched(batch: SlateBatch, generator: torch.Generator, step: int | None = None) -> Loss:
        if not torch.is_grad_enabled():
            asked.append(step)
        return proper(batch, generator, step)

    monkeypatch.setattr(policy, "loss", watched)
    train_offline(run, policy, data, None, Group())
    assert set(asked) == {None}


def test_users_start_from_the_requests_before_the_test_slates(data: SlateData, users: Users) -> None:
    rows = data.first_rows(data.split("test"))
    starts = data.requests(rows)
    rows_of_starts = zip(starts.user_B.tolist(), starts.history_BH.tolist(), strict=True)
    known = {(user, tuple(history)) for user, history in rows_of_starts}
    environment = users.environment(0, start_rows=rows)
    for _ in range(5):
        request = environment.reset()
        for user, history in zip(request.user_B, request.history_BH, strict=True):
            assert (int(user), tuple(history.tolist())) in known


def test_bad_input(data: SlateData, new_run: NewRun) -> None:
    with pytest.raises(UserError, match="policy random has nothing to learn"):
        train(new_run(small_settings("random", "offline"), "one"), data)
    with pytest.raises(UserError, match="fewer than learning_batch 99999"):
        train(new_run(small_settings("cf", "offline", {"learning_batch": 99999}), "two"), data)

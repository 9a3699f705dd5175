"""A policy with a prior learns from the log first, in a run inside its online run, or starts from another run."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from gfn4rec import api
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.training.config import OnlineConfig, RunSettings, log_settings, resolve_settings
from gfn4rec.training.opened_run import OpenedRun
from gfn4rec.training.run import Run
from tests.simulator.conftest import FixedUsers
from tests.training.conftest import new_policy, small_settings
from tests.training.test_online import untimed

SETTINGS = small_settings("gfn-prior", changes={"learning_rate": 3e-3})


def train(out: Path, data: SlateData, settings: RunSettings = SETTINGS, **options: Any) -> object:
    return api.train(settings, data, FixedUsers(data), out, **options)


def weights(run: Path, data: SlateData) -> dict[str, torch.Tensor]:
    return OpenedRun.open(run, data).policy.state_dict()


def test_the_prior_stays_as_learned_from_the_log_and_the_rest_goes_on_learning(data: SlateData, tmp_path: Path) -> None:
    steps: list[int] = []
    train(tmp_path / "run", data, report_log=lambda step, _: steps.append(step))
    assert steps == [1, 2, 3, 4, 5, 6]
    log, online = weights(tmp_path / "run" / "log", data), weights(tmp_path / "run", data)
    untrained = OpenedRun.open(tmp_path / "run", data).new_policy().state_dict()
    of_prior = [name for name in log if name.startswith("prior.")]
    assert len(of_prior) > 10
    assert all(torch.equal(log[name], online[name]) for name in of_prior)
    assert not all(torch.equal(log[name], untrained[name]) for name in of_prior)
    for part in ("reward.", "correction."):
        assert not all(torch.equal(log[name], online[name]) for name in log if name.startswith(part))


def test_the_log_is_learned_at_its_own_rate_and_otherwise_as_the_online_run_learns() -> None:
    changes = {"log_steps": 7, "learning_batch": 33, "learning_rate": 4e-3, "clip_norm": 2.0}
    settings = resolve_settings("online", "gfn-prior", changes=changes, seed=5)
    inner = log_settings(settings)
    assert (inner.mode, inner.policy, inner.seed) == ("offline", "gfn-prior", 5)
    assert (inner.training.num_steps, inner.training.learning_batch) == (7, 33)
    assert inner.training.clip_norm == 2.0
    assert inner.policy_settings == settings.policy_settings
    whole, offline = resolve_settings("online", "gfn-prior"), resolve_settings("offline", "gfn-prior")
    assert whole.training.learning_batch > offline.training.learning_batch
    assert inner.training.learning_rate == offline.training.learning_rate != 4e-3
    assert isinstance(whole.training, OnlineConfig)
    assert log_settings(whole).training == offline.training.model_copy(update={"num_steps": whole.training.log_steps})


def test_a_re_ranker_learns_from_the_log_with_its_own_settings() -> None:
    inner = log_settings(small_settings("prm", changes={"log_steps": 6, "ranker.first_steps": 2}))
    assert (inner.training.num_steps, inner.policy_settings.idle_steps) == (6, 2)
    with pytest.raises(UserError, match=r"log_steps: .* not learn in 6 .*; lower ranker.first_steps, which is 8"):
        log_settings(small_settings("prm", changes={"log_steps": 6, "ranker.first_steps": 8}))


def test_a_run_that_starts_from_another_does_not_learn_from_the_log_again(data: SlateData, tmp_path: Path) -> None:
    train(tmp_path / "whole", data)
    train(tmp_path / "on top", data, start=tmp_path / "whole" / "log")
    assert not (tmp_path / "on top" / "log").exists()
    whole, on_top = (Run.open(tmp_path / name) for name in ("whole", "on top"))
    assert untimed(on_top.results) == untimed(whole.results)
    assert untimed(on_top.metrics()) == untimed(whole.metrics())
    assert Path(on_top.manifest.started_from or "") == (tmp_path / "whole" / "log").resolve()


def test_a_policy_in_memory_keeps_its_weights_and_does_not_learn_from_the_log(data: SlateData, tmp_path: Path) -> None:
    policy = new_policy(data, SETTINGS)
    with torch.no_grad():
        policy.get_parameter("prior.members.0.bias_N").fill_(0.25)
    train(tmp_path / "run", data, policy=policy)
    assert not (tmp_path / "run" / "log").exists()
    assert (weights(tmp_path / "run", data)["prior.members.0.bias_N"] == 0.25).all()


@pytest.mark.parametrize("stage", ["report_log", "report"])
def test_a_run_that_was_stopped_in_either_stage_ends_as_an_undisturbed_one(
    stage: str, data: SlateData, tmp_path: Path
) -> None:
    train(tmp_path / "whole", data)

    def stop(step: int, _: object) -> None:
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    assert train(tmp_path / "stopped", data, SETTINGS, **{stage: stop}) is None
    assert Run.open(tmp_path / "stopped").results is None
    api.resume(tmp_path / "stopped", data=data, simulator=FixedUsers(data))
    whole, stopped = (Run.open(tmp_path / name) for name in ("whole", "stopped"))
    assert untimed(stopped.results) == untimed(whole.results)
    assert untimed(stopped.metrics()) == untimed(whole.metrics())


def test_wrong_starts_are_one_line_and_leave_nothing(data: SlateData, tmp_path: Path) -> None:
    assert train(tmp_path / "cf", data, small_settings("cf")) is not None
    with pytest.raises(UserError, match=r"cf: is a run of cf, not of gfn-prior; start from another"):
        train(tmp_path / "new", data, start=tmp_path / "cf")
    OpenedRun.begin(SETTINGS, data, None, tmp_path / "begun")
    with pytest.raises(UserError, match=r"begun: is not finished; resume it with `gfn4rec train resume .*` first"):
        train(tmp_path / "new", data, start=tmp_path / "begun")
    assert not (tmp_path / "new").exists()


def test_the_default_policy_is_the_prior_guided_flow() -> None:
    for mode in ("online", "offline"):
        assert resolve_settings(mode).policy == "gfn-prior"
    online = resolve_settings("online").training
    assert isinstance(online, OnlineConfig)
    assert online.log_steps == resolve_settings("offline").training.num_steps == 4000


def test_a_setting_of_the_reward_scale_replaces_that_of_the_start(data: SlateData, tmp_path: Path) -> None:
    train(tmp_path / "whole", data)
    scaled = small_settings("gfn-prior", changes={"reward_scale": 7.5})
    train(tmp_path / "scaled", data, scaled, start=tmp_path / "whole" / "log")
    assert float(weights(tmp_path / "scaled", data)["scale"]) == 7.5


def test_a_start_with_other_sizes_is_one_line(data: SlateData, tmp_path: Path) -> None:
    train(tmp_path / "whole", data)
    wider = small_settings("gfn-prior", changes={"prior_encoder.dim": 16})
    with pytest.raises(UserError, match=r"log: has networks of other sizes; give the sizes in its manifest.json with"):
        train(tmp_path / "wider", data, wider, start=tmp_path / "whole" / "log")
    assert not (tmp_path / "wider").exists()


def test_a_mistake_after_the_stage_on_the_log_keeps_what_was_learned(
    data: SlateData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(*_: object) -> None:
        raise UserError("wrong")

    monkeypatch.setattr(api, "train_online", mistaken)
    with pytest.raises(UserError, match="wrong"):
        train(tmp_path / "run", data)
    monkeypatch.undo()
    assert train(tmp_path / "again", data, start=tmp_path / "run" / "log") is not None

"""Training from Python: objects in memory, progress, and mistakes."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gfn4rec import api, progress
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.policies import build_policy
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.simulator.checkpoint import SimulatorFiles
from gfn4rec.simulator.protocol import UserModel
from gfn4rec.simulator.response_model import ResponseModelConfig
from gfn4rec.training.config import Mode, RunSettings
from gfn4rec.training.opened_run import OpenedRun
from gfn4rec.training.response_loop import ResponseTrainingConfig
from gfn4rec.training.run import Run
from tests.simulator.conftest import FixedUsers
from tests.training.conftest import small_settings
from tests.training.test_online import untimed

MODEL = ResponseModelConfig(dim=8, embedding_dim=8, num_heads=2, feedforward_dim=16, state_dim=16, history_length=60)


@pytest.fixture(scope="module")
def simulator(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, UserModel]:
    """Users with longer histories and another item influence than the data set's, on disk and in memory."""
    out = tmp_path_factory.mktemp("simulator") / "sim"
    users = api.train_simulator(
        data_folder, out, num_epochs=1, rho=0.05, config=ResponseTrainingConfig(model=MODEL, num_epochs=7)
    )
    return out, users


def new_policy(data: SlateData, settings: RunSettings) -> Policy:
    return build_policy(settings.policy, Catalogue.of(data), settings.policy_settings, settings.seed)


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_objects_in_memory_give_the_results_of_their_directories(
    mode: Mode, data_folder: Path, simulator: tuple[Path, UserModel], tmp_path: Path
) -> None:
    settings, (place, users) = small_settings("gfn", mode), simulator
    data = SlateData.open(data_folder)
    from_disk = api.train(settings, data_folder, place, tmp_path / "disk")
    in_memory = api.train(settings, data, users, tmp_path / "memory", policy=new_policy(data, settings))
    assert from_disk is not None
    assert from_disk.greedy is not None
    assert untimed(in_memory) == untimed(from_disk)
    assert untimed(Run.open(tmp_path / "memory").metrics()) == untimed(Run.open(tmp_path / "disk").metrics())
    both = [
        api.evaluate(tmp_path / "memory", users, data, num_batches=2, oracle_batches=1),
        api.evaluate(tmp_path / "disk", num_batches=2, oracle_batches=1),
    ]
    assert both[0] == both[1]


def test_the_simulator_is_trained_as_asked(simulator: tuple[Path, UserModel]) -> None:
    (place, users), manifest = simulator, SimulatorFiles.open(simulator[0]).manifest
    assert len(manifest.epochs) == 1
    assert manifest.rho == 0.05 == getattr(users, "rho", None)
    assert place.is_dir()


@pytest.mark.parametrize("is_shown", [True, False])
def test_the_training_of_a_simulator_is_shown_if_asked_for(
    is_shown: bool,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    config = ResponseTrainingConfig(model=MODEL, num_epochs=2)
    api.train_simulator(data_folder, tmp_path / "sim", config=config, progress=is_shown)
    lines = capsys.readouterr().err.splitlines()
    for epoch in (1, 2):
        assert any(line.startswith(f"gfn4rec: epoch {epoch} of 2: ") for line in lines) == is_shown, lines
    assert any(", loss 0." in line for line in lines) == is_shown


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_epochs": 0}, "simulator: num_epochs: Input should be greater than or equal to 1, got 0"),
        ({"rho": -0.1}, "rho -0.1: the strength of item influence is 0 or more"),
        ({"rho": math.nan}, "rho nan: the strength of item influence is 0 or more"),
    ],
)
def test_a_simulator_that_cannot_be_trained(
    wrong: dict[str, Any], message: str, data_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        api.train_simulator(data_folder, tmp_path / "sim", **wrong)
    assert not (tmp_path / "sim").exists()


def test_a_policy_in_memory_is_trained_further(data: SlateData, tmp_path: Path) -> None:
    settings = small_settings("cf")
    policy = new_policy(data, settings)
    with torch.no_grad():
        next(policy.parameters()).add_(1.0)
    before = {name: weight.clone() for name, weight in policy.state_dict().items()}
    own = api.train(settings, data, FixedUsers(data), tmp_path / "own", policy=policy)
    assert any(not torch.equal(weight, before[name]) for name, weight in policy.state_dict().items())
    assert untimed(own) != untimed(api.train(settings, data, FixedUsers(data), tmp_path / "fresh"))
    trained = OpenedRun.open(tmp_path / "own", data).policy
    assert all(torch.equal(weight, policy.state_dict()[name]) for name, weight in trained.state_dict().items())


def test_a_policy_in_memory_must_be_that_of_the_settings(data: SlateData, tmp_path: Path) -> None:
    settings, catalogue = small_settings("cf"), Catalogue.of(data)
    theirs = settings.policy_settings
    heavy, large = replace(catalogue, weight_R=2 * catalogue.weight_R), replace(catalogue, num_items=61)
    wrong = {
        "is not the cf of the settings": [
            build_policy("popularity", catalogue),
            build_policy("cf", catalogue, {**theirs.model_dump(), "hidden_dims": (8,)}),
        ],
        "was made for another data set": [build_policy("cf", heavy, theirs), build_policy("cf", large, theirs)],
    }
    for message, policies in wrong.items():
        for policy in policies:
            with pytest.raises(UserError, match=f"the policy in memory {message}"):
                api.train(settings, data, FixedUsers(data), tmp_path / "run", policy=policy)
            assert not (tmp_path / "run").exists()  # a mistake leaves nothing behind


@pytest.mark.parametrize("is_shown", [True, False])
def test_progress_is_printed_if_asked_for(
    is_shown: bool,
    data: SlateData,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Beside the report of the caller, for a new run and for a resumed one."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    users, steps = FixedUsers(data), list[int]()

    def stop(step: int, _: object) -> None:
        steps.append(step)
        if step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        api.train(small_settings("cf"), data, users, tmp_path / "run", report=stop, progress=is_shown)
    lines = capsys.readouterr().err.splitlines()
    assert ["gfn4rec: training: 7 of 12, reward" in line for line in lines[-1:]] == [True] * is_shown
    api.resume(
        tmp_path / "run", data=data, simulator=users, report=lambda step, _: steps.append(step), progress=is_shown
    )
    lines = capsys.readouterr().err.splitlines()
    assert ["gfn4rec: training: 12 of 12, reward" in line for line in lines[-1:]] == [True] * is_shown
    assert steps == [*range(1, 8), *range(5, 13)]


def test_a_mistake_keeps_a_run_that_has_a_checkpoint(data: SlateData, tmp_path: Path) -> None:
    def fail(at: int) -> Callable[[int, Any], None]:
        def report(step: int, _: object) -> None:
            if step == at:
                raise UserError("the disk is full")

        return report

    for step, is_kept in ((2, False), (6, True)):
        out = tmp_path / str(step)
        with pytest.raises(UserError, match="the disk is full"):
            api.train(small_settings("cf"), data, FixedUsers(data), out, report=fail(step))
        assert out.exists() == is_kept


def test_a_wrong_temperature_is_refused_before_anything_is_measured(data: SlateData, tmp_path: Path) -> None:
    users, seen = FixedUsers(data), list[str]()
    api.train(small_settings("random"), data, users, tmp_path / "run")
    with pytest.raises(UserError, match="temperature 0: must lie between"):
        api.evaluate(tmp_path / "run", users, data, temperatures=(1, 0), report=lambda name, *_: seen.append(name))
    assert seen == []

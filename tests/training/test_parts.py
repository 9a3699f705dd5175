"""What a run is put together from: the users it names, and histories as long as anybody reads."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.simulator.response_model import ResponseModelConfig
from gfn4rec.training.parts import changed_data, data_of, new_manifest, open_data, open_users, users_of
from gfn4rec.training.response_loop import ResponseTrainingConfig
from gfn4rec.training.response_training import train_response_model
from gfn4rec.training.run import Run
from tests.training.conftest import small_settings


@pytest.fixture(scope="module")
def simulator(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users who influence each other by 0.1 and remember 60 events."""
    model = ResponseModelConfig(
        dim=8, embedding_dim=8, num_heads=2, feedforward_dim=16, state_dim=16, history_length=60
    )
    out = tmp_path_factory.mktemp("simulator") / "sim"
    train_response_model(
        SlateData.open(data_folder, 60), ResponseTrainingConfig(model=model, num_epochs=1), out, rho=0.1
    )
    return out


def test_histories_are_as_long_as_policy_or_simulator_reads(data_folder: Path, simulator: Path) -> None:
    short, long = (small_settings("cf", changes={"encoder.history_length": length}) for length in (10, 80))
    assert open_data(data_folder, short, "cpu").history_length == 50
    assert open_data(data_folder, short, "cpu", simulator).history_length == 60
    assert open_data(data_folder, long, "cpu", simulator).history_length == 80


@pytest.mark.parametrize(("rho", "expected"), [(None, 0.1), (0.0, 0.0), (0.4, 0.4)])
def test_users_come_and_go_as_the_settings_say(data_folder: Path, simulator: Path, rho: Any, expected: float) -> None:
    changes = {"num_users": 7, "episode_length": 3} | ({} if rho is None else {"rho": rho})
    settings = small_settings("cf", changes=changes)
    users = open_users(simulator, open_data(data_folder, settings, "cpu", simulator), settings)
    assert (users.config.num_users, users.config.episode_length, users.config.rho) == (7, 3, expected)
    assert users.config.slate_size == users.data.slate_size
    assert len(users.environment(seed=0).request.user_B) == 7
    assert len(users.environment(seed=0, num_users=2).request.user_B) == 2


def edit_manifest(directory: Path, **values: Any) -> None:
    path = directory / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def test_what_has_changed_of_a_log_is_told(data_folder: Path, tmp_path: Path) -> None:
    settings = small_settings("cf")
    data = open_data(data_folder, settings, "cpu")
    run = Run.create(tmp_path / "run", new_manifest(settings, data, data_folder, None, 1))
    assert changed_data(run, data) is None
    content = run.manifest.data_content
    assert content is not None
    files, settings_of_data = content["files"], content["settings"]
    other_split = {"files": files | {"log.parquet": "0"}, "settings": settings_of_data | {"val_slates": 2}}
    for changed, told in (
        ({"weights": content["weights"] | {"click": 5.0}}, "weights"),
        (other_split, "log.parquet, settings"),
    ):
        edit_manifest(tmp_path / "run", data_content=content | changed)
        found = changed_data(Run.open(tmp_path / "run"), data)
        assert found == f"{tmp_path / 'run'}: its data set has changed since it began ({told})"
    edit_manifest(tmp_path / "run", data_content=content | {"settings": settings_of_data | {"slate_size": 5}})
    with pytest.raises(UserError, match="shows slates of 5, and .* has slates of 6; prepare it with --slate-size 5"):
        data_of(Run.open(tmp_path / "run"), "cpu")
    edit_manifest(tmp_path / "run", data_content=None)  # one that began before this was remembered
    assert changed_data(Run.open(tmp_path / "run"), data) is None
    assert data_of(Run.open(tmp_path / "run"), "cpu").slate_size == 6


def test_users_who_influence_each_other_otherwise_are_others(
    data_folder: Path, simulator: Path, tmp_path: Path
) -> None:
    settings = small_settings("cf")
    data = open_data(data_folder, settings, "cpu", simulator)
    run = Run.create(tmp_path / "run", new_manifest(settings, data, data_folder, simulator, 1))
    shutil.copytree(simulator, tmp_path / "other")
    assert users_of(run, data, tmp_path / "other", may_differ=False).config.rho == 0.1
    edit_manifest(tmp_path / "other", rho=0.3)
    with pytest.raises(UserError, match="not the simulator of this run, or changed since"):
        users_of(run, data, tmp_path / "other", may_differ=False)
    assert users_of(run, data, tmp_path / "other").config.rho == 0.3  # measured in another world, knowingly
    edit_manifest(tmp_path / "run", simulator_rho=None)
    assert users_of(Run.open(tmp_path / "run"), data, tmp_path / "other", may_differ=False).config.rho == 0.3

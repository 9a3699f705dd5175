"""What a run is made of: the users it names, and histories as long as policy and simulator read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.nn import weights
from gfn4rec.policies.cf import CF
from gfn4rec.simulator import checkpoint
from gfn4rec.simulator.effects import ListEffects
from gfn4rec.simulator.protocol import trusted
from gfn4rec.simulator.response_model import ResponseModelConfig
from gfn4rec.training.opened_run import OpenedRun, Users
from gfn4rec.training.response_loop import ResponseTrainingConfig
from gfn4rec.training.response_training import train_response_model
from gfn4rec.training.run import POLICY, Progress
from tests.simulator.conftest import FixedUsers
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


def begin(tmp_path: Path, data: Any, simulator: Any = None, **changes: Any) -> OpenedRun:
    return OpenedRun.begin(small_settings("cf", changes=changes), data, simulator, tmp_path / "run")


def test_histories_are_as_long_as_policy_or_simulator_reads(data_folder: Path, simulator: Path, tmp_path: Path) -> None:
    short = begin(tmp_path / "short", data_folder, simulator, **{"encoder.history_length": 10})
    assert (short.data.history_length, short.users.data.history_length) == (50, 60)
    long = begin(tmp_path / "long", data_folder, simulator, **{"encoder.history_length": 80})
    assert (long.data.history_length, long.users.data.history_length) == (80, 80)
    row = torch.tensor([200])
    assert torch.equal(short.users.data.requests(row).history_BH, long.data.requests(row).history_BH[:, -60:])


@pytest.mark.parametrize(("rho", "expected"), [(None, 0.1), (0.0, 0.0), (0.4, 0.4)])
def test_users_come_and_go_as_the_settings_say(
    data_folder: Path, simulator: Path, tmp_path: Path, rho: Any, expected: float
) -> None:
    changes = {"num_users": 7, "episode_length": 3} | ({} if rho is None else {"rho": rho})
    users = begin(tmp_path, data_folder, simulator, **changes).users
    assert (users.config.num_users, users.config.episode_length, users.config.rho) == (7, 3, expected)
    assert users.config.slate_size == users.data.slate_size
    assert len(users.environment(seed=0).request.user_B) == 7
    assert len(users.environment(seed=0, num_users=2).request.user_B) == 2


def test_users_and_data_may_be_objects_in_memory(data: SlateData, tmp_path: Path) -> None:
    users = FixedUsers(data)
    opened = begin(tmp_path, data, users)
    assert opened.users.model is users
    assert opened.users.config.rho == data.manifest.rho
    assert opened.run.manifest.simulator_path is None
    again = OpenedRun.open(tmp_path / "run", data, users, must_match=True)
    assert again.users.model is users
    with pytest.raises(UserError, match="was trained without a simulator; name one with --simulator"):
        _ = OpenedRun.open(tmp_path / "run").users


def test_a_simulator_is_read_once(
    data_folder: Path, simulator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, checked = weights.check_files, list[Path]()
    monkeypatch.setattr(checkpoint, "check_files", lambda path, *rest: checked.append(path) or read(path, *rest))  # type: ignore[func-returns-value]
    opened = begin(tmp_path, data_folder, simulator)
    assert opened.users is opened.users
    assert checked == [simulator]
    reopened = OpenedRun.open(tmp_path / "run")
    assert checked == [simulator]  # nobody has asked for users
    assert reopened.users.config == opened.users.config
    assert checked == [simulator] * 2


def test_the_policy_is_that_of_the_newest_checkpoint(data: SlateData, tmp_path: Path) -> None:
    opened = begin(tmp_path, data)
    with pytest.raises(UserError, match="has no checkpoint yet; resume it with `gfn4rec train resume"):
        _ = opened.policy
    trained = opened.new_policy()
    with torch.no_grad():
        next(trained.parameters()).add_(1.0)
    opened.run.save_checkpoint(3, {POLICY: trained.state_dict()}, Progress())
    notes: list[str] = []
    policy = OpenedRun.open(tmp_path / "run", notify=notes.append).policy
    assert notes == [f"{tmp_path / 'run'}: not finished; its weights after step 3 are used"]
    assert isinstance(policy, CF)
    assert not policy.training
    assert all(map(torch.equal, policy.state_dict().values(), trained.state_dict().values()))


def edit_manifest(directory: Path, **values: Any) -> None:
    path = directory / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def test_changes_of_the_data_set_are_reported(data_folder: Path, tmp_path: Path) -> None:
    run = begin(tmp_path, data_folder).run
    notes: list[str] = []

    def reopen(must_match: bool = False) -> OpenedRun:
        return OpenedRun.open(run.directory, must_match=must_match, notify=notes.append)

    reopen(must_match=True)
    assert notes == []
    assert run.manifest.data_content is not None
    content = run.manifest.data_content.model_dump(mode="json")
    files, settings = content["files"], content["settings"]
    other_split = {"files": files | {"log.parquet": "0"}, "settings": settings | {"val_slates": 2}}
    for changed, parts in (
        ({"weights": content["weights"] | {"click": 5.0}}, "weights"),
        (other_split, "log.parquet, settings"),
    ):
        edit_manifest(run.directory, data_content=content | changed)
        reopen()
        assert notes.pop() == f"{run.directory}: its data set has changed since it was begun ({parts})"
        with pytest.raises(UserError, match="name the one it was begun with by --data, or train again"):
            reopen(must_match=True)
    edit_manifest(run.directory, data_content=content | {"settings": settings | {"slate_size": 5}})
    with pytest.raises(UserError, match="shows slates of 5, and .* has slates of 6; prepare it with --slate-size 5"):
        reopen()
    edit_manifest(run.directory, data_content=None)  # a run of before this was stored
    assert reopen(must_match=True).data.slate_size == 6
    assert notes == []


def test_users_who_influence_each_other_otherwise_are_others(
    data_folder: Path, simulator: Path, tmp_path: Path
) -> None:
    run = begin(tmp_path, data_folder, simulator).run

    def rho(must_match: bool) -> float:
        return OpenedRun.open(run.directory, simulator=tmp_path / "other", must_match=must_match).users.config.rho

    shutil.copytree(simulator, tmp_path / "other")
    assert rho(must_match=True) == 0.1
    edit_manifest(tmp_path / "other", rho=0.3)
    with pytest.raises(UserError, match="not the simulator of this run, or changed since"):
        rho(must_match=True)
    assert rho(must_match=False) == 0.3  # evaluated in another benchmark, knowingly
    edit_manifest(run.directory, simulator_rho=None)
    assert rho(must_match=True) == 0.3


def test_users_are_as_pessimistic_as_the_settings_or_the_simulator_say(
    data_folder: Path, simulator: Path, tmp_path: Path
) -> None:
    data = SlateData.open(data_folder)
    sizes = ResponseModelConfig(dim=8, embedding_dim=8, num_heads=2, feedforward_dim=16, state_dim=16)
    config = ResponseTrainingConfig(model=sizes, num_epochs=1).with_caution(4.0)
    train_response_model(data, config, tmp_path / "cautious", rho=0.1)
    item_BC = torch.arange(1, 31).expand(5, -1)

    def believed(users: Users) -> Tensor:
        state = users.model.encode(data.requests(torch.arange(100, 600, 100)))
        return trusted(users.model, state, item_BC)

    own = begin(tmp_path, data_folder, tmp_path / "cautious").users
    assert believed(own).sum() > 0
    for pessimism in (0.0, 4.0, 30.0):
        (tmp_path / "run").rename(tmp_path / f"before-{pessimism}")
        users = begin(tmp_path, data_folder, tmp_path / "cautious", pessimism=pessimism).users
        assert torch.equal(believed(users), believed(own.with_pessimism(pessimism)))
        order = believed(users) - believed(own)
        assert {0.0: (order > 0).all(), 4.0: (order == 0).all(), 30.0: (order < 0).all()}[pessimism]
    (tmp_path / "run").rename(tmp_path / "cautious-run")
    plain = begin(tmp_path, data_folder, simulator, pessimism=0.0).users
    assert plain.with_pessimism(0.0) is plain
    with pytest.raises(UserError, match="pessimism inf: write a finite number"):
        own.with_pessimism(float("inf"))
    with pytest.raises(UserError, match="pessimism 1: this simulator has none; only simulators that"):
        plain.with_pessimism(1.0)


def test_a_simulator_with_another_pessimism_is_another(data_folder: Path, simulator: Path, tmp_path: Path) -> None:
    run = begin(tmp_path, data_folder, simulator).run
    assert run.manifest.simulator_pessimism == 0
    shutil.copytree(simulator, tmp_path / "other")
    edit_manifest(tmp_path / "other", pessimism=2.0)
    with pytest.raises(UserError, match="not the simulator of this run, or changed since"):
        assert OpenedRun.open(run.directory, simulator=tmp_path / "other", must_match=True).users


EFFECTS = {"saturation": 0.3, "complements": 0.4, "position_decay": 0.1, "cascade": 0.2, "category": "tags"}


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_list_effects_are_those_of_the_settings_or_of_the_simulator(
    data_folder: Path, simulator: Path, tmp_path: Path, is_in_memory: bool
) -> None:
    shutil.copytree(simulator, tmp_path / "other")
    edit_manifest(tmp_path / "other", effects=EFFECTS)
    users: Any = tmp_path / "other"
    if is_in_memory:
        users, _ = checkpoint.load_simulator(users, SlateData.open(data_folder))
    own = begin(tmp_path / "own", data_folder, users).users.config
    assert own.model_dump(include=set(EFFECTS)) == EFFECTS
    if not is_in_memory:
        resumed = OpenedRun.open(tmp_path / "own" / "run", must_match=True).users.config
        assert resumed == own
    some = begin(tmp_path / "some", data_folder, users, saturation=0.0, category="category").users.config
    assert some.model_dump(include=set(EFFECTS)) == {**EFFECTS, "saturation": 0.0, "category": "category"}
    none = begin(tmp_path / "none", data_folder, simulator).users.config
    assert ListEffects.of(none) == ListEffects()
    every = begin(tmp_path / "all", data_folder, simulator, **EFFECTS)
    assert every.users.config.model_dump(include=set(EFFECTS)) == EFFECTS
    again = OpenedRun.open(every.run.directory)  # what was trained with is evaluated with
    assert again.users.config == every.users.config
    assert again.users.evaluation_environment("online", 0).config == every.users.config


def test_a_simulator_with_other_list_effects_is_another(data_folder: Path, simulator: Path, tmp_path: Path) -> None:
    run = begin(tmp_path, data_folder, simulator).run
    shutil.copytree(simulator, tmp_path / "other")
    edit_manifest(tmp_path / "other", effects={"cascade": 0.2})
    with pytest.raises(UserError, match="not the simulator of this run, or changed since"):
        assert OpenedRun.open(run.directory, simulator=tmp_path / "other", must_match=True).users


def test_a_wrong_category_leaves_no_run_behind(data_folder: Path, simulator: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="category length: synthetic-tiny has no such item feature with categories"):
        begin(tmp_path, data_folder, simulator, saturation=0.5, category="length")
    assert not (tmp_path / "run").exists()


def test_a_simulator_keeps_the_effects_that_it_is_made_with(data_folder: Path, tmp_path: Path) -> None:
    sizes = ResponseModelConfig(dim=8, embedding_dim=8, num_heads=2, feedforward_dim=16, state_dim=16)
    config, data = ResponseTrainingConfig(model=sizes, num_epochs=1), SlateData.open(data_folder)
    with pytest.raises(UserError, match="category tag: .* did you mean 'tags'?"):
        train_response_model(data, config, tmp_path / "sim", 0.1, effects=ListEffects(saturation=0.5, category="tag"))
    assert not (tmp_path / "sim").exists()
    effects = ListEffects(saturation=0.5, cascade=0.25)
    manifest = train_response_model(data, config, tmp_path / "sim", 0.1, effects=effects)
    model, read = checkpoint.load_simulator(tmp_path / "sim", data)
    assert manifest.effects == read.effects == model.effects == effects


def test_users_in_memory_are_those_of_their_directory(data_folder: Path, simulator: Path, tmp_path: Path) -> None:
    """They read histories of the same length and influence each other as strongly, whatever the data set says."""
    data = SlateData.open(data_folder)
    model, manifest = checkpoint.load_simulator(simulator, data)
    assert manifest.rho != data.manifest.rho
    in_memory = begin(tmp_path / "memory", data, model).users
    from_disk = begin(tmp_path / "disk", data_folder, simulator).users
    assert in_memory.config == from_disk.config
    assert in_memory.data.history_length == from_disk.data.history_length == 60
    assert begin(tmp_path / "own", data, model, rho=0.0).users.config.rho == 0.0

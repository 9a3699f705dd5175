"""Settings from files and changes, and how mistakes in them are told."""

from pathlib import Path
from typing import Any

import pytest

from gfn4rec.errors import UserError
from gfn4rec.policies.cf import CF
from gfn4rec.training.config import MODES, Mode, OfflineConfig, RunSettings, resolve_settings


def test_defaults_are_the_papers() -> None:
    settings = resolve_settings("online", "gfn")
    assert settings.training.model_dump()["num_steps"] == 5000
    assert settings.training.model_dump()["warmup_steps"] == 100
    assert settings.training.model_dump()["buffer_size"] == 50_000
    assert settings.training.model_dump()["newest_share"] == 0.5
    assert settings.users.num_users == 128
    assert settings.policy_settings.model_dump()["b_r"] == 0.3
    assert settings.seed == 0


def test_a_policy_may_learn_best_with_other_settings(tmp_path: Path) -> None:
    assert resolve_settings("online", "gfn-energy").training.model_dump()["learning_batch"] == 512
    assert resolve_settings("offline", "gfn-energy").training.model_dump()["schedule"] == "cosine"
    changed = resolve_settings("online", "gfn-energy", changes=["learning_batch=64"])
    assert (
        changed.training.model_dump()["learning_batch"],
        changed.training.model_dump()["epsilon"],
    ) == (64, 0.01)
    (tmp_path / "run.toml").write_text("[training]\nlearning_batch = 32\n")
    assert resolve_settings("online", "gfn-energy", tmp_path / "run.toml").training.model_dump()["learning_batch"] == 32


def test_a_file_and_changes_to_it(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    policy = 'policy = "gfn"\nseed = 3\n[settings]\nb_f = 0.7\nencoder = {dim = 8}\n'
    file.write_text(policy + "[training]\nnum_steps = 9\nwarmup_steps = 8\n[users]\nrho = 0.5\n")
    settings = resolve_settings(
        "online", None, file, ["b_r=0.2", "encoder.num_layers=1", "training.clip_norm=2", "objective=db"]
    )
    assert settings.seed == 3
    assert settings.training.model_dump()["num_steps"] == 9
    assert settings.training.model_dump()["clip_norm"] == 2.0
    assert settings.users.rho == 0.5
    found = settings.policy_settings.model_dump()
    assert (found["b_f"], found["b_r"], found["objective"]) == (0.7, 0.2, "db")
    assert (found["encoder"]["dim"], found["encoder"]["num_layers"], found["encoder"]["dropout"]) == (8, 1, 0.0)
    assert resolve_settings("online", "cf", changes={"num_steps": 101}, seed=5).seed == 5


def test_a_run_that_would_not_learn_is_refused() -> None:
    with pytest.raises(UserError, match="nothing would be learned in 100 steps; lower warmup_steps, which is 100"):
        resolve_settings("online", "cf", changes={"num_steps": 100})
    resolve_settings("online", "random", changes={"num_steps": 100})  # has nothing to learn
    resolve_settings("offline", "cf", changes={"num_steps": 100})
    for policy in ("prm", "gfn-rerank"):
        for mode in MODES:
            steps = 100 if mode == "offline" else 200  # of which 100 warm up
            with pytest.raises(
                UserError, match="the re-ranker would not learn in 100 learning steps; lower ranker.first"
            ):
                resolve_settings(mode, policy, changes={"num_steps": steps})
            resolve_settings(mode, policy, changes={"num_steps": steps + 1})
    resolve_settings("offline", "rerank-cf", changes={"num_steps": 100})  # its re-ranker has nothing to learn


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        ('policy = "gfn"\nsettings = 3', (), "settings: write a table, [settings], not 3"),
        ('policy = "gfn"\nseed = "x"', (), "seed: Input should be a valid integer"),
        ("policy = 3", (), "policy: write a name, not 3"),
        ('policy = "gfn"\n[settings]\nencoder = 3', ["encoder.dim=8"], "encoder: write a table, not 3"),
    ],
)
def test_a_file_with_values_of_another_kind(content: str, changes: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(content)
    with pytest.raises(UserError) as caught:
        resolve_settings("online", None, tmp_path / "run.toml", changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "changes", "message"),
    [
        ("gnf", (), "no policy 'gnf'; did you mean 'gfn'?"),
        ("gfn", ["b_q=1"], "unknown key 'b_q'; did you mean 'b_"),
        ("gfn", ["num_stepz=1"], "unknown key 'num_stepz'; did you mean 'num_steps'?"),
        ("cf", ["b_f=1"], "unknown key 'b_f'"),
        ("gfn", ["b_f"], "--set b_f: write key=value"),
        ("gfn", ["b_f=lots"], "b_f: Input should be a valid number"),
        ("gfn", ["learning_rate=-1"], "learning_rate: Input should be greater than 0"),
        ("gfn", ["hidden_dims=[0]"], "hidden_dims.0: Input should be greater than 0"),
        ("gfn", ["users.num_users=0"], "num_users: Input should be greater than or equal to 1"),
    ],
)
def test_mistakes_are_told_in_one_line(policy: str | None, changes: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve_settings("online", policy, changes=changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_with_an_unknown_table(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('policy = "gfn"\n[trianing]\nnum_steps = 9\n')
    with pytest.raises(UserError, match="unknown key 'trianing'; did you mean 'training'?"):
        resolve_settings("online", None, file)
    with pytest.raises(UserError, match="no such file"):
        resolve_settings("online", None, tmp_path / "nothing.toml")


def with_changes(values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**values, **changes}.items() if value is not KeyError}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "onlin"}, "kind: choose online or offline, not 'onlin'"),
        ({"kind": KeyError}, "kind: choose online or offline, not None"),
        ({"kind": KeyError, "mode": ["online"]}, "mode: choose online or offline, not ['online']"),
        ({"kind": "offline"}, "training: unknown key 'learning_steps'"),
        ({"policy": "gnf"}, "no policy 'gnf'; did you mean 'gfn'?"),
        ({"policy": KeyError}, "policy: write a name, not None"),
        ({"policy": 3}, "policy: write a name, not 3"),
        ({"policy": "cf"}, "policy_settings: unknown key 'objective'"),
        ({"policy_settings": KeyError}, "missing key 'policy_settings'"),
        ({"policy_settings": []}, "policy_settings: Input should be a valid dictionary"),
        ({"policy_settings": CF.Config()}, "policy_settings: gfn online needs GFNConfig, not CFConfig"),
        ({"training": OfflineConfig()}, "training: gfn online needs OnlineConfig, not OfflineConfig"),
        ({"training": {"num_steps": 0}}, "training: num_steps: Input should be greater than or equal to 1, got 0"),
        ({"users": 3}, "users: Input should be a valid dictionary"),
        ({"seed": "x"}, "seed: Input should be a valid integer"),
    ],
)
def test_settings_of_a_damaged_manifest_name_what_is_wrong(changes: dict[str, Any], message: str) -> None:
    values = resolve_settings("online", "gfn").model_dump(mode="json")
    with pytest.raises(UserError) as caught:
        RunSettings.parse(with_changes(values, **changes), "here")
    assert str(caught.value).startswith(f"here: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mode", MODES)
def test_settings_are_written_as_before_and_read_again(mode: Mode) -> None:
    """`kind` on disk, `mode` in Python; a setting that is newer than the file has its default."""
    settings = resolve_settings(mode, "gfn-rerank", changes={"learning_rate": 0.5, "ranker.first_steps": 7})
    values = settings.model_dump(mode="json")
    assert values["kind"] == mode
    assert "mode" not in values
    values["training"].pop("newest_window", None)
    assert RunSettings.parse(values, "here") == settings
    values["mode"] = values.pop("kind")
    assert RunSettings.parse(values, "here") == settings
    assert settings.policy_settings.idle_steps == 7


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_policy_that_learns_nothing_takes_few_steps_unless_asked(mode: Mode) -> None:
    for policy in ("popularity", "random"):
        assert resolve_settings(mode, policy).training.num_steps == 100
        assert resolve_settings(mode, policy, changes={"num_steps": 7}).training.num_steps == 7
    assert resolve_settings(mode, "cf").training.num_steps > 1_000

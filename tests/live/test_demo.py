"""The parts of the demo: made once, found again, and not mixed with others'."""

from pathlib import Path
from typing import Any

import pytest

from gfn4rec.errors import UserError
from gfn4rec.live import demo as demo_module
from gfn4rec.live.config import LearnerSettings, ServiceConfig
from gfn4rec.live.demo import LEARNER, POLICY, SERVICE, TRAINING, Demo
from gfn4rec.training.config import OfflineConfig, RunSettings, resolve_settings


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let users and policy be trained in no time, and the data set be a tiny one; return what was trained."""
    trained: list[str] = []

    def train(settings: RunSettings, data: Path, simulator: None, out: Path, **_: Any) -> object:
        assert (settings.policy, simulator) == (POLICY, None)
        trained.append(f"{out.name} on {data.name}")
        return object()

    monkeypatch.setattr(demo_module, "DATA", "synthetic-tiny")
    monkeypatch.setattr(demo_module, "train", train)
    monkeypatch.setattr(
        demo_module, "train_simulator", lambda data, out, *_, **__: trained.append(f"{out.name} on {data.name}")
    )
    return trained


def test_what_is_there_is_not_made_again(made: list[str], tmp_path: Path) -> None:
    demo, told = Demo(tmp_path / "demo"), list[str]()
    assert demo.prepare(told.append)
    assert made == ["simulator on data", "run on data"]
    before = (demo.data / "manifest.json").read_bytes()
    assert demo.prepare(told.append)
    assert (demo.data / "manifest.json").read_bytes() == before
    assert sum("preparing" in line for line in told) == 1


def test_the_data_of_others_are_refused(made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = Demo(tmp_path / "demo")
    demo.prepare(lambda _: None)
    monkeypatch.setattr(demo_module, "DATA", "synthetic-small")
    with pytest.raises(UserError, match="is not the demo's data set; choose another --dir"):
        demo.prepare(lambda _: None)
    assert len(made) == 2


def test_the_demos_settings_are_valid() -> None:
    settings = resolve_settings("offline", POLICY, changes=TRAINING)
    assert isinstance(settings.training, OfflineConfig)
    assert settings.training.num_steps == 5
    assert settings.policy_settings.model_dump()["beta"] == 300
    assert ServiceConfig.parse(SERVICE, "demo").wait == 5
    assert LearnerSettings.parse(LEARNER, "demo").samples_per_step == 16

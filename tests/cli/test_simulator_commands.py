"""`gfn4rec simulator` as a user types it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gfn4rec import progress
from gfn4rec.training import response_loop, response_training
from tests.conftest import Cli

Fails = Callable[..., str]

SETTINGS = """
num_epochs = 1
batch_windows = 32
stride = 10
[model]
dim = 8
embedding_dim = 8
num_heads = 2
feedforward_dim = 16
state_dim = 16
history_length = 20
"""


@pytest.fixture
def data(cli: Cli, tmp_path: Path) -> Path:
    cli("data", "prepare", "synthetic-tiny", "--out", tmp_path / "data")
    (tmp_path / "settings.toml").write_text(SETTINGS)
    return tmp_path / "data"


def test_list_effects_are_stored_with_a_simulator(cli: Cli, fails: Fails, data: Path, tmp_path: Path) -> None:
    sim = tmp_path / "sim"
    train = ("simulator", "train", data, "--out", sim, "--config", tmp_path / "settings.toml", "--paper")
    assert "--effect saturation: write key=value" in fails(*train, "--effect", "saturation")
    assert "--effect: unknown key 'saturate'; did you mean 'saturation'?" in fails(*train, "--effect", "saturate=1")
    assert "--effect: saturation: Input should be less than or equal to 1" in fails(*train, "--effect", "saturation=2")
    assert "category tagz: " in fails(*train, "--effect", "saturation=1", "--effect", "category=tagz")
    assert not sim.exists()
    cli(*train, "--effect", "saturation=1", "--effect", "category=tags", "--effect", "position_decay=1")
    stored = json.loads((sim / "manifest.json").read_text())["effects"]
    assert (stored["saturation"], stored["category"], stored["position_decay"]) == (1.0, "tags", 1.0)
    frontier = ("simulator", "frontier", sim, "--data", data, "--batches", 2, "--users", 8, "--temperature", "1")
    points = json.loads(cli(*frontier, "--json").out)["points"]
    assert max(point["reward"] for point in points) < 1 / 6 * 3  # one of six items is looked at


def test_train_and_frontier(cli: Cli, fails: Fails, data: Path, tmp_path: Path) -> None:
    sim = tmp_path / "sim"
    train = ("simulator", "train", data, "--out", sim, "--config", tmp_path / "settings.toml")
    text = cli(*train, "--rho", 0.3).out
    assert "Calibration error" in text
    assert "click" in text
    assert re.search(r"hate .* too few", text)  # an AUC of a few rows says nothing
    before = (sim / "manifest.json").read_text()
    assert "sim: holds a simulator; choose another --out" in fails(*train)
    assert (sim / "manifest.json").read_text() == before
    train = ("simulator", "train", data, "--out", tmp_path / "other", "--config", tmp_path / "settings.toml")
    result = json.loads(cli(*train, "--json").out)
    assert set(result["metrics"]) == {"val", "test"}
    assert set(result["metrics"]["val"]) == {"click", "like", "share", "hate"}
    plot = tmp_path / "frontier.png"
    frontier = ("simulator", "frontier", sim, "--data", data, "--batches", 2, "--users", 8, "--temperature", "1,0.1")
    points = json.loads(cli(*frontier, "--plot", plot, "--json").out)["points"]
    assert [point["temperature"] for point in points] == [None, 1.0, 0.1, None]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "slate-aware" in cli(*frontier).out
    assert "x.pdf: plots are PNG files" in fails(*frontier, "--plot", "x.pdf")
    assert "there is no folder" in fails(*frontier, "--plot", tmp_path / "nowhere" / "x.png")
    assert "write finite numbers greater than 0" in fails(*frontier[:-1], "0")
    assert "write finite numbers greater than 0" in fails(*frontier[:-1], "1,inf")
    assert "write numbers separated by commas" in fails(*frontier[:-1], "hot")
    assert "nothing to resume" in fails(*train, "--resume")


def test_caution_and_the_papers_simulator(cli: Cli, fails: Fails, data: Path, tmp_path: Path) -> None:
    train = ("simulator", "train", data, "--config", tmp_path / "settings.toml", "--out")
    text = cli(*train, tmp_path / "cautious", "--pessimism", 4).out
    assert "Items with few and with many training rows" in text
    assert "Disagreement" in text
    assert "Trust: pessimism 4 multiplies predicted probabilities by it" in text
    assert "AUC of telling chosen items from random ones, on which trust rests: val 0." in text
    manifest = json.loads((tmp_path / "cautious" / "manifest.json").read_text())
    assert (manifest["kind"], manifest["pessimism"]) == ("cautious", 4.0)
    assert (tmp_path / "cautious" / "support.png").read_bytes().startswith(b"\x89PNG")
    text = cli(*train, tmp_path / "paper", "--paper").out
    assert "500 or more" in text
    assert "Disagreement" not in text
    manifest = json.loads((tmp_path / "paper" / "manifest.json").read_text())
    assert (manifest["kind"], manifest["training"]["caution"]) == ("response model", None)
    assert "--paper: the paper's simulator has no pessimism" in fails(
        *train, tmp_path / "x", "--paper", "--pessimism", 1
    )
    (tmp_path / "settings.toml").write_text(SETTINGS + "[caution]\npessimism = 2.5\nnum_members = 2\n")
    assert "--paper: the paper's simulator has no pessimism" in fails(*train, tmp_path / "x", "--paper")
    assert json.loads(cli(*train, tmp_path / "two", "--json").out)["pessimism"] == 2.5
    assert "--pessimism inf: write a finite number" in fails(*train, tmp_path / "x", "--pessimism", "inf")
    assert "pessimism" in fails(*train, tmp_path / "x", "--pessimism", -1)
    assert not (tmp_path / "x").exists()


def test_progress_without_a_terminal(cli: Cli, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines on standard error, and nothing but the result on standard output."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    train = ("simulator", "train", data, "--out", tmp_path / "sim", "--config", tmp_path / "settings.toml", "--json")
    result = cli(*train)
    assert set(json.loads(result.out)) == {"out", "epochs", "metrics", "choice_auc", "pessimism", "support"}
    first, second, *_, last = result.err.splitlines()
    assert first == f"gfn4rec: opening {data}"
    assert re.fullmatch(r"gfn4rec: training: 1 of (\d+), epoch 1 of 1, loss \d\.\d{4}", second)
    assert re.fullmatch(r"gfn4rec: training: (\d+) of \1, epoch 1 of 1, loss \d\.\d{4}, about 0 s left", last)


def test_interrupted(cli: Cli, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch, is_second = response_loop.train_epoch, iter((False, False, True))

    def interrupted(*arguments: object) -> float:
        if next(is_second):
            raise KeyboardInterrupt
        return epoch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(response_training, "train_epoch", interrupted)
    train = ("simulator", "train", data, "--config", tmp_path / "settings.toml", "--epochs", 2, "--out")
    assert cli(*train[:-3], "--out", tmp_path / "one").code == 0
    result = cli(*train, tmp_path / "sim")
    assert (result.code, result.err) == (130, "gfn4rec: stopped; add --resume to continue\n")
    monkeypatch.setattr(response_training, "train_epoch", epoch)
    assert cli(*train, tmp_path / "sim", "--resume").code == 0

    def at_once(*_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(response_training, "train_epoch", at_once)
    result = cli(*train, tmp_path / "two")
    assert (result.code, result.err) == (130, "gfn4rec: stopped in the first epoch; nothing was saved\n")
    assert not (tmp_path / "two").exists()


def test_mistakes(fails: Fails, data: Path, tmp_path: Path) -> None:
    assert "--rho" in fails("simulator", "train", data, "--out", tmp_path / "sim", "--rho", -0.1)
    assert "--rho inf: write a finite number" in fails(
        "simulator", "train", data, "--out", tmp_path / "sim", "--rho", "inf"
    )
    assert "not a prepared data set" in fails("simulator", "train", tmp_path, "--out", tmp_path / "sim")
    (tmp_path / "settings.toml").write_text("epoch = 3")
    line = fails("simulator", "train", data, "--out", tmp_path / "sim", "--config", tmp_path / "settings.toml")
    assert "settings.toml: unknown key 'epoch'; did you mean 'num_epochs'?" in line
    assert "not a simulator" in fails("simulator", "frontier", data, "--data", data)
    line = fails(
        "simulator", "import-reference", tmp_path / "no.safetensors", "--data", data, "--out", tmp_path / "sim"
    )
    assert "the published model needs the feature 'gender'" in line
    assert not (tmp_path / "sim").exists()

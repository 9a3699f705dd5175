"""`gfn4rec search`, from the command line."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gfn4rec.experiments.jobs import campaign
from gfn4rec.experiments.search import search
from gfn4rec.experiments.search.tuned import read_tuned
from tests.conftest import Cli
from tests.training.conftest import TRIAL

SETTINGS = {**TRIAL, "weight_decay": 0.0}


def search_command(folder: Path, data_folder: Path, out: Path, *more: object) -> list[object]:
    command = ["search", "--data", data_folder, "--simulator", folder / "simulator", "--out", out]
    settings = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    return [*command, "--trials", 2, "--steps", 6, "--batches", 2, *settings, *more]


def test_search(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path) -> None:
    command = search_command(folder, data_folder, tmp_path / "out", "cf", "--workers", 2)
    result = cli(*command)
    assert result.code == 0, result.err
    assert [line.partition(", best")[0] for line in result.err.splitlines()] == [
        f"gfn4rec: cf: {done} of 2 trials" for done in (1, 2)
    ]
    assert result.err.endswith(", about 0 s left\n")
    for word in ("cf, 2 trials", "reward", "learning_rate", "done", f"are in {tmp_path / 'out' / 'tuned.toml'}"):
        assert word in result.out
    assert len(list((tmp_path / "out" / "runs").glob("*/measurements.jsonl"))) == 2

    found = json.loads(cli(*command, "--json").out)  # at once: all trials are known
    best = found["policies"]["cf"]
    assert [trial["state"] for trial in best["trials"]] == ["done", "done"]
    assert {trial["point"]["learning_rate"] for trial in best["trials"]} == {1e-3, 1e-4}
    assert best["value"] == max(trial["value"] for trial in best["trials"])
    assert read_tuned(tmp_path / "out" / "tuned.toml")["online"] == {"cf": {**SETTINGS, **best["changes"]}}
    assert f"{best['value']:.4f}  {best['changes']['learning_rate']:.4g}" in result.out


def test_other_values(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path) -> None:
    command = search_command(folder, data_folder, tmp_path, "cf", "--workers", 1, "--values", "learning_rate=0.02,0.03")
    found = json.loads(cli(*command, "--json").out)["policies"]["cf"]
    assert [trial["point"]["learning_rate"] for trial in found["trials"]] in ([0.02, 0.03], [0.03, 0.02])


@pytest.mark.parametrize("text", ["learning_rate", "learning_rate=", "learning_rate=a,b"])
def test_values_that_are_not_numbers(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path, text: str) -> None:
    result = cli(*search_command(folder, data_folder, tmp_path / "out", "cf", "--values", text))
    assert (result.code, result.err) == (2, f"gfn4rec: --values {text}: write KEY=NUMBER,NUMBER,...\n")
    assert not (tmp_path / "out").exists()


def test_a_data_set_is_not_searched_into(cli: Cli, folder: Path, data_folder: Path) -> None:
    before = sorted(path.name for path in data_folder.iterdir())
    result = cli(*search_command(folder, data_folder, data_folder, "cf"))
    assert result.code == 2
    assert (
        result.err == f"gfn4rec: {data_folder}: is a data set, a simulator, a run or the like; choose another --out\n"
    )
    assert sorted(path.name for path in data_folder.iterdir()) == before


@pytest.mark.parametrize("how", [campaign.Interrupted, KeyboardInterrupt])
def test_interrupted(
    cli: Cli,
    folder: Path,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: type[BaseException],
) -> None:
    def interrupted(*_: object) -> None:
        if how is KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        raise how

    monkeypatch.setattr(search, "search", interrupted)
    result = cli(*search_command(folder, data_folder, tmp_path / "out", "cf"))
    assert result.code == 130
    assert result.err == "gfn4rec: stopped; the same command resumes the search\n"


def test_mistakes(fails: Callable[..., str], folder: Path, data_folder: Path, tmp_path: Path) -> None:
    def fails_with(*more: object) -> str:
        return fails(*search_command(folder, data_folder, tmp_path / "out", *more))

    assert "no policy 'gfm'; did you mean 'gfn'?" in fails_with("cf", "gfm")
    assert "policy random is not trained" in fails_with("random")
    assert "strategy: Input should be 'line', 'grid' or 'tpe', got 'lines'" in fails_with("cf", "--strategy", "lines")
    assert "unknown key 'b_q'; did you mean" in fails_with("gfn", "--set", "b_q=1")
    assert "--engine slurm: choose local or ray" in fails_with("cf", "--engine", "slurm")
    assert "trials: the database cannot be opened" in fails_with("cf", "--storage", "trials")
    assert "nowhere: not a" in fails_with("cf", "--data", tmp_path / "nowhere")
    assert not (tmp_path / "out").exists()

"""`gfn4rec evaluate` and `train`: held-out metrics, verdicts, reward weights, and runs without a simulator."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gfn4rec import api
from gfn4rec.evaluation.held_out_protocol import HeldOut, HeldOutResults, HeldOutRow, measure_references
from gfn4rec.policies import POLICIES
from tests.cli.conftest import online_command
from tests.conftest import Cli
from tests.evaluation.held_out_example import LOG, WeighedPrior, make_data

FEW = ("--batches", 1, "--oracle-batches", 0)
COLUMNS = ("Recall@6", "NDCG@6", "Hit rate@6", "MRR@6", "Distinct", "Gini", "Records", "Rare", "Same first")


@pytest.fixture
def offline_run(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path) -> Path:
    """A run that knows no simulator."""
    command = ["train", "offline", "--data", data_folder, "--config", folder / "offline.toml"]
    assert cli(*command, "--policy", "cf", "--out", tmp_path / "offline").code == 0
    return tmp_path / "offline"


@pytest.fixture
def prior_run(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of a policy with a prior, which is popularity."""
    monkeypatch.setitem(POLICIES, "weighed", WeighedPrior)
    command = ["train", "online", "--data", data_folder, "--simulator", folder / "simulator", "--policy", "weighed"]
    few = ["--set", "num_steps=2", "--set", "evaluation_batches=1", "--set", "final_batches=1", "--set", "num_users=8"]
    assert cli(*command, *few, "--out", tmp_path / "prior").code == 0
    return tmp_path / "prior"


def evaluated(cli: Cli, *arguments: object) -> dict[str, Any]:
    result = cli("evaluate", *arguments, "--json")
    assert result.code == 0, result.err
    runs: dict[str, Any] = json.loads(result.out)["runs"]
    return runs


def test_evaluate_ends_with_held_out_metrics_and_a_verdict(cli: Cli, folder: Path) -> None:
    printed = cli("evaluate", folder / "run", *FEW).out
    found = evaluated(cli, folder / "run", *FEW)["run"]
    held_out = found["held_out"]
    title = f"held-out: {held_out['num_slates']} test slates, {held_out['num_relevant']} with a new item of a reward of"
    assert f"{title} at least {held_out['liked']:g}\n" in printed
    lines = printed[printed.index("held-out:") :].splitlines()
    assert all(word in lines[1] for word in COLUMNS)
    assert [line.split()[0] for line in lines[2:5]] == ["greedy", "popularity", "random"]
    assert f"{held_out['references']['popularity']['recall']:.4f}" in lines[3]
    assert printed.endswith(f"\n\n{found['verdict']['greedy']['summary']}\n")
    assert list(held_out["rows"]) == ["greedy"]
    assert api.evaluate(folder / "run", num_batches=1, oracle_batches=0).held_out == HeldOutResults(**held_out)


def test_a_trained_run_has_them_too(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path) -> None:
    stored = json.loads((folder / "run" / "results.json").read_text(encoding="utf-8"))
    assert stored["held_out"] == evaluated(cli, folder / "run", *FEW)["run"]["held_out"]
    printed = cli(*online_command(folder, data_folder, tmp_path / "run")).out
    assert all(word in printed for word in COLUMNS)
    trained = json.loads(cli(*online_command(folder, data_folder, tmp_path / "again", "--json")).out)
    assert trained["held_out"] == stored["held_out"]
    assert f"\n{trained['verdict']['greedy']['summary']}\n" in printed


def test_results_of_before_are_opened(cli: Cli, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    path = tmp_path / "run" / "results.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    del stored["held_out"]
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert evaluated(cli, tmp_path / "run", *FEW)["run"]["held_out"] is not None


def test_without_a_simulator_the_test_slates_are_evaluated(
    cli: Cli, fails: Callable[..., str], offline_run: Path, folder: Path, tmp_path: Path
) -> None:
    printed = cli("evaluate", offline_run).out
    assert printed.startswith("test slates: R-NDCG")
    assert "Average reward" not in printed
    assert "oracle" not in printed
    found = evaluated(cli, offline_run)["offline"]
    assert (found["rows"], found["oracle"]) == ({}, [])
    stored = json.loads((offline_run / "results.json").read_text(encoding="utf-8"))
    assert (found["test"], found["held_out"]) == (stored["test"], stored["held_out"])
    in_simulator = evaluated(cli, offline_run, "--simulator", folder / "simulator", *FEW)["offline"]
    assert set(in_simulator["rows"]) == {"greedy", "T=1"}
    assert in_simulator["held_out"] == found["held_out"]
    line = fails("evaluate", offline_run, "--plot", tmp_path / "p.png")
    assert "was trained without one; name one with --simulator" in line
    line = fails("evaluate", offline_run, "--pessimism", 3)
    assert "was trained without a simulator; name one with --simulator" in line


def test_without_test_slates_there_is_no_held_out_table(
    cli: Cli, fails: Callable[..., str], folder: Path, tmp_path: Path
) -> None:
    make_data(tmp_path / "data", LOG, test_slates=0)
    few = ["--set", "num_steps=1", "--set", "learning_batch=2", "--out", tmp_path / "run", "--threads", 1]
    trained = cli(
        "train", "offline", "--data", tmp_path / "data", "--policy", "cf", "--config", folder / "offline.toml", *few
    )
    assert trained.code == 0, trained.err
    assert "held-out" not in trained.out
    assert "held_out" not in json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    assert "was trained without a simulator; name one with --simulator" in fails("evaluate", tmp_path / "run")


def test_liked_items_are_those_of_the_threshold(cli: Cli, offline_run: Path) -> None:
    strict, lax = (evaluated(cli, offline_run, "--liked", liked)["offline"]["held_out"] for liked in (99, -9))
    assert (strict["liked"], strict["num_relevant"]) == (99, 0)
    assert strict["rows"]["greedy"]["recall"] is None
    assert strict["rows"]["greedy"]["distinct"] == lax["rows"]["greedy"]["distinct"] > 0
    assert lax["num_relevant"] > 0
    printed = cli("evaluate", offline_run, "--liked", 99).out
    assert "0 with a new item of a reward of at least 99" in printed
    assert "no test slates have a liked item to find" in printed
    (line,) = [line for line in printed.splitlines() if line.startswith("popularity")]
    assert line.split()[1:5] == ["-"] * 4


def test_runs_of_one_data_set_share_references(
    cli: Cli, folder: Path, offline_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = list[HeldOut]()

    def measure(tests: HeldOut, report: api.EvaluationReport) -> dict[str, HeldOutRow]:
        measured.append(tests)
        return measure_references(tests, report)

    monkeypatch.setattr(api, "measure_references", measure)
    printed = cli("evaluate", folder / "run", offline_run, *FEW).out
    assert len(measured) == 1
    names = [line.split()[0] for line in printed[printed.index("held-out:") :].splitlines()[2:6]]
    assert names == ["run", "offline", "popularity", "random"]
    found = evaluated(cli, folder / "run", offline_run, *FEW)
    assert f"\nrun greedy: {found['run']['verdict']['greedy']['summary']}\n" in printed
    assert printed.endswith(f"\noffline greedy: {found['offline']['verdict']['greedy']['summary']}\n")
    assert found["run"]["held_out"]["references"] == found["offline"]["held_out"]["references"]


def test_each_reward_weight_is_measured(cli: Cli, prior_run: Path) -> None:
    found = evaluated(cli, prior_run, "--reward-weight", "1,0,2", *FEW)["prior"]
    ways = ["greedy", "T=1", "greedy, w=0", "T=1, w=0", "greedy, w=2", "T=1, w=2"]
    assert list(found["rows"]) == ways
    rows, references = found["held_out"]["rows"], found["held_out"]["references"]
    assert list(rows) == ["greedy", "greedy, w=0", "greedy, w=2", "prior alone"]
    assert rows["greedy, w=0"] == rows["prior alone"] == references["popularity"]  # its prior is popularity
    assert rows["greedy"] != rows["prior alone"]
    assert list(found["verdict"]) == ["greedy", "greedy, w=0", "greedy, w=2"]
    alone = evaluated(cli, prior_run, *FEW)["prior"]
    assert alone["rows"] == {way: found["rows"][way] for way in ("greedy", "T=1")}
    assert list(alone["held_out"]["rows"]) == ["greedy", "prior alone"]
    assert found["rows"]["greedy, w=0"]["expected_reward"] != found["rows"]["greedy"]["expected_reward"]


def test_bad_weights_and_thresholds(fails: Callable[..., str], folder: Path, prior_run: Path) -> None:
    run = folder / "run"
    assert "policy gfn has no prior, so a reward weight of 2 has no meaning; leave --reward-weight at 1" in fails(
        "evaluate", run, "--reward-weight", "1,2"
    )
    assert "--reward-weight x: write numbers separated by commas" in fails("evaluate", run, "--reward-weight", "x")
    assert "--reward-weight -1: write finite numbers of at least 0" in fails("evaluate", run, "--reward-weight=-1")
    assert "--reward-weight nan: write finite" in fails("evaluate", run, "--reward-weight", "nan")
    assert "reward_weight 2000.0: must lie between 0" in fails("evaluate", prior_run, "--reward-weight", "2000")
    assert "--liked nan: write a finite number" in fails("evaluate", run, "--liked", "nan")
    assert "'--liked'" in fails("evaluate", run, "--liked", "much")

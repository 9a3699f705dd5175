"""The whole online loop in two processes earns what it earns in one, and goes on after an interruption."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY, Cli
from tests.end_to_end.test_own_log import SETTINGS, log, prepare_and_simulate

__all__ = ["log"]


def run_two(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "gfn4rec"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *map(str, arguments)], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )


def test_two_processes_earn_what_one_does(cli: Cli, log: Path, tmp_path: Path) -> None:
    prepare_and_simulate(cli, log, tmp_path, "--paper")  # users who respond often, so that rewards have little noise
    (tmp_path / "run.toml").write_text(SETTINGS)
    train = ["train", "online", "--data", tmp_path / "data", "--simulator", tmp_path / "sim"]
    train += ["--config", tmp_path / "run.toml", "--json"]
    alone = [
        json.loads(cli(*train, "--out", tmp_path / f"run{seed}", "--seed", seed).out)["sampled"]["expected_reward"]
        for seed in range(3)
    ]
    result = run_two(*train, "--out", tmp_path / "two")
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("{")]  # one process tells the results
    spread = max(alone) - min(alone)
    found = json.loads(line)["sampled"]["expected_reward"]
    assert min(alone) - spread <= found <= max(alone) + spread, (alone, found)

    manifest = json.loads((tmp_path / "two" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["num_processes"] == 2
    newest = sorted((tmp_path / "two" / "checkpoints").iterdir())[-1]
    assert {"replay.safetensors", "replay-1.safetensors"} <= {path.name for path in newest.iterdir()}
    (tmp_path / "two" / "results.json").unlink()
    again = run_two("train", "resume", tmp_path / "two", "--json")
    assert again.returncode == 0, again.stderr
    (line,) = [line for line in again.stdout.splitlines() if line.startswith("{")]
    assert json.loads(line)["sampled"]["expected_reward"] == found

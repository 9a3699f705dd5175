"""The number of threads of commands: fixed for trainings and kept with them, following the free cores elsewhere."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gfn4rec.live import running
from gfn4rec.live.host import Place
from gfn4rec.training import threads as threads_module
from gfn4rec.training.replay import ReplayBuffer
from gfn4rec.training.threads import Threads
from tests.cli.conftest import online_command
from tests.conftest import Cli, Result


class Machine:
    """A machine with three cores for PyTorch, of which some are free; records what numbers of threads are set."""

    def __init__(self) -> None:
        self.free, self.number, self.numbers = 3.0, 3, list[int]()

    def __call__(self, _: int) -> "Machine":
        """Return what measures free cores."""
        return self

    def measure(self) -> float:
        return self.free

    def count_own(self, _: int) -> None:
        pass

    def set_num_threads(self, number: int) -> None:
        self.number = number
        self.numbers.append(number)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine, settle = Machine(), Threads.settle
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads_module, "FreeCores", machine)
    monkeypatch.setattr(Threads, "settle", lambda threads: settle(threads, lambda _: None))
    monkeypatch.setattr(torch, "set_num_threads", machine.set_num_threads)
    monkeypatch.setattr(torch, "get_num_threads", lambda: machine.number)
    return machine


def stored(path: Path) -> object:
    return json.loads((path / "manifest.json").read_text(encoding="utf-8"))["num_threads"]


NOTE = "other processes are busy: training with 2 instead of 3 threads from here on"


@pytest.mark.parametrize(
    ("free", "options", "expected", "is_noted"),
    [(3.0, [], 3, False), (2.1, [], 2, True), (2.1, ["--threads", 3], 3, False), (3.0, ["--threads", 1], 1, False)],
)
def test_a_training_takes_free_cores_once_and_keeps_the_number(
    machine: Machine,
    cli: Cli,
    folder: Path,
    data_folder: Path,
    tmp_path: Path,
    free: float,
    options: list[object],
    expected: int,
    is_noted: bool,
) -> None:
    machine.free = free
    command = ["train", "offline", "--data", data_folder, "--config", folder / "offline.toml", "--set", "num_steps=1"]
    result = cli(*command, "--out", tmp_path / "run", *options)
    assert result.code == 0, result.err
    assert machine.numbers == [expected]
    assert stored(tmp_path / "run") == expected
    assert (NOTE in result.err) == is_noted


def interrupted_run(cli: Cli, command: list[object]) -> Result:
    """Ask an online run to end in its third step."""
    add, calls = ReplayBuffer.add, list[int]()
    with pytest.MonkeyPatch.context() as patch:

        def interrupted(self: ReplayBuffer, *arguments: object) -> None:
            calls.append(1)
            if len(calls) == 3:
                signal.raise_signal(signal.SIGINT)
            add(self, *arguments)  # type: ignore[arg-type]

        patch.setattr(ReplayBuffer, "add", interrupted)
        return cli(*command)


def test_a_resumed_run_keeps_its_number_unless_another_is_asked_for(
    machine: Machine, cli: Cli, folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    machine.free = 2.0
    runs = [tmp_path / "one", tmp_path / "other"]
    for run in runs:
        machine.number = 3
        assert interrupted_run(cli, online_command(folder, data_folder, run)).code == 130
        assert stored(run) == 2
    machine.free, machine.number = 3.0, 3
    machine.numbers.clear()
    result = cli("train", "resume", runs[0])
    assert (result.code, "threads" in result.err) == (0, False)
    assert set(machine.numbers) == {2}
    result = cli("train", "resume", runs[1], "--threads", 3)
    assert "was begun with 2 threads; with 3, its numbers differ by rounding" in result.err
    assert machine.number == 3
    assert stored(runs[1]) == 2  # what the first steps were made with


def test_a_run_of_an_earlier_version_resumes_as_before(
    machine: Machine, cli: Cli, folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    assert interrupted_run(cli, online_command(folder, data_folder, tmp_path / "run")).code == 130
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    del manifest["num_threads"]
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    machine.free = 1.0
    assert cli("train", "resume", tmp_path / "run").code == 0
    assert set(machine.numbers) == {3}


def test_a_simulator_keeps_its_number(
    machine: Machine, cli: Cli, folder: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gfn4rec.training import response_training

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    machine.free = 2.0
    command = ["simulator", "train", data_folder, "--config", folder / "model.toml", "--out", tmp_path / "sim"]
    with monkeypatch.context() as patch:
        patch.setattr(response_training, "_finish", interrupt)  # after the last epoch was saved
        assert cli(*command).code == 130
    assert stored(tmp_path / "sim") == 2
    machine.free, machine.number = 3.0, 3
    machine.numbers.clear()
    assert cli(*command, "--resume").code == 0
    assert machine.numbers == [2]


def test_an_evaluation_follows_the_free_cores(machine: Machine, cli: Cli, folder: Path) -> None:
    command = ["evaluate", folder / "run", "--batches", 3, "--oracle-batches", 0]
    machine.free = 1.2
    assert cli(*command).code == 0
    assert len(machine.numbers) > 3
    assert set(machine.numbers) == {1}
    machine.numbers.clear()
    assert cli(*command, "--threads", 3).code == 0
    assert set(machine.numbers) == {3}


def test_recommending_follows_the_free_cores(machine: Machine, cli: Cli, folder: Path) -> None:
    machine.free = 2.0
    assert cli("recommend", folder / "run", "--user", 1).code == 0
    assert machine.numbers == [2]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("options", "number", "is_fixed"), [([], 3, False), (["--threads", 2], 2, True)])
def test_the_live_learner_yields_and_follows(
    cli: Cli,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[object],
    number: int,
    is_fixed: bool,
) -> None:
    calls = list[object]()

    def learn(place: Place, *_: object, threads: Threads) -> None:
        calls.append((place.run, threads.number, threads.is_fixed))

    monkeypatch.setattr(os, "nice", calls.append)
    monkeypatch.setattr(running, "learn", learn)
    assert cli("live", "learn", folder / "run", *options).code == 0
    assert calls == [10, (folder / "run", number, is_fixed)]


SCRIPT = """
import os, gfn4rec.cli
from gfn4rec.__main__ import run
gfn4rec.cli.run = lambda: print(os.environ["GOMP_SPINCOUNT"])
run()
"""


@pytest.mark.parametrize(("given", "expected"), [({}, "600"), ({"GOMP_SPINCOUNT": "9"}, "9")])
def test_waiting_threads_soon_sleep_unless_the_environment_says_other(given: dict[str, str], expected: str) -> None:
    rest = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    script = [sys.executable, "-c", SCRIPT]
    assert subprocess.run(script, env=rest | given, check=True, capture_output=True, text=True).stdout.split() == [
        expected
    ]

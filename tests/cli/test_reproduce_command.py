"""What `gfn4rec reproduce` hands on, and how it ends; what it makes is tested in tests/experiments."""

import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gfn4rec.data.interactions import DEFAULT_RHO
from gfn4rec.experiments import benchmark
from gfn4rec.experiments.jobs.campaign import Interrupted, Lab
from gfn4rec.experiments.paper import reproduce, tuning
from gfn4rec.experiments.paper.page import WrittenReport
from gfn4rec.experiments.paper.protocol import Need, Protocol
from gfn4rec.experiments.paper.reproductions import GROUPS, REPRODUCTIONS, needs_of
from tests.conftest import Cli


class Asked:
    """Stands for the search and the runs, and remembers what they were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.searches: list[tuple[Protocol, list[Need], int, Lab, Path]] = []
        self.names: list[str] = []
        self.protocol: Protocol
        self.lab: Lab
        monkeypatch.setattr(reproduce, "reproduce", self.reproduce)
        monkeypatch.setattr(tuning, "tune", self.tune)

    def tune(self, protocol: Protocol, needs: list[Need], num_trials: int, lab: Lab, out: Path, _: object) -> Protocol:
        self.searches.append((protocol, needs, num_trials, lab, out))
        return Protocol(protocol.budget, tuned={"online": {"CF": {"learning_rate": 0.5}}})

    def reproduce(self, names: list[str], protocol: Protocol, lab: Lab, out: Path, _: object) -> WrittenReport:
        self.names, self.protocol, self.lab = names, protocol, lab
        return WrittenReport({}, out / "index.html")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


@pytest.fixture
def start(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path) -> Callable[..., Any]:
    def run(*arguments: object) -> Any:
        where = ("--data", data_folder, "--simulator", folder / "simulator", "--out", tmp_path / "out")
        return cli("reproduce", *arguments, *where)

    return run


def test_options_arrive(start: Callable[..., Any], asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "tuned.toml").write_text("[online.CF]\nlearning_rate = 0.25\n")
    options = ("--budget", "short", "--seeds", 4, "--sensitivity-seeds", 2, "--tuned", tmp_path / "tuned.toml")
    result = start("online", "data", *options, "--set", "b_f=0.7", "--summaries", tmp_path / "kept")
    assert result.code == 0, result.err
    assert asked.names == ["online", "data"]
    assert asked.protocol.budget.name == "short"
    assert (asked.protocol.num_seeds, asked.protocol.num_sensitivity_seeds) == (4, 2)
    assert asked.protocol.tuned["online"] == {"CF": {"learning_rate": 0.25}}
    assert asked.protocol.changes == {"b_f": 0.7}
    assert asked.lab.summaries == tmp_path / "kept"
    assert asked.searches == []


def test_what_a_search_finds_is_what_is_run(start: Callable[..., Any], asked: Asked, tmp_path: Path) -> None:
    assert start("balance", "--trials", 3).code == 0
    ((before, needs, num_trials, lab, out),) = asked.searches
    assert (needs, num_trials, out) == (needs_of(["balance"]), 3, tmp_path / "out" / "search")
    assert before.tuned == {}
    assert asked.protocol.tuned == {"online": {"CF": {"learning_rate": 0.5}}}
    assert asked.lab is lab


def test_pages_of_others_are_not_written_over(fails: Callable[..., str], data_folder: Path, tmp_path: Path) -> None:
    def start(out: Path, *more: object) -> str:
        return fails("reproduce", "data", "--data", data_folder, "--out", out, *more)

    (tmp_path / "project").mkdir()
    for name in ("README.md", "index.html"):
        mine = tmp_path / "project" / name
        mine.write_text("mine")
        assert f"{name}: exists, and not from `gfn4rec reproduce`; choose another --out" in start(tmp_path / "project")
        assert [path.name for path in (tmp_path / "project").iterdir()] == [name]
        mine.unlink()
    before = sorted(path.name for path in data_folder.iterdir())
    assert "choose another --out" in start(data_folder)
    assert sorted(path.name for path in data_folder.iterdir()) == before
    assert "nothere: not a simulator" in start(tmp_path / "out", "--simulator", tmp_path / "nothere")
    assert not (tmp_path / "out").exists()


def test_pages_of_before_are_written_over(cli: Cli, data_folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert cli("reproduce", "data", "--data", data_folder, "--out", tmp_path / "out").code == 0


@pytest.mark.parametrize("how", [Interrupted, KeyboardInterrupt])
def test_interrupted(start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, how: type[BaseException]) -> None:
    def interrupted(*_: object) -> None:
        if how is KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        raise how

    monkeypatch.setattr(reproduce, "reproduce", interrupted)
    result = start("online")
    assert (result.code, result.err) == (130, "gfn4rec: stopped; the same command resumes\n")


def test_users_are_trained_unless_they_are_there(
    cli: Cli, data_folder: Path, tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[Path, float, bool]] = []

    def train(_: object, __: object, target: Path, rho: float, resume: bool, ___: object) -> None:
        trained.append((target, rho, resume))

    monkeypatch.setattr(benchmark, "train_response_model", train)
    target = tmp_path / "out" / "simulator"

    def run() -> None:
        assert cli("reproduce", "balance", "--data", data_folder, "--out", tmp_path / "out").code == 0
        assert asked.lab.benchmark.simulator_path == target

    run()
    assert trained == [(target, DEFAULT_RHO, False)]
    monkeypatch.setattr(benchmark, "read_simulator_manifest", lambda _: SimpleNamespace(is_finished=False))
    run()
    assert [resume for *_, resume in trained] == [False, True]
    monkeypatch.setattr(benchmark, "read_simulator_manifest", lambda _: SimpleNamespace(is_finished=True))
    run()
    assert len(trained) == 2


def test_help_names_every_table(cli: Cli) -> None:
    shown = cli("reproduce", "--help").out
    for name in (*REPRODUCTIONS, *GROUPS):
        assert re.search(rf"\W{re.escape(name)}\W", shown), name

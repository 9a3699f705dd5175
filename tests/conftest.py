"""What all tests share. A test that needs published data skips, saying so, where the files are absent."""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import polars as pl
import pytest
import torch
from hypothesis import settings

from gfn4rec import progress
from gfn4rec.cli import main
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Behaviour, Interactions
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, generate

# As `make test` says: no command waits for a measurement of free cores, and no test depends on its result.
os.environ.setdefault("OMP_NUM_THREADS", "1")

REPOSITORY = Path(__file__).parents[1]

# The same examples in every run, and no stopwatch.
settings.register_profile("gfn4rec", deadline=None, derandomize=True)
settings.load_profile("gfn4rec")


@pytest.fixture(autouse=True)
def denormals() -> Iterator[None]:
    """A command flushes the smallest numbers to 0 for its process, which is that of the tests after it, too."""
    yield
    torch.set_flush_denormal(False)


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Cli: TypeAlias = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command line in this process, without the lines that slow machines would print on the way."""
    monkeypatch.setattr(progress, "LINE_SECONDS", math.inf)

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def fails(cli: Cli) -> Callable[..., str]:
    """Run a command that must fail as a user's mistake does: exit code 2, one line, nothing on standard output."""

    def run(*arguments: object) -> str:
        result = cli(*arguments)
        assert result.code == 2, result
        assert result.out == ""
        assert result.err.count("\n") == 1, result.err
        assert result.err.startswith("gfn4rec: ")
        assert "Traceback" not in result.err
        return result.err

    return run


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """The folder of a published data set."""

    def find(name: str) -> Path:
        folder = Path(os.environ.get("GFN4REC_DATA", REPOSITORY.parent / "shared" / "data")) / name
        if not folder.is_dir():
            pytest.skip(f"{name} is not on this machine; GFN4REC_DATA names the folder it is in")
        return folder

    return find


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small synthetic data set."""
    folder = tmp_path_factory.mktemp("data") / "tiny"
    prepare(generate(PRESETS["tiny"], seed=1)[1], PrepareConfig(), folder, "synthetic-tiny")
    return folder


@pytest.fixture(scope="session")
def data(data_folder: Path) -> SlateData:
    """The same, opened."""
    return SlateData.open(data_folder, history_length=10)


def make_interactions(
    rows: list[tuple[int | str, int | str, int, int]], behaviour: str = "click", timed: bool = True
) -> Interactions:
    """A log with one behaviour, written down as (user, item, time, response)."""
    log = pl.DataFrame(rows, schema=["user", "item", "time", behaviour], orient="row")
    return Interactions(log, (Behaviour(behaviour),), timed=timed)

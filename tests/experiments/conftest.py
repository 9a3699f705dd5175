"""A small benchmark, and settings of runs that take a second."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gfn4rec.cli import main
from gfn4rec.errors import RunError, UserError
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.engines import Event, Events, Work
from gfn4rec.experiments.jobs.job import Job
from gfn4rec.training.config import Mode
from tests.experiments.book import Book
from tests.training.conftest import small_settings

MODEL = "num_epochs = 1\nbatch_windows = 64\n[model]\ndim = 8\nembedding_dim = 8\nnum_heads = 2\nnum_layers = 1\n"


@pytest.fixture(scope="session")
def benchmark(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Benchmark:
    """The small data set with users of its own."""
    made = tmp_path_factory.mktemp("world")
    (made / "model.toml").write_text(MODEL)
    simulator = [
        "simulator",
        "train",
        data_folder,
        "--out",
        made / "simulator",
        "--config",
        made / "model.toml",
        "--paper",
    ]
    assert main([str(part) for part in simulator]) == 0
    return Benchmark(data_folder, made / "simulator")


def small_job(policy: str = "gfn", mode: Mode = "online", seed: int = 0, **changes: Any) -> Job:
    settings = small_settings(policy, mode, changes).model_copy(update={"seed": seed})
    return Job(settings=settings, temperatures=(1.0,), num_batches=2)


class HereEngine:
    """Runs items in this process, one after the other."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def run(self, work: Work, items: Iterable[Any]) -> Events:
        for index, item in enumerate(items):
            self.items.append(item)
            yield Event(index)
            try:
                yield Event(index, is_finished=True, result=work(item, lambda *_: None))
            except (UserError, RunError) as error:
                yield Event(index, is_finished=True, failure=str(error))


@pytest.fixture
def engine() -> HereEngine:
    return HereEngine()


@pytest.fixture
def book(benchmark: Benchmark) -> Book:
    return Book(benchmark)

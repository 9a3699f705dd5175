"""Engines run work on many items, in processes of this machine and on a Ray cluster that the tests start."""

import logging
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from gfn4rec.errors import UserError
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.campaign import Lab
from gfn4rec.experiments.jobs.engines import Engine, Event, LocalEngine, RayEngine, open_engine
from gfn4rec.experiments.search.search import SearchConfig, search
from tests.experiments.conftest import HereEngine
from tests.experiments.work import add_tiny, square, wait_for, work_until_asked
from tests.training.conftest import TRIAL


def test_results_progress_and_failures() -> None:
    events, num_asked = list[Event](), 0

    def items() -> Iterator[int]:
        nonlocal num_asked
        for item in (3, -1, 666):
            num_asked += 1
            assert num_asked - len(endings(events)) <= 2  # an item is taken when a worker is free
            yield item

    for event in LocalEngine(num_workers=2).run(square, items()):
        events.append(event)
    assert endings(events) == {
        0: Event(0, is_finished=True, result=9),
        1: Event(1, is_finished=True, failure="-1: below zero"),
        2: Event(2, is_finished=True, failure="its process ended with code -9"),
    }
    assert Event(0, done=1, total=2) in events
    assert [event.index for event in events if event == Event(event.index)] == [0, 1, 2]  # that they began
    assert not multiprocessing.active_children()


def test_tiny_numbers_do_not_slow_workers_down() -> None:
    events = list(LocalEngine(num_workers=1).run(add_tiny, [1e-30, 1e-40]))
    assert [event.result for event in events if event.is_finished] == [pytest.approx(1e-30), 0.0]


def test_closing_the_events_stops_the_work(tmp_path: Path) -> None:
    events = LocalEngine(num_workers=1).run(work_until_asked, [tmp_path / "first", tmp_path / "second"])
    while not next(events).done:
        pass
    events.close()
    assert not multiprocessing.active_children()
    assert (tmp_path / "first").read_text() == "saved"
    assert not (tmp_path / "second").exists()


def test_engines_by_name() -> None:
    assert isinstance(open_engine("ray", 2, "auto"), RayEngine)
    engine = open_engine("local", 3)
    assert isinstance(engine, LocalEngine)
    assert engine.num_workers == 3
    with pytest.raises(UserError, match="--engine grid: choose local or ray"):
        open_engine("grid")
    with pytest.raises(UserError, match="--address auto: needs --engine ray"):
        open_engine("local", None, "auto")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Engine]:
    """A Ray cluster of this machine that runs two items at a time."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield RayEngine()
    ray.shutdown()


def test_an_address_without_a_cluster() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with pytest.raises(UserError, match="--address 127.0.0.1:1: no Ray cluster there"):
        next(RayEngine("127.0.0.1:1").run(square, [3]))


def test_a_cluster_returns_results_and_failures(cluster: Engine) -> None:
    ended = endings(list(cluster.run(square, [3, -1, 13, 666])))
    assert ended[0] == Event(0, is_finished=True, result=9)
    assert ended[1].failure == "-1: below zero"
    assert ended[2].failure == "ZeroDivisionError: bad luck"
    assert "died" in str(ended[3].failure)


def test_closing_the_events_stops_the_work_of_a_cluster(cluster: Engine, tmp_path: Path) -> None:
    events = cluster.run(wait_for, [tmp_path / "first", tmp_path / "second", tmp_path / "third"])
    assert [next(events), next(events)] == [Event(0), Event(1)]
    assert next(events) == Event(0, is_finished=True)
    events.close()
    assert (tmp_path / "second").read_text() == "saved"
    assert not (tmp_path / "third").exists()


def test_a_search_is_the_same_on_a_cluster(cluster: Engine, benchmark: Benchmark, tmp_path: Path) -> None:
    config = SearchConfig(num_steps=6, num_trials=2, num_batches=2, changes={**TRIAL, "weight_decay": 0.0})
    found = search("cf", config, Lab(benchmark, cluster), tmp_path / "cluster")
    assert len({trial.value for trial in found.trials}) == len(found.trials) == 2
    here = search("cf", config, Lab(benchmark, HereEngine()), tmp_path / "here")
    assert [trial.point for trial in here.trials] == [trial.point for trial in found.trials]
    assert [trial.value for trial in here.trials] == pytest.approx([trial.value for trial in found.trials], rel=1e-5)


def endings(events: list[Event]) -> dict[int, Event]:
    return {event.index: event for event in events if event.is_finished}

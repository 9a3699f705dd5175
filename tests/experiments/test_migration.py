"""Results of earlier versions become JSON lines with new keys; their values stay."""

import json
from pathlib import Path

import pytest

from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.migration import migrate
from gfn4rec.experiments.jobs.result import JobResult
from gfn4rec.experiments.jobs.store import ResultStore
from gfn4rec.experiments.jobs.tasks import JobTask, OracleTask
from tests.experiments.book import oracle_point
from tests.experiments.conftest import small_job
from tests.experiments.test_campaign import made_up
from tests.experiments.test_store import old_text

POINTS = [oracle_point("random", 30.0, 0.123456789123).as_dict()]


@pytest.fixture
def tasks(benchmark: Benchmark, tmp_path: Path) -> list[JobTask]:
    """Three jobs, whose results and whose oracle lie in files of an earlier version."""
    folder = tmp_path / "summaries"
    folder.mkdir()
    tasks = [JobTask(small_job(seed=seed), benchmark, tmp_path / "runs") for seed in (2, 0, 1)]
    for task in tasks:
        key = task.job.legacy_key(benchmark)
        (folder / f"{key}.json").write_text(old_text(made_up(task, 0.25), key))
    (folder / f"ruler-{OracleTask(tasks[0].job, benchmark).key()}.json").write_text(json.dumps(POINTS))
    return tasks


def test_results_have_the_same_values_under_their_new_keys(
    benchmark: Benchmark, tasks: list[JobTask], tmp_path: Path
) -> None:
    folder = tmp_path / "summaries"
    elsewhere = Benchmark(benchmark.data_path, benchmark.simulator_path)
    elsewhere.__dict__["identity"] = "elsewhere"
    assert migrate(folder, [elsewhere, benchmark]) == {"made-up.jsonl": 3, "oracles.jsonl": 1}
    assert sorted(path.name for path in folder.glob("[!.]*")) == ["made-up.jsonl", "oracles.jsonl"]
    lines = (folder / "made-up.jsonl").read_text().splitlines()
    assert [JobResult.model_validate_json(line).job.settings.seed for line in lines] == [0, 1, 2]
    store = ResultStore(tmp_path / "runs", folder)
    assert [store.find(task) for task in tasks] == [made_up(task, 0.25) for task in tasks]
    oracle = store.find_oracle(OracleTask(tasks[0].job, benchmark))
    assert oracle is not None
    assert [point.as_dict() for point in oracle.points] == POINTS
    assert migrate(folder, [benchmark]) == {}
    assert (folder / "made-up.jsonl").read_text().splitlines() == lines


def test_what_belongs_elsewhere_is_left_as_it_is(benchmark: Benchmark, tasks: list[JobTask], tmp_path: Path) -> None:
    folder = tmp_path / "summaries"
    (path,) = folder.glob(f"{tasks[0].job.legacy_key(benchmark)}.json")
    path.rename(path.with_name("other.json"))
    (folder / "notes.json").write_text("{")
    before = {path.name: path.read_text() for path in folder.iterdir()}
    elsewhere = Benchmark(benchmark.data_path, benchmark.simulator_path)
    elsewhere.__dict__["identity"] = "elsewhere"
    assert migrate(folder, [elsewhere]) == {}
    assert {path.name: path.read_text() for path in folder.iterdir()} == before
    assert migrate(folder, [benchmark]) == {"made-up.jsonl": 2, "oracles.jsonl": 1}
    assert sorted(path.name for path in folder.glob("*.json")) == ["notes.json", "other.json"]

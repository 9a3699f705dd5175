"""Results are found beside their run or among summaries, also those that earlier versions wrote."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gfn4rec import api
from gfn4rec.evaluation import slates
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.campaign import carry_out
from gfn4rec.experiments.jobs.execute import execute, lacks_metrics
from gfn4rec.experiments.jobs.result import JobResult
from gfn4rec.experiments.jobs.store import ResultStore
from gfn4rec.experiments.jobs.tasks import JobTask
from gfn4rec.metrics import METRICS, Group, Metric
from tests.experiments.conftest import HereEngine, small_job

JOB = small_job("random")
NEW = Metric("new", "slates", "New", 2, "higher", "A metric that was added after results were stored.")


@pytest.fixture(scope="module")
def result(benchmark: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> JobResult:
    """What a job without training measures."""
    result = execute(JOB, benchmark, tmp_path_factory.mktemp("runs"))
    assert result is not None
    return result


@pytest.fixture
def task(benchmark: Benchmark, tmp_path: Path) -> JobTask:
    return JobTask(JOB, benchmark, tmp_path / "runs")


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "runs", tmp_path / "summaries")


def old_text(result: JobResult, key: str) -> str:
    """The result as earlier versions wrote it."""
    values = result.entry()
    return json.dumps({**values, "key": key, "figures": values.pop("metrics")}, indent=1)


def test_results_are_found_beside_their_run_or_among_summaries(
    result: JobResult, task: JobTask, store: ResultStore, tmp_path: Path
) -> None:
    assert store.find(task) is None
    kept = store.keep(task, result)
    found = store.find(task)
    assert found == kept
    assert found.metrics["greedy"]["reward"] == pytest.approx(result.metrics["greedy"]["reward"], rel=1e-5)
    assert found.job == result.job
    shutil.rmtree(tmp_path / "runs")
    assert store.find(task) == found
    assert ResultStore(tmp_path / "elsewhere", tmp_path / "summaries").find(task) == found
    assert ResultStore(tmp_path / "runs").find(task) is None


@pytest.mark.parametrize("text", ["", "{", '{"key": "x"}', "\xff"])
def test_a_damaged_result_counts_as_none(result: JobResult, task: JobTask, tmp_path: Path, text: str) -> None:
    store = ResultStore(tmp_path / "runs")
    store.keep(task, result)
    (path,) = tmp_path.glob("runs/*/measurements.jsonl")
    path.write_bytes(text.encode("latin-1"))
    assert store.find(task) is None
    assert store.keep(task, result) == store.find(task)


def test_a_result_of_another_format_counts_as_none(result: JobResult, task: JobTask, tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "runs")
    store.keep(task, result)
    (path,) = tmp_path.glob("runs/*/measurements.jsonl")
    path.write_text(json.dumps({**result.entry(), "step": "many"}))
    assert store.find(task) is None


def test_a_result_with_unknown_settings_counts_as_none(result: JobResult, task: JobTask, tmp_path: Path) -> None:
    """As one that a later version has written."""
    store = ResultStore(tmp_path / "runs")
    store.keep(task, result)
    (path,) = tmp_path.glob("runs/*/measurements.jsonl")
    path.write_text(path.read_text().replace('"clip_norm"', '"unknown": 1, "clip_norm"'))
    assert store.find(task) is None


def test_a_file_has_one_sorted_line_per_result(
    result: JobResult, benchmark: Benchmark, store: ResultStore, tmp_path: Path
) -> None:
    jobs = [small_job("random", seed=seed) for seed in (10, 2, 1)] + [small_job("popularity"), JOB]
    before = list[str]()
    for job in jobs:
        one = result.model_copy(update={"job": job, "key": job.key(benchmark)})
        store.keep(JobTask(job, benchmark, store.runs), one)
        lines = (tmp_path / "summaries" / "synthetic-tiny.jsonl").read_text().splitlines()
        assert len(lines) == len(before) + 1
        assert [line for line in lines if line in before] == before  # the others stay as they were
        before = lines
    settings = [json.loads(line)["job"]["settings"] for line in before]
    names = [("popularity", 0), ("random", 0), ("random", 1), ("random", 2), ("random", 10)]
    assert [(each["policy"], each["seed"]) for each in settings] == names
    assert {path.name for path in (tmp_path / "summaries").glob("[!.]*")} == {"synthetic-tiny.jsonl"}


def test_files_are_named_by_their_benchmark(result: JobResult, task: JobTask, tmp_path: Path) -> None:
    named = {"ml-1m": "ml-1m", "My log/2024": "my-log-2024", "Ümläut": "ümläut"}
    for data, name in named.items():
        for simulator, ending in (("response model", ""), ("reference", "-reference")):
            folder = tmp_path / name / simulator
            one = result.model_copy(update={"data": data, "simulator": simulator})
            ResultStore(tmp_path / name / "runs", folder).keep(task, one)
            assert [path.name for path in folder.glob("[!.]*")] == [f"{name}{ending}.jsonl"]
            shutil.rmtree(tmp_path / name / "runs")


def test_several_may_write_at_once(result: JobResult, benchmark: Benchmark, tmp_path: Path) -> None:
    jobs = [small_job("random", seed=seed) for seed in range(12)]

    def keep(number: int) -> None:
        one = result.model_copy(update={"job": jobs[number], "key": jobs[number].key(benchmark)})
        store = ResultStore(tmp_path / f"runs-{number % 3}", tmp_path / "summaries")
        store.keep(JobTask(jobs[number], benchmark, store.runs), one)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(keep, range(12)))
    assert len((tmp_path / "summaries" / "synthetic-tiny.jsonl").read_text().splitlines()) == 12


def test_summaries_keep_their_values(result: JobResult, task: JobTask, tmp_path: Path) -> None:
    """A run that was made here, with slightly other numbers, does not change what was published."""
    published = ResultStore(tmp_path / "elsewhere", tmp_path / "summaries").keep(task, result)
    other = result.model_copy(update={"metrics": {**result.metrics, "greedy": {"reward": 9.0}}})
    ResultStore(tmp_path / "runs").keep(task, other)
    found = ResultStore(tmp_path / "runs", tmp_path / "summaries").find(task)
    assert found is not None
    assert found.metrics["greedy"] == {"reward": 9.0}
    assert ResultStore(tmp_path / "none", tmp_path / "summaries").find(task) == published


@pytest.mark.parametrize("place", ["runs", "summaries"])
def test_results_of_earlier_versions_are_found(
    result: JobResult, task: JobTask, store: ResultStore, tmp_path: Path, place: str
) -> None:
    legacy = task.job.legacy_key(task.benchmark)
    path = tmp_path / (f"runs/{legacy}/outcome.json" if place == "runs" else f"summaries/{legacy}.json")
    path.parent.mkdir(parents=True)
    path.write_text(old_text(result, legacy))
    assert store.find(task) == JobResult.model_validate(result.entry())
    path.unlink()
    assert store.find(task) == JobResult.model_validate(result.entry())  # it has gone to the summaries
    path.write_text(old_text(result, "other"))
    assert ResultStore(tmp_path / "runs").find(task) is None


@pytest.mark.parametrize("group", ["slates", "ranking"])
def test_a_result_may_lack_metrics(result: JobResult, monkeypatch: pytest.MonkeyPatch, group: Group) -> None:
    assert not lacks_metrics(result)
    monkeypatch.setitem(METRICS, "new", replace(NEW, group=group))
    assert lacks_metrics(result)


def test_held_out_metrics_are_measured_but_not_for_their_own_sake(
    result: JobResult, task: JobTask, tmp_path: Path
) -> None:
    """A result from before there were any stays as it is, to the byte; one that is measured now has them."""
    assert result.held_out is not None
    assert set(result.held_out) == {"greedy", "popularity", "random"}
    assert result.held_out["popularity"]["distinct"] > 0
    old = result.model_copy(update={"held_out": None})
    assert not lacks_metrics(old)
    assert "held_out" not in old.entry()
    assert JobResult.model_validate(old.entry()).held_out is None
    store = ResultStore(tmp_path / "runs", tmp_path / "summaries")
    assert store.keep(task, old).held_out is None
    assert store.keep(task, result).held_out == JobResult.model_validate(result.entry()).held_out
    other = result.model_copy(update={"held_out": {"greedy": {"recall": 0.5}}})
    assert store.keep(task, other).held_out == JobResult.model_validate(result.entry()).held_out


def test_a_new_metric_measures_the_run_again(
    benchmark: Benchmark, tmp_path: Path, engine: HereEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = JobTask(small_job(), benchmark, tmp_path / "runs")
    store = ResultStore(tmp_path / "runs", tmp_path / "summaries")
    first = carry_out([task], store, engine).jobs[task.key()]
    shutil.copytree(tmp_path / "summaries", tmp_path / "copy")
    engine.items.clear()

    monkeypatch.setattr(slates, "new", lambda _: 0.123456789, raising=False)
    monkeypatch.setitem(METRICS, "new", NEW)
    monkeypatch.setattr(api, "train", None)
    monkeypatch.setattr(api, "resume", None)
    second = carry_out([task], store, engine).jobs[task.key()]
    assert engine.items == [task]
    assert second.metrics == {way: {**row, "new": 0.123457} for way, row in first.metrics.items()}
    assert (second.test, second.curve, second.examples) == (first.test, first.curve, first.examples)
    engine.items.clear()
    assert carry_out([task], store, engine).jobs == {task.key(): second}
    assert carry_out([task], ResultStore(tmp_path / "none", tmp_path / "summaries"), engine).jobs[task.key()] == second
    # Without the run there is nothing to measure, and the result is used as it is.
    assert carry_out([task], ResultStore(tmp_path / "none", tmp_path / "copy"), engine).jobs[task.key()] == first
    assert engine.items == []


def test_a_known_result_is_used_if_it_cannot_be_completed(
    result: JobResult, task: JobTask, store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.keep(task, result)
    monkeypatch.setitem(METRICS, "new", NEW)
    engine = HereEngine()
    assert list(carry_out([task], store, engine).jobs) == [task.key()]
    assert engine.items == []

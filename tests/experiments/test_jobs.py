"""A job has the same key wherever its files are, and another one if anything that matters differs."""

import shutil
from pathlib import Path

import pytest

from gfn4rec import api
from gfn4rec.config import identity_values
from gfn4rec.data.identity import content_of
from gfn4rec.errors import UserError
from gfn4rec.experiments.benchmark import Benchmark, digest
from gfn4rec.experiments.jobs.execute import execute
from gfn4rec.experiments.jobs.job import Job
from gfn4rec.experiments.jobs.run_directories import find_run_directory, open_run
from gfn4rec.simulator.checkpoint import WEIGHTS
from gfn4rec.simulator.effects import ListEffects
from gfn4rec.training import online
from gfn4rec.training.recording import MetricsWriter
from gfn4rec.training.run import Run
from tests.experiments.conftest import small_job


def test_the_key_does_not_depend_on_the_place(benchmark: Benchmark, tmp_path: Path) -> None:
    assert benchmark.simulator_path is not None
    shutil.copytree(benchmark.data_path, tmp_path / "data")
    shutil.copytree(benchmark.simulator_path, tmp_path / "users")
    moved = Benchmark(tmp_path / "data", tmp_path / "users")
    assert small_job().key(moved) == small_job().key(benchmark)


def test_the_key_tells_jobs_apart(benchmark: Benchmark) -> None:
    jobs = [
        small_job(),
        small_job(seed=1),
        small_job("cf"),
        small_job(num_steps=13),
        small_job(b_f=0.25),
        small_job(rho=0.3),
        small_job(saturation=0.3),
        small_job(cascade=0.3),
        small_job(category="tags"),
        small_job("gfn", "offline"),
    ]
    for key_of in (Job.key, Job.training_key, Job.legacy_key):
        assert len({key_of(job, benchmark) for job in jobs}) == len(jobs)
        assert key_of(small_job(checkpoint_every=3), benchmark) == key_of(small_job(), benchmark)


@pytest.mark.parametrize("change", [{"num_batches": 3}, {"temperatures": (1.0, 0.5)}])
def test_how_a_run_is_measured_does_not_change_the_key_of_its_training(
    benchmark: Benchmark, change: dict[str, object]
) -> None:
    other = small_job().model_copy(update=change)
    assert other.key(benchmark) != small_job().key(benchmark)
    assert other.legacy_key(benchmark) != small_job().legacy_key(benchmark)
    assert other.training_key(benchmark) == small_job().training_key(benchmark)


@pytest.mark.parametrize(
    "change",
    [
        {"rho": 0.05},
        {"model": {"dim": 8}},
        {"files": {WEIGHTS: "y"}},
        {"kind": "reference"},
        {"effects": ListEffects(complements=0.5)},
        {"effects": ListEffects(complements=0.5, category="tags")},
    ],
)
def test_the_key_tells_simulators_apart(benchmark: Benchmark, change: dict[str, object]) -> None:
    other = Benchmark(benchmark.data_path, benchmark.simulator_path)
    other.__dict__["simulator"] = benchmark.simulator.model_copy(update=change)
    assert small_job().key(other) != small_job().key(benchmark)


def test_a_simulator_without_list_effects_has_the_key_that_it_had_before_there_were_any(benchmark: Benchmark) -> None:
    """Benchmarks and jobs of older results are identified by these values alone."""
    users = benchmark.simulator
    parts = [users.kind, users.model, users.files[WEIGHTS], users.rho]
    content = identity_values(content_of(benchmark.data))
    assert benchmark.identity == digest({**content, "simulator": parts})
    named = Benchmark(benchmark.data_path, benchmark.simulator_path)
    named.__dict__["simulator"] = users.model_copy(update={"effects": ListEffects(category="tags")})
    assert named.identity == benchmark.identity  # a category alone changes nothing
    assert set(small_job().users(benchmark)) == {"num_users", "episode_length", "rho"}


@pytest.mark.parametrize("change", ["weights", "files", "settings"])
def test_the_key_tells_data_sets_apart(benchmark: Benchmark, change: str) -> None:
    data = benchmark.data
    log = data.files["log.parquet"]
    heavy = tuple(each.model_copy(update={"weight": 5 * each.weight}) for each in data.behaviours)
    changes: dict[str, dict[str, object]] = {
        "weights": {"behaviours": heavy},
        "files": {"files": {**data.files, "log.parquet": log.model_copy(update={"content_sha256": "0"})}},
        "settings": {"settings": data.settings.model_copy(update={"test_slates": 9})},
    }
    other = Benchmark(benchmark.data_path, benchmark.simulator_path)
    other.__dict__["data"] = data.model_copy(update=changes[change])
    assert small_job().key(other) != small_job().key(benchmark)


def test_the_key_does_not_depend_on_who_wrote_the_files(benchmark: Benchmark) -> None:
    data, users = benchmark.data, benchmark.simulator
    files = {name: each.model_copy(update={"sha256": "0", "num_bytes": 1}) for name, each in data.files.items()}
    other = Benchmark(benchmark.data_path, benchmark.simulator_path)
    other.__dict__["data"] = data.model_copy(update={"files": files})
    other.__dict__["simulator"] = users.model_copy(update={"files": {**users.files, "reliability.png": "0"}})
    assert small_job().key(other) == small_job().key(benchmark)


def test_a_simulator_of_another_data_set_is_refused(benchmark: Benchmark) -> None:
    other = Benchmark(benchmark.data_path, benchmark.simulator_path)
    other.__dict__["data"] = benchmark.data.model_copy(update={"name": "other"})
    assert small_job().key(other) == small_job().key(benchmark)  # a name is not what tells data sets apart
    users = benchmark.data.files["users.parquet"].model_copy(update={"content_sha256": "0"})
    other = Benchmark(benchmark.data_path, benchmark.simulator_path)
    other.__dict__["data"] = benchmark.data.model_copy(
        update={"files": {**benchmark.data.files, "users.parquet": users}}
    )
    with pytest.raises(UserError, match="made for another data set"):
        small_job().key(other)


def test_the_key_tells_versions_apart(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    key = small_job().key(benchmark)
    monkeypatch.setattr("gfn4rec.experiments.jobs.job.CODE_VERSION", -1)
    assert small_job().key(benchmark) != key


def test_the_simulators_own_influence_is_the_default(benchmark: Benchmark) -> None:
    assert small_job(rho=benchmark.simulator.rho).key(benchmark) == small_job().key(benchmark)


def test_a_result_has_what_evaluate_measures(benchmark: Benchmark, tmp_path: Path) -> None:
    job = small_job(seed=3)
    result = execute(job, benchmark, tmp_path)
    assert result is not None
    assert result.key == job.key(benchmark)
    directory = run_directory(job, benchmark, tmp_path)
    measured = api.evaluate(directory, temperatures=(1.0,), num_batches=2, oracle_batches=0, seed=3)
    assert result.metrics == measured.rows
    assert result.test == measured.test
    assert measured.test is not None
    for row in (measured.rows["greedy"], measured.rows["T=1"], measured.test):
        assert row["r_mrr_unsorted"] != row["r_mrr"]
    assert [point.step for point in result.curve] == [0, 1, 2, 3, 4, 5, 10, 12]
    assert result.step == 12
    assert len({example.user for example in result.examples}) == 3
    assert all(len(set(example.titles)) == 6 for example in result.examples)


def test_an_interrupted_job_ends_as_if_it_had_not_been(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = small_job()
    whole = execute(job, benchmark, tmp_path / "whole")
    asked = iter([False] * 5 + [True] * 100)
    with monkeypatch.context() as patch:
        patch.setattr(online, "asked_to_end", lambda: _Asking(asked))
        assert execute(job, benchmark, tmp_path / "cut") is None
    again = execute(job, benchmark, tmp_path / "cut")
    assert whole is not None
    assert again is not None
    assert again.metrics == whole.metrics
    assert again.curve == whole.curve


class _Asking:
    def __init__(self, answers: object) -> None:
        self.answers = answers

    def __enter__(self) -> object:
        return lambda: next(self.answers)  # type: ignore[call-overload]

    def __exit__(self, *_: object) -> None:
        pass


def test_a_finished_run_is_measured_without_training(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = execute(small_job(), benchmark, tmp_path)
    monkeypatch.setattr(api, "train", None)
    monkeypatch.setattr(api, "resume", None)
    assert execute(small_job(), benchmark, tmp_path) == first


@pytest.mark.parametrize("damaged", ["manifest.json", "checkpoints/*/manifest.json", "results.json"])
def test_a_damaged_run_is_made_again(benchmark: Benchmark, tmp_path: Path, damaged: str) -> None:
    first = execute(small_job(), benchmark, tmp_path)
    assert first is not None
    directory = run_directory(small_job(), benchmark, tmp_path)
    for path in directory.glob(damaged):
        path.write_text("{")
    again = execute(small_job(), benchmark, tmp_path)
    assert again is not None
    assert again.metrics == first.metrics
    assert directory.with_name(f"{directory.name}-damaged").is_dir()  # somebody may still repair it


def test_a_finished_run_without_its_weights_is_trained_again(benchmark: Benchmark, tmp_path: Path) -> None:
    """As if somebody had made room on a disk."""
    first = execute(small_job(), benchmark, tmp_path)
    directory = run_directory(small_job(), benchmark, tmp_path)
    shutil.rmtree(directory / "checkpoints")
    assert open_run(directory) is None
    again = execute(small_job(), benchmark, tmp_path)
    assert first is not None
    assert again is not None
    assert again.metrics == first.metrics


def test_progress_is_not_lost_to_a_mistake_that_can_be_mended(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter([False] * 5 + [True] * 100)
    with monkeypatch.context() as patch:
        patch.setattr(online, "asked_to_end", lambda: _Asking(asked))
        assert execute(small_job(), benchmark, tmp_path) is None
    with monkeypatch.context() as patch:
        patch.setattr(MetricsWriter, "write", _full_disk)
        with pytest.raises(UserError, match="the disk is full"):
            execute(small_job(), benchmark, tmp_path)
    assert Run.open(run_directory(small_job(), benchmark, tmp_path)).has_checkpoints()


def _full_disk(*_: object) -> None:
    raise UserError("the disk is full")


def run_directory(job: Job, benchmark: Benchmark, runs: Path) -> Path:
    directory = find_run_directory(job, benchmark, runs)
    assert directory is not None
    return directory

"""Directories of runs: one per training, with a name that people can read."""

import re
from pathlib import Path

import pytest

from gfn4rec import api
from gfn4rec.errors import RunError
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.execute import execute
from gfn4rec.experiments.jobs.job import Job
from gfn4rec.experiments.jobs.run_directories import claim_run_directory, find_run_directory, mark_run_directory
from gfn4rec.training import online
from gfn4rec.training.run import Run
from tests.experiments.conftest import small_job


def directories(runs: Path) -> list[str]:
    return sorted(path.name for path in runs.iterdir() if path.is_dir())


def begin(job: Job, benchmark: Benchmark, runs: Path) -> Path:
    """Stands for a training."""
    with claim_run_directory(job, benchmark, runs) as directory:
        directory.mkdir(exist_ok=True)
        mark_run_directory(job, benchmark, directory)
    return directory


def test_names_can_be_read(benchmark: Benchmark, tmp_path: Path) -> None:
    directory = begin(small_job("gfn-energy", seed=3), benchmark, tmp_path)
    assert re.fullmatch(r"gfn-energy-online-seed3-[0-9a-f]{6}", directory.name)
    assert find_run_directory(small_job("gfn-energy", seed=3), benchmark, tmp_path) == directory
    assert find_run_directory(small_job("gfn-energy", seed=4), benchmark, tmp_path) is None


def test_trainings_that_share_digits_have_directories_of_their_own(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {0.1: "abcdef1000000000", 0.2: "abcdef1111111111", 0.3: "abcdef2222222222"}
    jobs = {rho: small_job(rho=rho) for rho in keys}
    monkeypatch.setattr(Job, "training_key", lambda job, _: keys[job.settings.users.rho])
    made = {rho: begin(job, benchmark, tmp_path) for rho, job in jobs.items()}
    assert [directory.name.rpartition("-")[2] for directory in made.values()] == ["abcdef", "abcdef1", "abcdef2"]
    for rho, job in jobs.items():
        assert begin(job, benchmark, tmp_path) == made[rho]
    (made[0.1] / "training_key").unlink()
    made[0.1].rmdir()
    for rho in (0.2, 0.3):  # the names of the others stay
        assert find_run_directory(jobs[rho], benchmark, tmp_path) == made[rho]
    assert begin(jobs[0.1], benchmark, tmp_path) == made[0.1]


def test_what_a_killed_process_has_left_is_not_taken_for_a_run(benchmark: Benchmark, tmp_path: Path) -> None:
    first = execute(small_job(), benchmark, tmp_path / "whole")
    begun = begin(small_job(), benchmark, tmp_path / "cut")
    (begun / "training_key").unlink()  # killed before its first step
    second = execute(small_job(), benchmark, tmp_path / "cut")
    assert first is not None
    assert second is not None
    assert second.metrics == first.metrics
    assert directories(tmp_path / "cut") == [begun.name, f"{begun.name}-damaged"]


def test_a_run_that_fails_in_its_first_step_is_resumed(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunError("the loss is nan")

    with monkeypatch.context() as patch:
        patch.setattr(online, "asked_to_end", fail)
        with pytest.raises(RunError):
            execute(small_job(), benchmark, tmp_path)
    assert execute(small_job(), benchmark, tmp_path) is not None
    assert len(directories(tmp_path)) == 1


def test_runs_of_earlier_versions_are_found(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = execute(small_job(), benchmark, tmp_path)
    (directory,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    (directory / "training_key").unlink()
    directory.rename(tmp_path / small_job().legacy_key(benchmark))
    monkeypatch.setattr(api, "train", None)
    monkeypatch.setattr(api, "resume", None)
    assert execute(small_job(), benchmark, tmp_path) == first


def test_a_new_temperature_measures_the_run_again(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = execute(small_job(), benchmark, tmp_path)
    monkeypatch.setattr(api, "train", None)
    monkeypatch.setattr(api, "resume", None)
    other = small_job().model_copy(update={"temperatures": (1.0, 0.5), "num_batches": 2})
    second = execute(other, benchmark, tmp_path)
    assert first is not None
    assert second is not None
    assert second.key != first.key
    assert set(second.metrics) == {"greedy", "T=1", "T=0.5"}
    assert {way: second.metrics[way] for way in first.metrics} == first.metrics
    assert len(directories(tmp_path)) == 1
    assert Run.open(tmp_path / directories(tmp_path)[0]).results is not None

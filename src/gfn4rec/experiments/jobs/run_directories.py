"""Directories of runs that people can read, as `gfn-energy-online-seed0-1cb13d`: one for each training."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gfn4rec.errors import UserError
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.job import Job
from gfn4rec.experiments.jobs.locking import locked
from gfn4rec.storage import make_directory, write_whole
from gfn4rec.training.run import Run

_KEY: Final = "training_key"  # the file that holds the whole key
_KEY_DIGITS: Final = range(6, 17)  # of the key in the name: more if another training has the same first ones


def find_run_directory(job: Job, benchmark: Benchmark, runs: Path) -> Path | None:
    """Return the directory of a job's training, if there is one; in earlier versions its name was the old key."""
    key = job.training_key(benchmark)
    for directory in _directories(job, key, runs):
        if _stored_key(directory) == key:
            return directory
    legacy = runs / job.legacy_key(benchmark)
    return legacy if legacy.is_dir() else None


@contextmanager
def claim_run_directory(job: Job, benchmark: Benchmark, runs: Path) -> Iterator[Path]:
    """Yield the directory of a job's training, new or begun before, while no other process can have it."""
    make_directory(runs)
    key = job.training_key(benchmark)
    shortest, *_ = _directories(job, key, runs)
    with locked(shortest):
        yield find_run_directory(job, benchmark, runs) or _new_directory(job, key, runs)


def mark_run_directory(job: Job, benchmark: Benchmark, directory: Path) -> None:
    """Store the key of the training in its directory, once there is one."""
    if directory.is_dir() and not (directory / _KEY).exists():
        write_whole(directory / _KEY, f"{job.training_key(benchmark)}\n")


def open_run(directory: Path) -> Run | None:
    """Open a run, if it can be read and has a whole checkpoint; one that is not finished may have none yet."""
    try:
        run = Run.open(directory)
        is_finished, checkpoint = run.results is not None, run.load_checkpoint(only="")
    except UserError:
        return None
    return None if is_finished and checkpoint is None else run


def set_aside(directory: Path) -> None:
    """Rename a directory that cannot be used; it is not deleted, because somebody may still repair it."""
    aside = directory.with_name(f"{directory.name}-damaged")
    shutil.rmtree(aside, ignore_errors=True)
    directory.rename(aside)


def _directories(job: Job, key: str, runs: Path) -> list[Path]:
    settings = job.settings
    return [runs / f"{settings.policy}-{settings.mode}-seed{settings.seed}-{key[:digits]}" for digits in _KEY_DIGITS]


def _stored_key(directory: Path) -> str | None:
    try:
        return (directory / _KEY).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _new_directory(job: Job, key: str, runs: Path) -> Path:
    for directory in _directories(job, key, runs):
        if directory.exists() and _stored_key(directory) is None:
            set_aside(directory)  # its process ended before the first step, so nothing is lost
        if not directory.exists():
            return directory
    raise UserError(f"{directory}: is that of another training; choose another --out")

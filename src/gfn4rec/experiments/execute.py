"""From a job to its outcome: train, or go on with a training that was interrupted, then measure."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

from gfn4rec import api
from gfn4rec.errors import UserError
from gfn4rec.evaluation.protocol import Showing
from gfn4rec.experiments.job import Job
from gfn4rec.experiments.outcome import GREEDY, CurvePoint, Example, Outcome
from gfn4rec.experiments.world import World
from gfn4rec.storage import make_directory
from gfn4rec.training.run import Run

CURVE_METRICS = ("reward", "max_reward", "expected_reward", "coverage", "ild")
_NUM_EXAMPLES = 3
Report = Callable[[int, dict[str, Any]], None]


def execute(
    job: Job, world: World, runs: Path, device: str = "cpu", report: Report = lambda *_: None
) -> Outcome | None:
    """Train in a directory of its own among `runs`, and measure; None if asked to end before.

    Whoever comes second waits for the first one, and measures what that one has trained.
    """
    directory = runs / job.key(world)
    make_directory(runs)
    with FileLock(runs / f".{directory.name}.lock"):
        if not _train(job, world, directory, device, report):
            return None
        return _outcome(job, world, directory, device)


def _outcome(job: Job, world: World, directory: Path, device: str) -> Outcome:
    run = Run.open(directory)
    results = run.results or {}
    measured = _measure(job, world, directory, device)
    return Outcome(
        key=directory.name,
        job=job,
        data=world.data.name,
        simulator=world.simulator.kind,
        step=results["step"],
        seconds=results["seconds"],
        last_steps=results.get("last_steps"),
        curve=_curve(run),
        examples=_examples(world, directory, device),
        versions=run.manifest.versions,
        git_hash=run.manifest.git_hash,
        **measured,
    )


def _train(job: Job, world: World, directory: Path, device: str, report: Report) -> bool:
    """Whether the run is finished; one that is damaged is set aside, and begun anew."""
    data, simulator = world.data_path, world.simulator_path
    try:
        run = Run.open(directory)
        run.load_checkpoint(only="")
        if run.results is not None:
            return True
    except (UserError, ValueError):
        if directory.exists():
            _set_aside(directory)
        return api.train(job.settings, data, simulator, directory, device, report) is not None
    return api.resume(directory, device, report, data=data, simulator=simulator) is not None


def _set_aside(directory: Path) -> None:
    """What cannot be read now may be read later, by somebody else: it is not deleted."""
    aside = directory.with_name(f"{directory.name}-damaged")
    shutil.rmtree(aside, ignore_errors=True)
    directory.rename(aside)


def _measure(job: Job, world: World, directory: Path, device: str) -> dict[str, Any]:
    """All policies meet the same users, which depend on the run's seed alone: differences can be paired."""
    where = (directory, world.simulator_path, world.data_path)
    seed = job.settings.seed
    found = api.evaluate(*where, job.temperatures, job.num_batches, ruler_batches=0, seed=seed, device=device)
    return {"figures": found.rows, "test": found.test}


def _curve(run: Run) -> tuple[CurvePoint, ...]:
    points = []
    for line in run.metrics():
        if "greedy" in line and "sampled" in line:
            ways = {way: {name: line[way][name] for name in CURVE_METRICS} for way in ("greedy", "sampled")}
            points.append(CurvePoint(step=line["step"], **ways))
    return tuple(points)


def _examples(world: World, directory: Path, device: str) -> tuple[Example, ...]:
    """What a few users would be shown, users spread over the whole log."""
    recommender = api.Recommender.open(directory, world.data_path, device, world.simulator_path)
    users = recommender.data.users["id"].to_list()
    chosen = [str(users[place * len(users) // _NUM_EXAMPLES]) for place in range(_NUM_EXAMPLES)]
    queries = [api.Query(user=user) for user in chosen]
    examples = []
    for way, showing in ((GREEDY, Showing(greedy=True)), ("sampled", Showing())):
        for answer in recommender.recommend(queries, showing=showing):
            titles = tuple(item.title or item.id for item in answer.slates[0].items)
            examples.append(Example(user=answer.query.user or "", way=way, titles=titles))
    return tuple(examples)

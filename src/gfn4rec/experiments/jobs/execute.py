"""Execute a job: train its policy, or resume a training that was interrupted, then measure it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from gfn4rec import api
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.job import Job
from gfn4rec.experiments.jobs.result import GREEDY, CurvePoint, Example, JobResult, Metrics
from gfn4rec.experiments.jobs.run_directories import claim_run_directory, mark_run_directory, open_run, set_aside
from gfn4rec.metrics import Metric, authors_keys, metrics_of
from gfn4rec.schema import Sampling
from gfn4rec.training.opened_run import OpenedRun
from gfn4rec.training.recording import step_of
from gfn4rec.training.run import Run

_NUM_EXAMPLES = 3
Report: TypeAlias = Callable[[int, Mapping[str, object]], None]  # a step, and its metrics


def execute(
    job: Job, benchmark: Benchmark, runs: Path, device: str = "cpu", report: Report = lambda *_: None
) -> JobResult | None:
    """Train a policy in a directory among `runs`, and measure it; None if it was interrupted.

    A training that is there is measured as it is. A second process with the same training waits for the first one.
    """
    with claim_run_directory(job, benchmark, runs) as directory:
        if not _train(job, benchmark, directory, device, report):
            return None
        return _measure(job, benchmark, directory, device)


def lacks_metrics(result: JobResult) -> bool:
    """Whether the code measures metrics now that a result does not have."""
    ranking, slates = metrics_of("ranking"), metrics_of("slates")
    on_log = [] if result.test is None else [(metric, result.test) for metric in ranking]
    in_simulator = [(metric, row) for metric in (*slates, *ranking) for row in result.metrics.values()]
    return not all(_is_in(row, metric) for metric, row in (*on_log, *in_simulator))


def _is_in(row: Metrics, metric: Metric) -> bool:
    if metric.is_per_behaviour:
        return any(key.startswith(f"{metric.key}_") for key in row)
    return metric.key in row


def _train(job: Job, benchmark: Benchmark, directory: Path, device: str, report: Report) -> bool:
    """Return whether the run is finished. A damaged one is set aside and begun again."""
    data, simulator = benchmark.data_path, benchmark.simulator_path

    def mark_and_report(step: int, metrics: Mapping[str, object]) -> None:
        mark_run_directory(job, benchmark, directory)
        report(step, metrics)

    run = open_run(directory)
    if run is not None and run.results is not None:
        return True
    try:
        if run is not None:
            return api.resume(directory, device, mark_and_report, data=data, simulator=simulator) is not None
        if directory.exists():
            set_aside(directory)
        return api.train(job.settings, data, simulator, directory, device, mark_and_report) is not None
    finally:
        mark_run_directory(job, benchmark, directory)


def _measure(job: Job, benchmark: Benchmark, directory: Path, device: str) -> JobResult:
    """Measure a finished run. All policies meet the same users, given the run's seed, so results can be paired."""
    opened = OpenedRun.open(directory, benchmark.data_path, benchmark.simulator_path, device)
    run, results = opened.run, opened.run.results
    assert results is not None
    measured = api.evaluate(
        opened,
        temperatures=job.temperatures,
        num_batches=job.num_batches,
        oracle_batches=0,
        seed=job.settings.seed,
        decoder=None if job.decoder is None else job.decoder.build(),
    )
    return JobResult(
        key=job.key(benchmark),
        job=job,
        data=benchmark.data.name,
        simulator=benchmark.simulator.kind,
        step=results.step,
        seconds=results.seconds,
        metrics=measured.rows,
        last_steps=results.last_steps,
        test=measured.test,
        held_out=_held_out(measured),
        curve=_curve(run),
        examples=_examples(opened),
        versions=run.manifest.versions,
        git_hash=run.manifest.git_hash,
    )


def _held_out(measured: api.Evaluation) -> dict[str, Metrics] | None:
    """Return the held-out metrics that are known, of the policy and of references."""
    results = measured.held_out
    if results is None:
        return None
    rows = {**results.rows, **results.references}
    return {name: {key: value for key, value in row.items() if value is not None} for name, row in rows.items()}


def _curve(run: Run) -> tuple[CurvePoint, ...]:
    points, keys = [], [metric.key for metric in metrics_of("slates") if metric.key not in authors_keys()]
    for line in run.metrics():
        ways = {way: line.get(way) for way in ("greedy", "sampled")}
        chosen = {
            way: {key: metrics[key] for key in keys if key in metrics}
            for way, metrics in ways.items()
            if isinstance(metrics, dict)
        }
        if len(chosen) == len(ways):
            points.append(CurvePoint(step=step_of(line), **chosen))
    return tuple(points)


def _examples(opened: OpenedRun) -> tuple[Example, ...]:
    """Recommend slates to a few users, spread over the whole log."""
    recommender = api.Recommender.open(opened)
    users = recommender.data.users["id"].to_list()
    chosen = [str(users[place * len(users) // _NUM_EXAMPLES]) for place in range(_NUM_EXAMPLES)]
    queries = [api.Query(user=user) for user in chosen]
    examples = []
    for way, sampling in ((GREEDY, Sampling(greedy=True)), ("sampled", Sampling())):
        for answer in recommender.recommend(queries, sampling=sampling, seed=0):
            titles = tuple(item.title or item.id for item in answer.slates[0].items)
            examples.append(Example(user=str(answer.query.user or ""), way=way, titles=titles))
    return tuple(examples)

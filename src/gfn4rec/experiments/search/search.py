"""The search for settings: many short trainings, compared by their greedy reward in the simulator."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, field_validator

from gfn4rec.config import StrictConfig
from gfn4rec.errors import UserError
from gfn4rec.experiments.benchmark import Benchmark, digest
from gfn4rec.experiments.jobs.campaign import Interrupted, Lab
from gfn4rec.experiments.jobs.engines import Engine, Event
from gfn4rec.experiments.jobs.job import CODE_VERSION, Job
from gfn4rec.experiments.jobs.tasks import JobTask
from gfn4rec.experiments.search.spaces import Grid, Point, grid_of, points_of, start_of
from gfn4rec.experiments.search.trial_task import TrialTask, run_trial
from gfn4rec.experiments.search.trials import StudyLocation, Trial, Trials, delete_trials, open_trials
from gfn4rec.experiments.search.tuned import TUNED, read_tuned, write_tuned
from gfn4rec.seeding import numpy_generator
from gfn4rec.storage import make_directory, refuse_any
from gfn4rec.training.config import Mode, RunSettings, merge_changes, resolve_settings

Strategy: TypeAlias = Literal["line", "grid", "tpe"]
ReportSearch: TypeAlias = Callable[[str, int, int], None]  # a title, how much is done, of how much
_LINE_ROUNDS = 2


class SearchConfig(StrictConfig):
    """How to search; the same for every policy that is to be compared."""

    strategy: Strategy = "line"
    """line: one setting after the other; grid: all combinations; tpe: Optuna's proposals, also between the values."""
    num_trials: int = Field(default=30, ge=1)
    """Trials, at most."""
    mode: Mode = Field(default="online", validation_alias="kind", serialization_alias="kind")  # hashed as `kind`
    """How each trial is trained."""
    num_steps: int = Field(default=1000, ge=1)
    """Training steps of each trial."""
    seed: int = 1000
    """Seed of the search and of all trials; final runs should have others, or they would be selected for their luck."""
    num_batches: int = Field(default=20, ge=1)
    """Batches of the measurement that gives a trial its value."""
    changes: dict[str, object] = Field(default_factory=dict)
    """Settings of all trials, which are not searched."""
    start: dict[str, object] = Field(default_factory=dict)
    """Settings to start from, in place of the defaults."""
    values: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Values to try of some settings, in place of the policy's usual ones."""

    @field_validator("values")
    @classmethod
    def _check_values(cls, values: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        for key, tried in values.items():
            if not tried or len(set(tried)) < len(tried):
                raise ValueError(f"{key}: write one value or more, each once")
        return values

    def settings(self, policy: str, point: Point | None = None) -> RunSettings:
        """Return the settings of a trial. It is measured when it is done, so its own evaluations are kept short."""
        short = {"num_steps": self.num_steps, "final_batches": 1}
        if self.mode == "online":
            short |= {"evaluate_every": self.num_steps, "evaluation_batches": 1}
        changes = {**short, **self.start, **self.changes, **(point or {})}
        return resolve_settings(self.mode, policy, changes=changes, seed=self.seed)


@dataclass(frozen=True)
class SearchResult:
    """The best settings of a policy, and all trials, the best first."""

    policy: str
    changes: Point
    """The best settings."""
    value: float
    """Their greedy expected reward."""
    trials: tuple[Trial, ...]


def search_all(
    policies: Sequence[str],
    config: SearchConfig,
    lab: Lab,
    out: Path,
    storage: str | None = None,
    report: ReportSearch = lambda *_: None,
    models: Mapping[str, str] | None = None,
) -> list[SearchResult]:
    """Search the settings of each policy with the same number of trials, and write the best to `tuned.toml`.

    `models` are names besides those of policies that the file may have; see `read_tuned`.
    """
    refuse_any(out)
    path = out / TUNED
    tuned = read_tuned(path, models) if path.exists() else {}
    for policy in policies:  # a mistake in the last one is reported before the first search
        check_search(policy, config)
    results = []
    for index, policy in enumerate(policies):
        result = search(policy, config, lab, out, storage, report_part(report, policy, index, len(policies)))
        tuned.setdefault(config.mode, {})[policy] = {**config.start, **config.changes, **result.changes}
        write_tuned(path, tuned)
        results.append(result)
    return results


def report_part(report: ReportSearch, name: str, index: int, num_searches: int) -> ReportSearch:
    """Return a function that reports one of several searches as a part of all."""

    def progress(title: str, done: int, total: int) -> None:
        report(f"{name}: {title}", index * total + done, num_searches * total)

    return progress


def search(
    policy: str,
    config: SearchConfig,
    lab: Lab,
    out: Path,
    storage: str | None = None,
    report: ReportSearch = lambda *_: None,
) -> SearchResult:
    """Search the best settings of a policy. An interrupted search is resumed; a finished one returns at once.

    Runs go to `out`, trials to the database of the URL `storage`, by default a file in `out`. If it is interrupted, it
    saves its state and raises `Interrupted` or KeyboardInterrupt; the same call resumes it.
    """
    grid, start = _grid_and_start(policy, config)
    out, lab = out.resolve(), lab.resolved()
    if lab.summaries is not None:
        make_directory(lab.summaries)  # a wrong path is reported before any trial
    name = _name(policy, config, lab.benchmark, grid)
    study = StudyLocation(storage or _file(out), name)
    is_adaptive = config.strategy == "tpe"

    def task_of(trial: Trial) -> TrialTask:
        job = Job(settings=config.settings(policy, trial.point), temperatures=(), num_batches=config.num_batches)
        task = JobTask(job, lab.benchmark, out / "runs", lab.device)
        return TrialTask(task, trial.number, study, is_adaptive, lab.summaries)

    with open_trials(study, grid, is_adaptive, config.num_trials) as trials:
        progress = _SearchProgress(config.num_trials, trials, report)
        for group in _plan(config, trials, grid, start):
            _run(group, task_of, trials, lab.engine, progress)
        ranked = sorted(trials.all(), key=_rank)
    best = ranked[0]
    if best.value is None:
        delete_trials(study)  # they are repeated by the next call, when the cause may be gone
        raise UserError(f"policy {policy}: all trials failed, the first one because: {best.failure}")
    return SearchResult(policy, best.point, best.value, tuple(ranked))


def check_search(policy: str, config: SearchConfig) -> None:
    """Raise UserError if a search is not possible."""
    _grid_and_start(policy, config)


def _grid_and_start(policy: str, config: SearchConfig) -> tuple[Grid, Point]:
    if "num_steps" in merge_changes(config.start, config.changes):
        raise UserError("num_steps: a search sets the steps of its trials; use --steps")
    grid = grid_of(policy, config.mode, config.changes, config.values)
    for key, values in config.values.items():
        for value in values:
            config.settings(policy, {key: value})  # a wrong value is reported before any trial
    return grid, start_of(grid, config.settings(policy))


def _file(out: Path) -> str:
    path = out / "trials.db"
    if any(sign in str(path) for sign in "?{}"):  # these have a meaning in a URL
        raise UserError(f"{path}: a path of trials must not contain ?, {{ or }}; choose another --out")
    make_directory(out)
    return f"sqlite:///{path}"


def _name(policy: str, config: SearchConfig, benchmark: Benchmark, grid: Grid) -> str:
    """Return the name of the study. It does not depend on the number of trials: a search can be extended."""
    values = config.model_dump(mode="json", exclude={"num_trials"})
    identity = digest({"config": values, "grid": grid, "world": benchmark.identity, "code": CODE_VERSION})
    return f"{policy} {config.strategy} {identity}"


def _plan(config: SearchConfig, trials: Trials, grid: Grid, start: Point) -> Iterator[Iterable[Trial]]:
    """Yield groups of trials: the trials of a group can run at the same time, the groups one after the other."""
    if config.strategy == "tpe":
        yield trials.proposals(start, config.seed)
    elif config.strategy == "grid":
        points = points_of(grid)
        order = numpy_generator(config.seed, "grid").permutation(len(points))
        yield trials.pending(points[place] for place in order)
    else:
        yield from _lines(trials, grid, start)


def _lines(trials: Trials, grid: Grid, best: Point) -> Iterator[Iterable[Trial]]:
    """Yield the trials of the paper's line search: all values of one setting beside the best of the others, in turn."""
    for _ in range(_LINE_ROUNDS):
        before = best
        for key, values in grid.items():
            line = [best, *({**best, key: value} for value in values if value != best[key])]
            yield trials.pending(line)
            best = max(line, key=trials.value)
        if best == before:
            return


def _run(
    group: Iterable[Trial],
    task_of: Callable[[Trial], TrialTask],
    trials: Trials,
    engine: Engine,
    progress: "_SearchProgress",
) -> None:
    sent: list[Trial] = []

    def tasks() -> Iterator[TrialTask]:
        for trial in group:
            sent.append(trial)
            yield task_of(trial)

    with closing(engine.run(run_trial, tasks())) as events:
        for event in events:
            if event.is_finished:
                _end(trials, sent[event.index].number, event)
            progress.update(event)


def _end(trials: Trials, number: int, event: Event) -> None:
    if event.failure is not None:
        trials.fail(number, event.failure)
    elif event.result is None:
        raise Interrupted
    elif event.result.value is None:
        trials.prune(number)
    else:
        trials.finish(number, event.result.value)


class _SearchProgress:
    """Reports the progress of a search."""

    def __init__(self, num_trials: int, trials: Trials, report: ReportSearch) -> None:
        self._num_trials, self._trials, self._report = num_trials, trials, report
        self._percent: dict[int, int] = {}
        self._count()

    def _count(self) -> None:
        finished = [trial for trial in self._trials.all() if trial.state != "running"]
        values = [trial.value for trial in finished if trial.value is not None]
        best = f", best {max(values):.4f}" if values else ""
        self._num_finished, self._title = len(finished), f"{len(finished)} of {self._num_trials} trials{best}"

    def update(self, event: Event) -> None:
        """Report a trial that began, made progress or ended."""
        if event.is_finished:
            self._percent.pop(event.index, None)
            self._count()
        elif event.total:
            self._percent[event.index] = 100 * event.done // event.total
        self._report(self._title, 100 * self._num_finished + sum(self._percent.values()), 100 * self._num_trials)


def _rank(trial: Trial) -> tuple[bool, float, int]:
    """Sort the best first, then trials without a value in the order in which they began."""
    return trial.value is None, -(trial.value or 0.0), trial.number

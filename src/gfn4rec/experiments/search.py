"""The search for settings: many short trainings, each measured by the greedy reward it ends with."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field, field_validator

from gfn4rec.config import StrictConfig
from gfn4rec.errors import UserError
from gfn4rec.experiments.attempt import Attempt, try_out
from gfn4rec.experiments.campaign import Interrupted
from gfn4rec.experiments.engines import Engine, Event
from gfn4rec.experiments.job import CODE_VERSION, Job
from gfn4rec.experiments.lab import Lab
from gfn4rec.experiments.spaces import Grid, Point, grid_of, points_of, start_of
from gfn4rec.experiments.trials import Place, Trial, Trials, forget_trials, open_trials
from gfn4rec.experiments.tuned import TUNED, read_tuned, write_tuned
from gfn4rec.experiments.world import World, digest
from gfn4rec.seeding import numpy_generator
from gfn4rec.storage import make_directory
from gfn4rec.training.config import Kind, RunSettings, merge_changes, resolve_settings

Strategy: TypeAlias = Literal["line", "grid", "tpe"]
Progress: TypeAlias = Callable[[str, int, int], None]  # what is done, how much of it, of how much
_LINE_ROUNDS = 2


class SearchConfig(StrictConfig):
    """How to search; the same for every policy that is to be compared."""

    strategy: Strategy = "line"
    """line: one setting after the other; grid: all combinations; tpe: what Optuna proposes, between the values, too."""
    num_trials: int = Field(default=30, ge=1)
    """Trials, at most."""
    kind: Kind = "online"
    """How each trial learns."""
    num_steps: int = Field(default=1000, ge=1)
    """Steps of each trial."""
    seed: int = 1000
    """Of the search and of every trial; not one of the runs that are compared, which would be chosen for their luck."""
    num_batches: int = Field(default=20, ge=1)
    """Batches of the measurement that a trial is judged by."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """Settings of every trial; they are not searched."""
    start: dict[str, Any] = Field(default_factory=dict)
    """Settings to start from, in place of the defaults; those that are searched change."""
    values: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Values to try of some settings, in place of the policy's own."""

    @field_validator("values")
    @classmethod
    def _are_different(cls, values: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        for key, tried in values.items():
            if not tried or len(set(tried)) < len(tried):
                raise ValueError(f"{key}: write one value or more, each once")
        return values

    def settings(self, policy: str, point: Point | None = None) -> RunSettings:
        """Of a trial. It is measured when it is over, so that the loop's own looks are kept short."""
        short = {"num_steps": self.num_steps, "final_batches": 1}
        if self.kind == "online":
            short |= {"evaluate_every": self.num_steps, "evaluation_batches": 1}
        changes = {**short, **self.start, **self.changes, **(point or {})}
        return resolve_settings(self.kind, policy, changes=changes, seed=self.seed)


@dataclass(frozen=True)
class Best:
    """The best settings that a search has found, and all its trials, the best first."""

    policy: str
    changes: Point
    value: float
    trials: tuple[Trial, ...]


def search_all(
    policies: Sequence[str],
    config: SearchConfig,
    lab: Lab,
    out: Path,
    storage: str | None = None,
    report: Progress = lambda *_: None,
) -> list[Best]:
    """The best settings of each policy, with the same number of trials for each; they go to `tuned.toml`, too."""
    path = out / TUNED
    tuned = read_tuned(path) if path.exists() else {}
    for policy in policies:  # a mistake in the last is told before the first is searched
        check_search(policy, config)
    found = []
    for index, policy in enumerate(policies):
        found.append(search(policy, config, lab, out, storage, one_of(report, policy, index, len(policies))))
        tuned.setdefault(config.kind, {})[policy] = {**config.start, **config.changes, **found[-1].changes}
        write_tuned(path, tuned)
    return found


def one_of(report: Progress, name: str, index: int, num_searches: int) -> Progress:
    """Tells of one search as a part of several."""

    def progress(title: str, done: int, total: int) -> None:
        report(f"{name}: {title}", index * total + done, num_searches * total)

    return progress


def search(
    policy: str,
    config: SearchConfig,
    lab: Lab,
    out: Path,
    storage: str | None = None,
    report: Progress = lambda *_: None,
) -> Best:
    """The best settings of a policy. A search that was interrupted goes on; one that is over is answered at once.

    Runs go to `out`; trials to the database of the URL `storage`, by default a file in `out`. `Interrupted`, or
    KeyboardInterrupt, if it is asked to end: what is at hand is saved, and the same call goes on.
    """
    grid, start = _grid_and_start(policy, config)
    out, lab = out.resolve(), lab.resolved()
    if lab.summaries is not None:
        make_directory(lab.summaries)  # a place that cannot be is told before any trial
    name = _name(policy, config, lab.world, grid)
    place = Place(storage or _file(out), name)
    is_adaptive = config.strategy == "tpe"

    def attempt(trial: Trial) -> Attempt:
        job = Job(settings=config.settings(policy, trial.point), temperatures=(), num_batches=config.num_batches)
        return Attempt(job, lab.world, out / "runs", lab.device, trial.number, place, is_adaptive, lab.summaries)

    with open_trials(place, grid, is_adaptive, config.num_trials) as trials:
        watch = _Watch(config.num_trials, trials, report)
        for some in _plan(config, trials, grid, start):
            _run(some, attempt, trials, lab.engine, watch)
        found = sorted(trials.all(), key=_rank)
    if found[0].value is None:
        forget_trials(place)  # what was in the way may be mended, and then they are worth another try
        raise UserError(f"policy {policy}: all trials failed, the first one because: {found[0].failure}")
    return Best(policy, found[0].point, found[0].value, tuple(found))


def check_search(policy: str, config: SearchConfig) -> None:
    """UserError if there is no such search."""
    _grid_and_start(policy, config)


def _grid_and_start(policy: str, config: SearchConfig) -> tuple[Grid, Point]:
    if "num_steps" in merge_changes(config.start, config.changes):
        raise UserError("num_steps: those of a trial are the search's own; write --steps")
    grid = grid_of(policy, config.kind, config.changes, config.values)
    for key, values in config.values.items():
        for value in values:
            config.settings(policy, {key: value})  # what is wrong with a value is told before any trial
    return grid, start_of(grid, config.settings(policy))


def _file(out: Path) -> str:
    path = out / "trials.db"
    if any(sign in str(path) for sign in "?{}"):  # which mean something in a URL
        raise UserError(f"{path}: trials cannot be kept at a place with ?, {{ or }} in its name; choose another")
    make_directory(out)
    return f"sqlite:///{path}"


def _name(policy: str, config: SearchConfig, world: World, grid: Grid) -> str:
    """Of the study. Another search has another name; one with more trials is the same search, gone on with."""
    values = config.model_dump(mode="json", exclude={"num_trials"})
    identity = digest({"config": values, "grid": grid, "world": world.identity, "code": CODE_VERSION})
    return f"{policy} {config.strategy} {identity}"


def _plan(config: SearchConfig, trials: Trials, grid: Grid, start: Point) -> Iterator[Iterable[Trial]]:
    """Trials in groups: those of a group do not wait for each other, each group waits for the one before."""
    if config.strategy == "tpe":
        yield trials.proposals(start, config.seed)
    elif config.strategy == "grid":
        points = points_of(grid)
        order = numpy_generator(config.seed, "grid").permutation(len(points))
        yield trials.pending(points[place] for place in order)
    else:
        yield from _lines(trials, grid, start)


def _lines(trials: Trials, grid: Grid, best: Point) -> Iterator[Iterable[Trial]]:
    """The paper's search: all values of one setting beside the best of the others, then the next setting."""
    for _ in range(_LINE_ROUNDS):
        before = best
        for key, values in grid.items():
            line = [best, *({**best, key: value} for value in values if value != best[key])]
            yield trials.pending(line)
            best = max(line, key=trials.value)
        if best == before:
            return


def _run(
    some: Iterable[Trial], attempt: Callable[[Trial], Attempt], trials: Trials, engine: Engine, watch: "_Watch"
) -> None:
    sent: list[Trial] = []

    def attempts() -> Iterator[Attempt]:
        for trial in some:
            sent.append(trial)
            yield attempt(trial)

    with closing(engine.run(try_out, attempts())) as events:
        for event in events:
            if event.is_over:
                _end(trials, sent[event.index].number, event)
            watch.hear(event)


def _end(trials: Trials, number: int, event: Event) -> None:
    if event.failure is not None:
        trials.fail(number, event.failure)
    elif event.result is None:
        raise Interrupted
    elif event.result.value is None:
        trials.prune(number)
    else:
        trials.finish(number, event.result.value)


class _Watch:
    """What is told of a search while it lasts."""

    def __init__(self, num_trials: int, trials: Trials, report: Progress) -> None:
        self._num_trials, self._trials, self._report = num_trials, trials, report
        self._percent: dict[int, int] = {}
        self._look()

    def _look(self) -> None:
        over = [trial for trial in self._trials.all() if trial.state != "running"]
        values = [trial.value for trial in over if trial.value is not None]
        best = f", best {max(values):.4f}" if values else ""
        self._num_over, self._title = len(over), f"{len(over)} of {self._num_trials} trials{best}"

    def hear(self, event: Event) -> None:
        """Of one that began, went on or ended."""
        if event.is_over:
            self._percent.pop(event.index, None)
            self._look()
        elif event.total:
            self._percent[event.index] = 100 * event.done // event.total
        self._report(self._title, 100 * self._num_over + sum(self._percent.values()), 100 * self._num_trials)


def _rank(trial: Trial) -> tuple[bool, float, int]:
    """The best first, then those without a value in the order in which they began."""
    return trial.value is None, -(trial.value or 0.0), trial.number

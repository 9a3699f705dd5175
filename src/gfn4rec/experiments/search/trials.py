"""The trials of a search, stored in an Optuna study."""

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from gfn4rec.errors import UserError
from gfn4rec.experiments.search.spaces import Grid, Point
from gfn4rec.seeding import stream_seed

State: TypeAlias = Literal["running", "done", "pruned", "failed"]
_STATES: dict[TrialState, State] = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}
_FAILURE = "failure"
STARTUP_TRIALS = 5  # random ones before TPE proposes, and whole ones before any is pruned
_LOCK_SECONDS = 60  # to wait for other processes that write to the same file


@dataclass(frozen=True)
class Trial:
    """A combination of settings, and what became of it."""

    number: int
    point: Point
    state: State
    value: float | None = None
    """The higher, the better; only of trials that are done."""
    failure: str | None = None


@dataclass(frozen=True)
class StudyLocation:
    """Where the trials of a search are stored: the URL of a database, and the name of the study in it."""

    storage: str
    name: str


class Trials:
    """The trials of one search, at most `num_trials`. One process begins and ends them; workers report values."""

    def __init__(self, study: optuna.Study, grid: Grid, is_continuous: bool, num_trials: int) -> None:
        self._study, self._num_trials = study, num_trials
        self._space = {key: _distribution(values, is_continuous) for key, values in grid.items()}
        self._all = self._read()

    def all(self) -> list[Trial]:
        """Return all trials, in the order in which they began."""
        return self._all

    def _read(self) -> list[Trial]:
        """Read the trials, but not those that a killed process left without settings."""
        stored = self._study.get_trials(deepcopy=False)
        whole = [_trial(trial) for trial in stored if trial.params.keys() == self._space.keys()]
        return whole[: self._num_trials]

    def value(self, point: Point) -> float:
        """Return the value of a combination; minus infinity if it has none."""
        values = [trial.value for trial in self.all() if trial.point == point and trial.value is not None]
        return max(values, default=-math.inf)

    def pending(self, points: Iterable[Point]) -> Iterator[Trial]:
        """Yield trials of combinations that were not tried yet, or were interrupted."""
        for point in points:
            known = {trial.state: trial for trial in self.all() if trial.point == point}
            if not known and not self._is_full():
                yield self._begin(point)
            elif "running" in known:
                yield known["running"]

    def proposals(self, start: Point, seed: int) -> Iterator[Trial]:
        """Yield interrupted trials, the start, then what Optuna proposes."""
        yield from [trial for trial in self.all() if trial.state == "running"]
        while not self._is_full():
            number = len(self.all())
            yield self._propose(stream_seed(seed, f"trial/{number}")) if number else self._begin(start)

    def finish(self, number: int, value: float) -> None:
        """End a trial with a value."""
        self._end(number, TrialState.COMPLETE, value)

    def prune(self, number: int) -> None:
        """End a trial that was stopped early."""
        self._end(number, TrialState.PRUNED)

    def fail(self, number: int, reason: str) -> None:
        """End a trial that failed."""
        live_trial(self._study, number).set_user_attr(_FAILURE, reason)
        self._end(number, TrialState.FAIL)

    def _end(self, number: int, state: TrialState, value: float | None = None) -> None:
        self._study.tell(number, value, state, skip_if_finished=True)
        self._all = self._read()

    def _is_full(self) -> bool:
        return len(self.all()) >= self._num_trials

    def _begin(self, point: Point) -> Trial:
        self._study.add_trial(
            optuna.trial.create_trial(state=TrialState.RUNNING, params=point, distributions=self._space)
        )
        self._all = self._read()
        return self._all[-1]

    def _propose(self, seed: int) -> Trial:
        """Let a fresh sampler propose a trial, so that a resumed search has the same random numbers."""
        with warnings.catch_warnings(action="ignore"):  # some versions call constant_liar experimental
            sampler = optuna.samplers.TPESampler(n_startup_trials=STARTUP_TRIALS, constant_liar=True, seed=seed % 2**32)
        self._study.sampler = sampler
        self._study.ask(self._space)
        self._all = self._read()
        return self._all[-1]


@contextmanager
def open_trials(location: StudyLocation, grid: Grid, is_continuous: bool, num_trials: int) -> Iterator[Trials]:
    """Open the trials of a search, new or begun before."""
    with open_storage(location.storage) as storage:
        with _one_line_errors():
            study = optuna.create_study(
                storage=storage, study_name=location.name, direction="maximize", load_if_exists=True
            )
        yield Trials(study, grid, is_continuous, num_trials)


def delete_trials(location: StudyLocation) -> None:
    """Delete all trials of a search."""
    with open_storage(location.storage) as storage:
        optuna.delete_study(study_name=location.name, storage=storage)


@contextmanager
def open_storage(url: str) -> Iterator[optuna.storages.RDBStorage]:
    """Open a database, and close it at the end."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    options = {"connect_args": {"timeout": _LOCK_SECONDS}} if url.startswith("sqlite") else {}
    with _one_line_errors():
        storage = optuna.storages.RDBStorage(url, engine_kwargs=options)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn errors of a database into UserError."""
    try:
        yield
    # LookupError and ValueError: Optuna takes braces in a URL for fields to fill in.
    except (SQLAlchemyError, StorageInternalError, ImportError, RuntimeError, LookupError, ValueError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise UserError(f"trials: the database cannot be opened ({reason}); see docs/search.md") from error


def live_trial(study: optuna.Study, number: int) -> optuna.Trial:
    """Return a trial that another process may have begun."""
    return optuna.Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)


def _distribution(values: tuple[float, ...], is_continuous: bool) -> BaseDistribution:
    """Return the values themselves, or the range between them on a logarithmic scale, which cannot have 0."""
    if is_continuous and min(values) > 0:
        return FloatDistribution(min(values), max(values), log=True)
    return CategoricalDistribution(values)


def _trial(stored: FrozenTrial) -> Trial:
    value = stored.value if stored.state == TrialState.COMPLETE else None
    return Trial(stored.number, stored.params, _STATES[stored.state], value, stored.user_attrs.get(_FAILURE))

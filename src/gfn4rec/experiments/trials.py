"""The trials of a search, in an Optuna study: what was tried, what is being tried, what came of it."""

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
from gfn4rec.experiments.spaces import Grid, Point
from gfn4rec.seeding import stream_seed

State: TypeAlias = Literal["running", "done", "pruned", "failed"]
_STATES: dict[TrialState, State] = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}
_FAILURE = "failure"
STARTUP_TRIALS = 5  # before there is anything to learn from, and before any is given up
_LOCK_SECONDS = 60  # to wait for others who write to the same file


@dataclass(frozen=True)
class Trial:
    """A combination of settings that was tried, or is being tried."""

    number: int
    point: Point
    state: State
    value: float | None = None
    """The higher, the better; of those that are done."""
    failure: str | None = None


@dataclass(frozen=True)
class Place:
    """Where the trials of a search are: a database's URL, and the search's name in it."""

    storage: str
    name: str


class Trials:
    """The trials of one search, at most so many. One process begins and ends them; others report on the way."""

    def __init__(self, study: optuna.Study, grid: Grid, is_continuous: bool, num_trials: int) -> None:
        self._study, self._num_trials = study, num_trials
        self._space = {key: _distribution(values, is_continuous) for key, values in grid.items()}
        self._all = self._read()

    def all(self) -> list[Trial]:
        """In the order in which they began."""
        return self._all

    def _read(self) -> list[Trial]:
        """One that was cut off before its settings were chosen is none."""
        whole = [each for each in self._study.get_trials(deepcopy=False) if each.params.keys() == self._space.keys()]
        return [_trial(each) for each in whole][: self._num_trials]

    def value(self, point: Point) -> float:
        """What came of a combination; minus infinity if nothing did."""
        values = [each.value for each in self.all() if each.point == point and each.value is not None]
        return max(values, default=-math.inf)

    def pending(self, points: Iterable[Point]) -> Iterator[Trial]:
        """Those of some combinations that are still to be tried, or were left running."""
        for point in points:
            known = {each.state: each for each in self.all() if each.point == point}
            if not known and not self._is_full():
                yield self._begin(point)
            elif "running" in known:
                yield known["running"]

    def proposals(self, start: Point, seed: int) -> Iterator[Trial]:
        """Those that were left running, the start, then what Optuna proposes."""
        yield from [each for each in self.all() if each.state == "running"]
        while not self._is_full():
            number = len(self.all())
            yield self._propose(stream_seed(seed, f"trial/{number}")) if number else self._begin(start)

    def finish(self, number: int, value: float) -> None:
        """A trial is done."""
        self._tell(number, TrialState.COMPLETE, value)

    def prune(self, number: int) -> None:
        """A trial was given up."""
        self._tell(number, TrialState.PRUNED)

    def fail(self, number: int, reason: str) -> None:
        """A trial came to nothing."""
        live_trial(self._study, number).set_user_attr(_FAILURE, reason)
        self._tell(number, TrialState.FAIL)

    def _tell(self, number: int, state: TrialState, value: float | None = None) -> None:
        self._study.tell(number, value, state, skip_if_finished=True)
        self._all = self._read()

    def _is_full(self) -> bool:
        return len(self.all()) >= self._num_trials

    def _begin(self, point: Point) -> Trial:
        made = optuna.trial.create_trial(state=TrialState.RUNNING, params=point, distributions=self._space)
        self._study.add_trial(made)
        self._all = self._read()
        return self._all[-1]

    def _propose(self, seed: int) -> Trial:
        """By a sampler of its own: a search that was interrupted goes on with the same random numbers."""
        with warnings.catch_warnings(action="ignore"):  # some versions call parallel proposals an experiment
            sampler = optuna.samplers.TPESampler(n_startup_trials=STARTUP_TRIALS, constant_liar=True, seed=seed % 2**32)
        self._study.sampler = sampler
        self._study.ask(self._space)
        self._all = self._read()
        return self._all[-1]


@contextmanager
def open_trials(place: Place, grid: Grid, is_continuous: bool, num_trials: int) -> Iterator[Trials]:
    """The trials of a search, new or begun before."""
    with open_storage(place.storage) as storage:
        with _told():
            study = optuna.create_study(
                storage=storage, study_name=place.name, direction="maximize", load_if_exists=True
            )
        yield Trials(study, grid, is_continuous, num_trials)


def forget_trials(place: Place) -> None:
    """As if they had never been."""
    with open_storage(place.storage) as storage:
        optuna.delete_study(study_name=place.name, storage=storage)


@contextmanager
def open_storage(url: str) -> Iterator[optuna.storages.RDBStorage]:
    """A database, which is let go at the end."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    options = {"connect_args": {"timeout": _LOCK_SECONDS}} if url.startswith("sqlite") else {}
    with _told():
        storage = optuna.storages.RDBStorage(url, engine_kwargs=options)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with a database, in one line."""
    try:
        yield
    # Optuna fills in braces of a URL, and finds nothing to fill in.
    except (SQLAlchemyError, StorageInternalError, ImportError, RuntimeError, LookupError, ValueError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise UserError(f"trials: the database cannot be opened ({reason}); see docs/search.md") from error


def live_trial(study: optuna.Study, number: int) -> optuna.Trial:
    """A trial that another process may have begun."""
    return optuna.Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)


def _distribution(values: tuple[float, ...], is_continuous: bool) -> BaseDistribution:
    """The values themselves; or all between them, on a logarithmic scale, which has no place for 0."""
    if is_continuous and min(values) > 0:
        return FloatDistribution(min(values), max(values), log=True)
    return CategoricalDistribution(values)


def _trial(found: FrozenTrial) -> Trial:
    is_done = found.state == TrialState.COMPLETE
    value, failure = found.value if is_done else None, found.user_attrs.get(_FAILURE)
    return Trial(found.number, found.params, _STATES[found.state], value, failure)

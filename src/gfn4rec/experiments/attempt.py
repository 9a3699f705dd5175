"""One trial of a search, wherever it runs: trained and measured, unless it is hopeless or known from before."""

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import optuna

from gfn4rec.experiments.engines import Tell
from gfn4rec.experiments.execute import execute
from gfn4rec.experiments.job import Job
from gfn4rec.experiments.outcome import GREEDY, Outcome, OutcomeStore
from gfn4rec.experiments.trials import STARTUP_TRIALS, Place, live_trial, open_storage
from gfn4rec.experiments.world import World

Judge: TypeAlias = Callable[[int, dict[str, Any]], None]
_NUM_REPORTS = 10


@dataclass(frozen=True)
class Attempt:
    """A trial as it is sent to whoever runs it."""

    job: Job
    world: World
    runs: Path
    device: str
    number: int
    place: Place
    is_judged: bool
    """Whether it may be given up before its end."""
    summaries: Path | None = None
    """Where outcomes from elsewhere are."""


@dataclass(frozen=True)
class Ending:
    """How a trial ended: with a value, or given up, with none."""

    value: float | None


class Hopeless(Exception):  # noqa: N818
    """A trial that is not worth the rest of its time."""


def try_out(attempt: Attempt, tell: Tell) -> Ending | None:
    """The greedy expected reward in the simulator; None if asked to end before."""
    store, key = OutcomeStore(attempt.runs, attempt.summaries), attempt.job.key(attempt.world)
    outcome = store.find(key)
    if outcome is None:
        try:
            outcome = _execute(attempt, tell)
        except Hopeless:
            shutil.rmtree(attempt.runs / key, ignore_errors=True)
            return Ending(None)
        if outcome is None:
            return None
        outcome = store.keep(outcome)  # as it is found the next time
    return Ending(outcome.figures[GREEDY]["expected_reward"])


def _execute(attempt: Attempt, tell: Tell) -> Outcome | None:
    num_steps = attempt.job.settings.training["num_steps"]
    with _judging(attempt, num_steps) if attempt.is_judged else nullcontext() as judge:

        def report(step: int, metrics: dict[str, Any]) -> None:
            tell(step, num_steps)
            if judge is not None:
                judge(step, metrics)

        return execute(attempt.job, attempt.world, attempt.runs, attempt.device, report)


@contextmanager
def _judging(attempt: Attempt, num_steps: int) -> Iterator[Judge]:
    """Hears of a trial's steps, reports the rewards shown, and raises `Hopeless` below the median of others'."""
    pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=num_steps // 4)
    with open_storage(attempt.place.storage) as storage:
        study = optuna.load_study(study_name=attempt.place.name, storage=storage, pruner=pruner)
        yield _judge(live_trial(study, attempt.number), max(1, num_steps // _NUM_REPORTS))


def _judge(trial: optuna.Trial, every: int) -> Judge:
    known = set(trial.study.trials[trial.number].intermediate_values)  # from before an interruption
    rewards: deque[float] = deque(maxlen=every)

    def hear(step: int, metrics: dict[str, Any]) -> None:
        if "reward" not in metrics:  # nothing is shown while a policy learns from the log
            return
        rewards.append(metrics["reward"])
        if step % every == 0 and step not in known:
            trial.report(sum(rewards) / len(rewards), step)
            if trial.should_prune():
                raise Hopeless

    return hear

"""One trial of a search, run by a worker: its job is executed, unless its result is known or it is pruned."""

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import optuna

from gfn4rec.experiments.jobs.engines import ReportProgress
from gfn4rec.experiments.jobs.execute import execute
from gfn4rec.experiments.jobs.result import GREEDY, JobResult
from gfn4rec.experiments.jobs.run_directories import find_run_directory
from gfn4rec.experiments.jobs.store import ResultStore
from gfn4rec.experiments.jobs.tasks import JobTask
from gfn4rec.experiments.search.trials import STARTUP_TRIALS, StudyLocation, live_trial, open_storage

CheckStep: TypeAlias = Callable[[int, Mapping[str, object]], None]
_NUM_REPORTS = 10  # of rewards, in the course of a trial


@dataclass(frozen=True)
class TrialTask:
    """A trial as it is sent to a worker."""

    task: JobTask
    number: int
    study: StudyLocation
    can_be_pruned: bool
    summaries: Path | None = None
    """A directory of results that several machines share."""


@dataclass(frozen=True)
class TrialResult:
    """The value of a trial; None if it was pruned."""

    value: float | None


class Pruned(Exception):  # noqa: N818
    """The trial is stopped, because its rewards are below the median of earlier trials."""


def run_trial(trial: TrialTask, report: ReportProgress) -> TrialResult | None:
    """Return the greedy expected reward in the simulator; None if the trial was interrupted."""
    task, store = trial.task, ResultStore(trial.task.runs, trial.summaries)
    result = store.find(task)
    if result is None:
        try:
            result = _execute(trial, report)
        except Pruned:
            directory = find_run_directory(task.job, task.benchmark, task.runs)
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)
            return TrialResult(None)
        if result is None:
            return None
        result = store.keep(task, result)
    return TrialResult(result.metrics[GREEDY]["expected_reward"])


def _execute(trial: TrialTask, report: ReportProgress) -> JobResult | None:
    task, num_steps = trial.task, trial.task.job.settings.training.num_steps
    with _pruning(trial, num_steps) if trial.can_be_pruned else nullcontext() as check:

        def report_step(step: int, metrics: Mapping[str, object]) -> None:
            report(step, num_steps)
            if check is not None:
                check(step, metrics)

        return execute(task.job, task.benchmark, task.runs, task.device, report_step)


@contextmanager
def _pruning(trial: TrialTask, num_steps: int) -> Iterator[CheckStep]:
    """Yield a function that reports the rewards of steps to the study, and raises `Pruned` below the median."""
    pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=num_steps // 4)
    with open_storage(trial.study.storage) as storage:
        study = optuna.load_study(study_name=trial.study.name, storage=storage, pruner=pruner)
        yield _step_check(live_trial(study, trial.number), max(1, num_steps // _NUM_REPORTS))


def _step_check(trial: optuna.Trial, every: int) -> CheckStep:
    known = set(trial.study.trials[trial.number].intermediate_values)  # from before an interruption
    rewards: deque[float] = deque(maxlen=every)

    def check(step: int, metrics: Mapping[str, object]) -> None:
        reward = metrics.get("reward")
        if not isinstance(reward, float):  # offline training recommends nothing
            return
        rewards.append(reward)
        if step % every == 0 and step not in known:
            trial.report(sum(rewards) / len(rewards), step)
            if trial.should_prune():
                raise Pruned

    return check

"""The results of all runs of an experiment, in the form that tables need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gfn4rec.evaluation.frontier import FrontierPoint
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.result import GREEDY, JobResult
from gfn4rec.experiments.paper.protocol import Need, Protocol
from gfn4rec.experiments.paper.published import NO_VALUES, Published
from gfn4rec.experiments.report.statistics import mean
from gfn4rec.metrics import METRICS
from gfn4rec.training.config import MODES, Mode

SAMPLED = "T=1"
LAST_STEPS = "last steps"  # slates as they were sampled during training


@dataclass(frozen=True)
class Results:
    """The results of runs by model, one per seed, with the oracle's and the paper's values."""

    benchmark: Benchmark
    protocol: Protocol
    runs: Mapping[Need, Sequence[JobResult]]
    oracle: Sequence[FrontierPoint]
    published: Published | None

    def values(self, need: Need, metric: str, sampling: str = GREEDY) -> tuple[float, ...]:
        """Return a metric, one value per seed; empty unless all seeds have it, because seeds are paired.

        Metrics starting with `test_` are computed on the log, those ending in `_unsorted` by the authors' rule. For
        held-out metrics, `sampling` may also name a reference.
        """
        values = [value_of(run, metric, sampling) for run in self.runs[need]]
        measured = tuple(value for value in values if value is not None)
        return measured if len(measured) == len(values) else ()

    def mean(self, need: Need, metric: str, sampling: str = GREEDY) -> float:
        """Return the mean of a metric over seeds."""
        return mean(self.values(need, metric, sampling))

    @property
    def paper(self) -> Published:
        """The paper's values, empty if it does not have this data set."""
        return self.published or NO_VALUES

    @property
    def is_of_authors(self) -> bool:
        """Whether the users are simulated by the authors' response model."""
        return self.benchmark.simulator_path is not None and self.benchmark.simulator.kind == "reference"

    def describe_published(self) -> str:
        """Say in a caption what the paper's values are."""
        elsewhere = "" if self.is_of_authors else " in another simulator and serve for orientation only"
        return f"The paper's values are for its {self.paper.name}{elsewhere}."

    def caption(self, *needs: Need) -> str:
        """Say in a caption where, how long and with how many seeds models were trained, with the budget's notice."""
        seeds = sorted({len(self.runs[need]) for need in needs})
        noun = "seed" if seeds == [1] else "seeds"
        steps = " and ".join(
            f"{'' if mode == 'online' else 'at most '}{_join(self._steps(mode, needs))} steps {mode}"  # may stop early
            for mode in MODES
            if any(mode == other for other, _ in needs)
        )
        text = f"{self.benchmark.title()}: {steps}, {_join(seeds)} {noun}."
        notice = self.protocol.budget.notice
        return f"{text} {notice}" if notice else text

    def _steps(self, mode: Mode, needs: Sequence[Need]) -> list[int]:
        runs = [run for need in needs if need[0] == mode for run in self.runs[need]]
        return sorted({run.job.settings.training.num_steps for run in runs})


def value_of(run: JobResult, metric: str, sampling: str = GREEDY) -> float | None:
    """Return a metric of one run, None if the run does not have it."""
    if sampling == LAST_STEPS:
        return (run.last_steps or {}).get(metric)
    if metric == "seconds_per_step":
        return run.seconds / run.step
    if metric.startswith("test_"):
        return (run.test or {}).get(metric.removeprefix("test_"))
    if metric in METRICS and METRICS[metric].group == "held_out":
        return (run.held_out or {}).get(sampling, {}).get(metric)
    return run.metrics.get(sampling, {}).get(metric)


def _join(values: Sequence[int]) -> str:
    return " or ".join(f"{value:,}" for value in values)

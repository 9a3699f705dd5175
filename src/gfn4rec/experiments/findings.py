"""What the runs of an experiment have found, in the form that tables ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gfn4rec.experiments.outcome import GREEDY, Outcome
from gfn4rec.experiments.protocol import Need, Protocol
from gfn4rec.experiments.published import Published
from gfn4rec.experiments.statistics import mean
from gfn4rec.experiments.world import World

SAMPLED = "T=1"
LAST_STEPS = "last steps"  # as slates were shown while learning


@dataclass(frozen=True)
class Findings:
    """Outcomes by what was needed, one per seed, and what they are compared with."""

    world: World
    protocol: Protocol
    outcomes: Mapping[Need, Sequence[Outcome]]
    ruler: Sequence[Mapping[str, Any]]
    published: Published | None

    def values(self, need: Need, metric: str, way: str = GREEDY) -> tuple[float, ...]:
        """A metric, one value per seed; `test_` and `_unsorted` ones are of the log and of the authors' rule.

        Empty unless all seeds have it: values are paired by their places.
        """
        found = [value_of(outcome, metric, way) for outcome in self.outcomes[need]]
        measured = tuple(value for value in found if value is not None)
        return measured if len(measured) == len(found) else ()

    def mean(self, need: Need, metric: str, way: str = GREEDY) -> float:
        """The mean over seeds."""
        return mean(self.values(need, metric, way))

    @property
    def is_of_authors(self) -> bool:
        """Whether users answer as the paper's did."""
        return self.world.simulator_path is not None and self.world.simulator.kind == "reference"

    def beside(self) -> str:
        """What the paper's figures are, for captions."""
        assert self.published is not None
        where = "" if self.is_of_authors else ", in another simulator: for orientation only"
        return f"The paper's figures are of its {self.published.name}{where}."

    def caption(self, *needs: Need) -> str:
        """Where, how long, how often; and the notice of the budget."""
        seeds = sorted({len(self.outcomes[need]) for need in needs})
        steps = sorted(
            {outcome.job.settings.training["num_steps"] for need in needs for outcome in self.outcomes[need]}
        )
        many = "seed" if seeds == [1] else "seeds"
        until = "up to " if any(kind == "offline" for kind, _ in needs) else ""  # learning from the log may converge
        parts = [self.world.title(), f"{until}{_numbers(steps)} steps", f"{_numbers(seeds)} {many}"]
        notice = self.protocol.budget.notice
        return "; ".join(parts) + "." + (f" {notice}" if notice else "")


def value_of(outcome: Outcome, metric: str, way: str = GREEDY) -> float | None:
    """A metric of one outcome, if it has it."""
    if way == LAST_STEPS:
        return (outcome.last_steps or {}).get(metric)
    if metric == "seconds_per_step":
        return outcome.seconds / outcome.step
    if metric.startswith("test_"):
        return (outcome.test or {}).get(metric.removeprefix("test_"))
    return outcome.figures.get(way, {}).get(metric)


def _numbers(values: Sequence[int]) -> str:
    return " or ".join(f"{value:,}" for value in values)

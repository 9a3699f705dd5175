"""The frontier of the list oracle, which sees how the items of a slate change each other's responses."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from gfn4rec.evaluation.frontier import BEST, LIST, TEMPERATURES, FrontierPoint, Sampler, measure_samplers
from gfn4rec.schema import Request
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.simulator.list_oracle import ListSamples, best_slates, converged, sample_lists


@dataclass(frozen=True)
class ListPoint(FrontierPoint):
    """A point of the list oracle, with the gap of two chains that began with greedy and with random slates."""

    reward_gap: float  # of their mean rewards
    gap_error: float  # standard error of the gap

    def as_dict(self) -> dict[str, float | str | None]:
        """Return the fields, for JSON; the error of a single user is not known."""
        return {**super().as_dict(), "gap_error": None if math.isnan(self.gap_error) else self.gap_error}

    @property
    def has_converged(self) -> bool:
        """Whether the chains agree."""
        return converged(self.reward_gap, self.gap_error)


def measure_list_frontier(
    environment: UserEnvironment,
    temperatures: Sequence[float] = TEMPERATURES,
    num_batches: int = 50,
    seed: int = 0,
    report: Callable[[str, int, int], None] = lambda *_: None,
) -> list[FrontierPoint]:
    """Measure the list oracle at each temperature, and the best slates that are found.

    At the temperature T the list oracle samples from exp(sum of expected item rewards / T), that is exp(beta * expected
    slate reward) with beta = K / T. So where the items of a slate do not change each other's responses, it is the
    pointwise oracle of this temperature, but for how that one avoids choosing an item twice.
    """
    points: list[FrontierPoint] = []
    for temperature in temperatures:
        chains = _Chains(environment.config.slate_size / temperature)
        sampler = Sampler(LIST, temperature, chains.choose)
        (point,) = measure_samplers(environment, [sampler], num_batches, seed, report)
        points.append(ListPoint(**asdict(point), reward_gap=chains.gap, gap_error=chains.gap_error))
    return points + measure_samplers(environment, [Sampler(BEST, None, best_slates)], num_batches, seed, report)


class _Chains:
    """Samples of the list oracle, with what is remembered of their convergence."""

    def __init__(self, beta: float) -> None:
        self._beta, self._samples = beta, list[ListSamples]()

    def choose(self, environment: UserEnvironment, request: Request, generator: torch.Generator) -> Tensor:
        """Return slates."""
        self._samples.append(sample_lists(environment, request, self._beta, generator))
        return self._samples[-1].slate_BK

    @property
    def gap(self) -> float:
        """The mean gap of all batches."""
        return math.fsum(samples.reward_gap for samples in self._samples) / len(self._samples)

    @property
    def gap_error(self) -> float:
        """The standard error of the mean gap."""
        return math.hypot(*(samples.gap_error for samples in self._samples)) / len(self._samples)

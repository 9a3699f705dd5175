"""Frontiers of oracles: reward and diversity of samplers that see the simulator's true response probabilities."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final, TypeAlias

import torch
from torch import Tensor

from gfn4rec.evaluation.slates import ShownSlates, coverage, expected_reward, ild, ild_reference
from gfn4rec.schema import Request
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.simulator.oracle import boltzmann_slates, greedy_slates, random_slates

TEMPERATURES: Final = (0.3, 0.15, 0.1, 0.05, 0.01)
RANDOM: Final = "random"
POINTWISE: Final = "boltzmann"
GREEDY: Final = "greedy, slate-aware"
LIST: Final = "list"
BEST: Final = "best found"
_LABELS: Final = {
    RANDOM: "random slates",
    POINTWISE: "pointwise oracle",
    GREEDY: "slate-aware greedy oracle",
    LIST: "list oracle",
    BEST: "best slates found",
}

Choose: TypeAlias = Callable[[UserEnvironment, Request, torch.Generator], Tensor]


@dataclass(frozen=True)
class FrontierPoint:
    """Means over the batches of one sampler."""

    sampler: str
    temperature: float | None
    reward: float  # expected
    reward_deviation: float  # standard deviation over batches
    coverage: float
    ild: float
    ild_reference: float
    clipped_share: float

    @property
    def label(self) -> str:
        """The name of the sampler for people; `sampler` is its name in files."""
        return _LABELS.get(self.sampler, self.sampler)

    def as_dict(self) -> dict[str, float | str | None]:
        """Return the fields, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Sampler:
    """A way of choosing slates."""

    name: str
    temperature: float | None
    choose: Choose


def measure_frontier(
    environment: UserEnvironment,
    temperatures: Sequence[float] = TEMPERATURES,
    num_batches: int = 50,
    seed: int = 0,
    report: Callable[[str, int, int], None] = lambda *_: None,
) -> list[FrontierPoint]:
    """Measure random slates, the pointwise oracle at each temperature, and the slate-aware greedy oracle.

    All of them meet the same users.
    """
    return measure_samplers(environment, _samplers(temperatures), num_batches, seed, report)


def measure_samplers(
    environment: UserEnvironment,
    samplers: Sequence[Sampler],
    num_batches: int,
    seed: int,
    report: Callable[[str, int, int], None],
) -> list[FrontierPoint]:
    """Measure samplers that all meet the same users."""
    points = []
    for sampler in samplers:
        name = _LABELS[sampler.name]
        label = name if sampler.temperature is None else f"{name} {sampler.temperature:g}"
        points.append(_measure(environment, sampler, num_batches, seed, partial(report, label)))
    return points


def _samplers(temperatures: Sequence[float]) -> list[Sampler]:
    return [
        Sampler(RANDOM, None, random_slates),
        *(Sampler(POINTWISE, value, partial(_pointwise_slates, temperature=value)) for value in temperatures),
        Sampler(GREEDY, None, lambda environment, request, _: greedy_slates(environment, request)),
    ]


def _pointwise_slates(
    environment: UserEnvironment, request: Request, generator: torch.Generator, temperature: float
) -> Tensor:
    return boltzmann_slates(environment, request, temperature, generator)


def _measure(
    environment: UserEnvironment, sampler: Sampler, num_batches: int, seed: int, report: Callable[[int, int], None]
) -> FrontierPoint:
    stream = f"frontier/{sampler.name}/{sampler.temperature}"
    generator = torch_generator(seed, stream, environment.data.device)
    request = environment.reset(seed)
    rows = []
    for batch in range(num_batches):
        slate_BK = sampler.choose(environment, request, generator)
        feedback = environment.step(slate_BK)
        request = feedback.next_request
        shown = ShownSlates(slate_BK, feedback, environment.model.item_embedding_ND)
        values = (metric(shown) for metric in (expected_reward, coverage, ild, ild_reference))
        rows.append((*values, feedback.clipped_share))
        report(batch + 1, num_batches)
    table = torch.tensor(rows, dtype=torch.float64)
    reward, *others = table.mean(dim=0).tolist()
    deviation = float(table[:, 0].std(unbiased=False))
    return FrontierPoint(sampler.name, sampler.temperature, reward, deviation, *others)

"""The ruler: what samplers that see the simulator's own probabilities attain, in reward and in diversity."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gfn4rec.evaluation.metrics import coverage, intra_list_diversity, reference_diversity
from gfn4rec.schema import Request
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.simulator.oracle import boltzmann_slates, greedy_slates, random_slates
from gfn4rec.simulator.plots import figure_bytes

TEMPERATURES = (0.3, 0.15, 0.1, 0.05, 0.01)

Sampler = Callable[[UserEnvironment, Request, torch.Generator], Tensor]


@dataclass(frozen=True)
class FrontierPoint:
    """Means over batches, with the standard deviation of the reward from batch to batch."""

    sampler: str
    temperature: float | None
    reward: float  # expected, before the coin flips
    reward_deviation: float
    coverage: float
    ild: float
    ild_reference: float
    clipped_share: float

    def as_dict(self) -> dict[str, float | str | None]:
        """For JSON."""
        return asdict(self)


def measure_frontier(
    environment: UserEnvironment,
    temperatures: Sequence[float] = TEMPERATURES,
    num_batches: int = 50,
    seed: int = 0,
    report: Callable[[str, int, int], None] = lambda *_: None,
) -> list[FrontierPoint]:
    """Random slates, Boltzmann at each temperature, and slate-aware greedy, each from the same users."""
    samplers: list[tuple[str, float | None, Sampler]] = [("random", None, random_slates)]
    samplers += [("boltzmann", each, partial(_boltzmann, temperature=each)) for each in temperatures]
    samplers.append(("greedy, slate-aware", None, lambda env, request, _: greedy_slates(env, request)))
    points = []
    for name, temperature, sampler in samplers:
        label = name if temperature is None else f"{name} {temperature:g}"
        tell = partial(report, label)
        points.append(_measure(environment, name, temperature, sampler, num_batches, seed, tell))
    return points


def _boltzmann(
    environment: UserEnvironment, request: Request, generator: torch.Generator, temperature: float
) -> Tensor:
    return boltzmann_slates(environment, request, temperature, generator)


def _measure(
    environment: UserEnvironment,
    name: str,
    temperature: float | None,
    sampler: Sampler,
    num_batches: int,
    seed: int,
    report: Callable[[int, int], None],
) -> FrontierPoint:
    generator = torch_generator(seed, f"frontier/{name}/{temperature}", environment.data.device)
    request = environment.reset(seed)
    embedding_ND = environment.model.item_embedding_ND
    rows = []
    for batch in range(num_batches):
        slate_BK = sampler(environment, request, generator)
        feedback = environment.step(slate_BK)
        request = feedback.next_request
        rows.append(
            (
                float(feedback.expected_reward_B.mean()),
                float(coverage(slate_BK)),
                intra_list_diversity(embedding_ND, slate_BK),
                reference_diversity(embedding_ND, slate_BK),
                feedback.clipped_share,
            )
        )
        report(batch + 1, num_batches)
    values = torch.tensor(rows, dtype=torch.float64)
    reward, covered, ild, ild_reference, clipped = values.mean(dim=0).tolist()
    deviation = float(values[:, 0].std(unbiased=False))
    return FrontierPoint(name, temperature, reward, deviation, covered, ild, ild_reference, clipped)


def plot_frontier(points: Sequence[FrontierPoint]) -> bytes:
    """Reward against coverage and against ILD."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axis, attribute, label in zip(figure.subplots(1, 2), ("coverage", "ild"), ("coverage", "ILD"), strict=True):
        line = [point for point in points if point.sampler == "boltzmann"]
        axis.plot(
            [getattr(point, attribute) for point in line],
            [point.reward for point in line],
            marker="o",
            label="Boltzmann",
        )
        for point in line:
            axis.annotate(f"{point.temperature:g}", (getattr(point, attribute), point.reward), fontsize="small")
        for point in points:
            if point.sampler != "boltzmann":
                axis.plot([getattr(point, attribute)], [point.reward], marker="s", linestyle="", label=point.sampler)
        axis.set(xlabel=label, ylabel="expected reward")
        axis.legend(fontsize="small")
    return figure_bytes(figure)

"""Evaluation protocols: in the simulator, and on logged slates that the policy has not learned from."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.decoders.base import Decoder
from gfn4rec.errors import UserError
from gfn4rec.evaluation import ranking, slates
from gfn4rec.evaluation.ways import Way
from gfn4rec.metrics import authors_keys, metrics_of
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Sampling
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import Feedback, UserEnvironment


def slate_metrics(environment: UserEnvironment, slate_BK: Tensor, feedback: Feedback) -> dict[str, float]:
    """Return the metrics of one batch of shown slates. Diversity is measured with the simulator's item vectors."""
    shown = slates.ShownSlates(slate_BK, feedback, environment.model.item_embedding_ND)
    row: dict[str, float] = {}
    for metric in metrics_of("slates"):
        value: float | list[float] = getattr(slates, metric.key)(shown)
        if isinstance(value, list):
            row |= {f"{metric.key}_{name}": one for name, one in zip(environment.data.behaviours, value, strict=True)}
        else:
            row[metric.key] = value
    return row


def ranking_metrics(score_BK: Tensor, reward_BK: Tensor) -> dict[str, float]:
    """Return the ranking metrics of one batch, from the model's scores of shown items and their rewards."""
    return {metric.key: getattr(ranking, metric.key)(score_BK, reward_BK) for metric in metrics_of("ranking")}


def evaluate_in_simulator(
    policy: Policy,
    environment: UserEnvironment,
    sampling: Sampling,
    num_batches: int,
    seed: int,
    report: Callable[[int, int], None] = lambda *_: None,
    decoder: Decoder | None = None,
) -> dict[str, float]:
    """Return means over batches of new episodes, of the slates that a policy draws or that a decoder makes from it.

    The same seed gives the same users and the same random numbers.
    """
    generator = torch_generator(seed, "evaluation", environment.data.device)
    request = environment.reset(seed)
    rows, way = [], Way(sampling, decoder)
    for batch in range(num_batches):
        proposal = way.recommend(policy, request, generator)
        feedback = environment.step(proposal.slate_BK)
        score_BK = policy.relevance(request, proposal.slate_BK, proposal.log_prob_BK)
        rows.append(
            slate_metrics(environment, proposal.slate_BK, feedback) | ranking_metrics(score_BK, feedback.item_reward_BK)
        )
        request = feedback.next_request
        report(batch + 1, num_batches)
    return mean_metrics(rows)


def measure_ways(
    policy: Policy,
    environment: UserEnvironment,
    ways: Mapping[str, Way],
    num_batches: int,
    seed: int,
    report: Callable[[str, int, int], None] = lambda *_: None,
) -> dict[str, dict[str, float]]:
    """Return the metrics of each way of making slates, with the same users for all."""
    return {
        name: evaluate_in_simulator(
            policy, environment, way.sampling, num_batches, seed, partial(report, name), way.decoder
        )
        for name, way in ways.items()
    }


@torch.no_grad()
def evaluate_on_log(policy: Policy, data: SlateData, split: str = "test", batch_size: int = 128) -> dict[str, float]:
    """Return the ranking metrics of logged slates, in batches whose order is the same for all policies.

    An incomplete last batch is left out, except by the authors' rule, which keeps it.
    """
    numbers = data.split(split)
    if len(numbers) < batch_size:
        raise UserError(f"the {split} split has {len(numbers)} slates, fewer than one batch of {batch_size}")
    order = torch.randperm(len(numbers), generator=torch_generator(0, "evaluation/log"))
    rows = []
    for batch in numbers[order.to(numbers.device)].split(batch_size):
        logged = data.slates(batch)
        score_BK = policy.relevance(logged.request, logged.slate_BK)
        rows.append(ranking_metrics(*(logged.without_sampled(values) for values in (score_BK, logged.item_reward_BK))))
    of_authors, full = authors_keys(), mean_metrics(rows[: len(numbers) // batch_size])
    return {key: value if key in of_authors else full[key] for key, value in mean_metrics(rows).items()}


def mean_metrics(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over rows."""
    return {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}

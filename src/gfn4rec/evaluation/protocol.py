"""How a policy is measured: in the simulator, and on logged slates it has not learned from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.evaluation.metrics import coverage, intra_list_diversity, reference_diversity
from gfn4rec.evaluation.ranking import ranking_metrics
from gfn4rec.policies.base import Policy
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import Feedback, UserEnvironment


@dataclass(frozen=True)
class Showing:
    """How slates are chosen while a policy is measured."""

    greedy: bool = False
    temperature: float = 1.0
    greediness: float | None = None
    epsilon: float = 0.0


def slate_metrics(environment: UserEnvironment, slate_BK: Tensor, feedback: Feedback) -> dict[str, float]:
    """Reward and diversity of one batch of answered slates. Diversity is the simulator's, never the policy's."""
    embedding_ND = environment.model.item_embedding_ND
    rate_R = feedback.response_BKR.mean(dim=(0, 1)).tolist()
    return {
        "reward": float(feedback.reward_B.mean()),
        "max_reward": float(feedback.reward_B.max()),
        "expected_reward": float(feedback.expected_reward_B.mean()),
        "coverage": float(coverage(slate_BK)),
        "ild": intra_list_diversity(embedding_ND, slate_BK),
        "ild_reference": reference_diversity(embedding_ND, slate_BK),
        **{f"rate_{name}": rate for name, rate in zip(environment.data.behaviours, rate_R, strict=True)},
    }


def evaluate_in_simulator(
    policy: Policy,
    environment: UserEnvironment,
    showing: Showing,
    num_batches: int,
    seed: int,
    report: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, float]:
    """Means over batches of fresh episodes. The same seed gives the same users and the same coin flips."""
    generator = torch_generator(seed, "evaluation", environment.data.device)
    request = environment.reset(seed)
    rows = []
    for batch in range(num_batches):
        proposal = policy.recommend(
            request,
            generator,
            greedy=showing.greedy,
            temperature=showing.temperature,
            greediness=showing.greediness,
            epsilon=showing.epsilon,
        )
        feedback = environment.step(proposal.slate_BK)
        score_BK = policy.relevance(request, proposal.slate_BK, proposal.log_prob_BK)
        rows.append(
            slate_metrics(environment, proposal.slate_BK, feedback) | ranking_metrics(score_BK, feedback.item_reward_BK)
        )
        request = feedback.next_request
        report(batch + 1, num_batches)
    return mean_metrics(rows)


@torch.no_grad()
def evaluate_on_log(policy: Policy, data: SlateData, split: str = "test", batch_size: int = 128) -> dict[str, float]:
    """R-NDCG and R-MRR of logged slates, batch by batch in an order drawn once and for all.

    The last batch is left out if it is not full; the authors' way of computing them keeps it.
    """
    slates = data.split(split)
    order = torch.randperm(len(slates), generator=torch_generator(0, "evaluation/log"))
    batches = slates[order.to(slates.device)].split(batch_size)
    if len(slates) < batch_size:
        raise UserError(f"the {split} split has {len(slates)} slates, fewer than one batch of {batch_size}")
    rows = []
    for batch in batches:
        logged = data.slates(batch)
        score_BK = policy.relevance(logged.request, logged.slate_BK)
        rows.append(ranking_metrics(score_BK, logged.item_reward_BK))
    full = mean_metrics(rows[: len(slates) // batch_size])
    return {name: value if name.endswith("_unsorted") else full[name] for name, value in mean_metrics(rows).items()}


def mean_metrics(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each metric."""
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}

"""How well a policy's own scores of slates agree with the simulator's expected rewards."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Request
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.simulator.oracle import random_slates


@torch.no_grad()
def evaluate_scores(
    policy: Policy,
    environment: UserEnvironment,
    data: SlateData,
    num_batches: int,
    seed: int,
    report: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, dict[str, float | None]]:
    """For random slates, logged ones of the test split, and the policy's own: the rank correlation of score and
    expected reward over all slates, and the mean of both. A kind of which there are no slates is left out.
    """
    generator = torch_generator(seed, "scores", environment.data.device)
    test = data.split("test")
    test = test[torch.randperm(len(test), generator=torch_generator(seed, "test slates")).to(test.device)]
    size = environment.config.num_users
    request = environment.reset(seed)
    rows: dict[str, list[tuple[Tensor, Tensor]]] = {"random": [], "logged": [], "generated": []}
    for batch in range(num_batches):
        rows["random"].append(_scored(policy, environment, request, random_slates(environment, request, generator)))
        logged = test[batch * size : (batch + 1) * size]
        if len(logged):
            slates = data.slates(logged)
            rows["logged"].append(_scored(policy, environment, slates.request, slates.slate_BK))
        slate_BK = policy.recommend(request, generator).slate_BK
        rows["generated"].append(_scored(policy, environment, request, slate_BK))
        request = environment.step(slate_BK).next_request
        report(batch + 1, num_batches)
    return {kind: _agreement(pairs) for kind, pairs in rows.items() if pairs}


def rank_correlation(one: Sequence[float] | Tensor, other: Sequence[float] | Tensor) -> float | None:
    """Spearman's: the correlation of the ranks, equal values sharing theirs.

    None where it says nothing: for fewer than three pairs, or where all values of one side are equal.
    """
    table = pl.DataFrame({"one": np.asarray(one), "other": np.asarray(other)})
    if table.height < 3:
        return None
    found = float(table.select(pl.corr("one", "other", method="spearman")).item())
    return found if math.isfinite(found) else None


def _scored(policy: Policy, environment: UserEnvironment, request: Request, slate_BK: Tensor) -> tuple[Tensor, Tensor]:
    return policy.score(request, slate_BK), environment.expected_rewards(request, slate_BK)


def _agreement(pairs: list[tuple[Tensor, Tensor]]) -> dict[str, float | None]:
    score, expected = (torch.cat(each).double().cpu() for each in zip(*pairs, strict=True))
    return {
        "slates": float(len(score)),
        "rank_correlation": rank_correlation(score, expected),
        "score": float(score.mean()),
        "expected_reward": float(expected.mean()),
    }

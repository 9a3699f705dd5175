"""Agreement of a policy's own scores of slates with the simulator's expected rewards."""

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

PER_REQUEST = 20
"""Random, logged or generated slates scored for each request."""


@torch.no_grad()
def evaluate_scores(
    policy: Policy,
    environment: UserEnvironment,
    data: SlateData,
    num_batches: int,
    seed: int,
    report: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, dict[str, float | None]]:
    """Measure how well score and expected reward agree on random, logged (test split) and generated slates.

    `within_request` is the rank correlation over the slates of one request, averaged over requests. `rank_correlation`
    is over all slates; it is high for any score that tells users apart, because rewards differ more between users than
    between slates. A request is scored with its own logged slate and with those of other requests. Logged slates are
    left out where there are none, or where some of their items were sampled.
    """
    generator = torch_generator(seed, "scores", environment.data.device)
    test = data.split("test")[: 0 if data.manifest.settings.negatives else None]
    test = test[torch.randperm(len(test), generator=torch_generator(seed, "test slates")).to(test.device)]
    size = environment.config.num_users
    request = environment.reset(seed)
    rows: dict[str, list[tuple[Tensor, Tensor]]] = {"random": [], "logged": [], "generated": []}
    for batch in range(num_batches):
        random = [random_slates(environment, request, generator) for _ in range(PER_REQUEST)]
        rows["random"].append(_scored(policy, environment, request, random))
        logged = test[batch * size : (batch + 1) * size]
        if len(logged):
            slates = data.slates(logged)
            shown = [slates.slate_BK.roll(shift, dims=0) for shift in range(min(PER_REQUEST, len(logged)))]
            rows["logged"].append(_scored(policy, environment, slates.request, shown))
        generated = [policy.recommend(request, generator).slate_BK for _ in range(PER_REQUEST)]
        rows["generated"].append(_scored(policy, environment, request, generated))
        request = environment.step(generated[0]).next_request
        report(batch + 1, num_batches)
    return {name: _agreement(pairs) for name, pairs in rows.items() if pairs}


def rank_correlation(one: Sequence[float] | Tensor, other: Sequence[float] | Tensor) -> float | None:
    """Return Spearman's rank correlation; tied values share the mean of their ranks.

    None where it is undefined or meaningless: for fewer than three pairs, or where all values of one side are equal.
    """
    table = pl.DataFrame({"one": np.asarray(one), "other": np.asarray(other)})
    if table.height < 3:
        return None
    correlation = float(table.select(pl.corr("one", "other", method="spearman")).item())
    return correlation if math.isfinite(correlation) else None


def _scored(
    policy: Policy, environment: UserEnvironment, request: Request, slates: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return scores and expected rewards: a row per request, a column per slate."""
    score = [policy.score(request, slate_BK) for slate_BK in slates]
    expected = [environment.expected_rewards(request, slate_BK) for slate_BK in slates]
    return torch.stack(score, dim=1).double().cpu(), torch.stack(expected, dim=1).double().cpu()


def _agreement(pairs: list[tuple[Tensor, Tensor]]) -> dict[str, float | None]:
    score, expected = (torch.cat([batch.flatten() for batch in side]) for side in zip(*pairs, strict=True))
    by_request = [rank_correlation(*rows) for pair in pairs for rows in zip(*pair, strict=True)]
    known = [correlation for correlation in by_request if correlation is not None]
    return {
        "requests": float(len(by_request)),
        "slates": float(len(score)),
        "rank_correlation": rank_correlation(score, expected),
        "within_request": sum(known) / len(known) if known else None,
        "score": float(score.mean()),
        "expected_reward": float(expected.mean()),
    }

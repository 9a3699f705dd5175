"""The scale of the reward against the prior, chosen on validation slates after learning from the log."""

import math
from typing import Final

from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation.held_out_protocol import HeldOut, recommend_before
from gfn4rec.policies.base import Policy
from gfn4rec.policies.gfn_prior import PriorGFN
from gfn4rec.schema import Sampling

SCALES: Final = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
_MOST_SLATES = 4096


def choose_reward_scale(policy: Policy, data: SlateData) -> None:
    """Set the reward's scale of a policy with a prior, unless its settings give one or no validation slate can judge.

    It is the largest scale whose recall is at most one standard error below the best: as much reward as the log
    supports.
    """
    if not isinstance(policy, PriorGFN) or policy.config.reward_scale is not None:
        return
    tests = HeldOut.of(data, num_slates=_MOST_SLATES, split="val")
    if tests is None or not bool(tests.count_relevant().any()):
        return
    policy.scale.fill_(1.0)
    policy.scale.fill_(largest_good({scale: _recalls(policy, tests, scale) for scale in SCALES}))


def largest_good(recalls: dict[float, Tensor]) -> float:
    """Return the largest scale whose mean recall is within one standard error of the best, given those of slates."""
    means = {scale: float(recall_B.mean()) for scale, recall_B in recalls.items()}
    best = max(means, key=lambda scale: means[scale])
    error = float(recalls[best].std(unbiased=False)) / math.sqrt(len(recalls[best]))
    return max(scale for scale, mean in means.items() if mean >= means[best] - error)


def _recalls(policy: Policy, tests: HeldOut, scale: float) -> Tensor:
    """Return the recall of each slate that has a relevant item, at a scale that is 1 otherwise."""
    shown = recommend_before(policy, tests, Sampling(greedy=True, reward_weight=scale))
    recall_B = shown.is_hit_BK.sum(dim=1).double() / shown.num_relevant_B
    return recall_B[shown.num_relevant_B > 0]

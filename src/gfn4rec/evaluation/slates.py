"""Metrics of a batch of shown slates; each function computes the metric of its name in `gfn4rec.metrics`."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gfn4rec.simulator.environment import Feedback
from gfn4rec.simulator.influence import slate_similarity


@dataclass(frozen=True)
class ShownSlates:
    """A batch of slates, the users' feedback, and the item vectors that diversity is measured with."""

    slate_BK: Tensor
    feedback: Feedback
    item_embedding_ND: Tensor


def reward(shown: ShownSlates) -> float:
    """Return the mean slate reward."""
    return float(shown.feedback.reward_B.mean())


def max_reward(shown: ShownSlates) -> float:
    """Return the largest slate reward."""
    return float(shown.feedback.reward_B.max())


def expected_reward(shown: ShownSlates) -> float:
    """Return the mean expected slate reward."""
    return float(shown.feedback.expected_reward_B.mean())


def coverage(shown: ShownSlates) -> float:
    """Return the number of distinct items."""
    return float(len(torch.unique(shown.slate_BK)))


def ild(shown: ShownSlates) -> float:
    """Return the mean over ordered pairs of different items of 1 - cosine similarity (Eq. 11)."""
    return 1.0 - float(slate_similarity(F.normalize(shown.item_embedding_ND, dim=1), shown.slate_BK).mean())


def ild_reference(shown: ShownSlates) -> float:
    """Return the authors' diversity: vectors are not normalised, pairs of an item with itself are included."""
    return 1.0 - float(slate_similarity(shown.item_embedding_ND, shown.slate_BK, include_self=True).mean())


def rate(shown: ShownSlates) -> list[float]:
    """Return the share of shown items that got each behaviour."""
    rates: list[float] = shown.feedback.response_BKR.mean(dim=(0, 1)).tolist()
    return rates

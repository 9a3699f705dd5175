"""Held-out metrics: whether a policy, free to show any item, finds what users chose and liked next in the log.

Each public function computes the metric of its name in `gfn4rec.metrics`. The simulator plays no part, so its optimism
about items that nobody chose does not either. A metric that has nothing to be computed from is None.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

RARE_RECORDS: Final = 5
"""An item with fewer training records is rare: nobody can know from the log whether users like it."""


@dataclass(frozen=True)
class ShownBeforeTest:
    """The slates recommended just before test slates, and what is known of their items."""

    slate_BK: Tensor
    is_hit_BK: Tensor  # whether the user chose and liked the item in the test slate
    num_relevant_B: Tensor  # items that could be hit
    count_N: Tensor  # training records of each item of the catalogue; column 0 is padding


def recall(shown: ShownBeforeTest) -> float | None:
    """Return hits divided by the number of relevant items, averaged over the slates that have one."""
    return _mean_relevant(shown, shown.is_hit_BK.double().sum(dim=1) / shown.num_relevant_B)


def ndcg(shown: ShownBeforeTest) -> float | None:
    """Return the sum of 1 / log2(rank + 1) over hits divided by that of the ideal order, averaged like recall."""
    size = shown.slate_BK.shape[1]
    discount_K = 1 / torch.arange(2, size + 2, dtype=torch.float64, device=shown.slate_BK.device).log2()
    ideal_K = torch.cat([discount_K.new_zeros(1), discount_K.cumsum(dim=0)])  # by the number of relevant items
    gain_B = shown.is_hit_BK.double() @ discount_K
    return _mean_relevant(shown, gain_B / ideal_K[shown.num_relevant_B.clamp(max=size)])


def hit_rate(shown: ShownBeforeTest) -> float | None:
    """Return the share of slates with a hit among those that have a relevant item."""
    return _mean_relevant(shown, shown.is_hit_BK.any(dim=1))


def mrr(shown: ShownBeforeTest) -> float | None:
    """Return the mean of 1 / rank of the first hit, 0 without one, averaged like recall."""
    first_B = shown.is_hit_BK.int().argmax(dim=1)  # the first of the largest values
    return _mean_relevant(shown, shown.is_hit_BK.any(dim=1).double() / (first_B + 1))


def distinct(shown: ShownBeforeTest) -> float | None:
    """Return the number of distinct items shown."""
    return float(len(shown.slate_BK.unique())) if shown.slate_BK.numel() else None


def gini(shown: ShownBeforeTest) -> float | None:
    """Return the Gini index of how often each item of the catalogue is shown, including those that never are."""
    if not shown.slate_BK.numel():
        return None
    times_N = torch.bincount(shown.slate_BK.flatten(), minlength=len(shown.count_N))[1:].double().sort().values
    rank_N = torch.arange(1, len(times_N) + 1, dtype=torch.float64, device=times_N.device)
    return float((2 * rank_N - len(times_N) - 1) @ times_N / (len(times_N) * times_N.sum()))


def records(shown: ShownBeforeTest) -> float | None:
    """Return the median number of training records of the shown items."""
    count_X = shown.count_N[shown.slate_BK].flatten().double().sort().values
    if not len(count_X):
        return None
    return float((count_X[(len(count_X) - 1) // 2] + count_X[len(count_X) // 2]) / 2)


def rare_share(shown: ShownBeforeTest) -> float | None:
    """Return the share of shown items with fewer than 5 training records."""
    is_rare_BK = shown.count_N[shown.slate_BK] < RARE_RECORDS
    return float(is_rare_BK.double().mean()) if is_rare_BK.numel() else None


def same_first_share(shown: ShownBeforeTest) -> float | None:
    """Return the largest share of slates that begin with the same item."""
    first_B = shown.slate_BK[:, 0]
    return float(first_B.unique(return_counts=True)[1].max()) / len(first_B) if len(first_B) else None


def _mean_relevant(shown: ShownBeforeTest, value_B: Tensor) -> float | None:
    """Return the mean of a value over the slates that have a relevant item."""
    relevant_X = value_B[shown.num_relevant_B > 0].double()
    return float(relevant_X.mean()) if len(relevant_X) else None

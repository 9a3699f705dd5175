"""The held-out protocol: recommend before each test slate from all items that the user has not met, then compare.

Relevant are the items of the test slate that the user liked and had not met in the log before. An item is liked if its
reward is at least a threshold. References are measured on the same slates: popularity, and uniformly random slates.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch import Tensor

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.decoders.base import Decoder
from gfn4rec.errors import UserError
from gfn4rec.evaluation import held_out
from gfn4rec.evaluation.held_out import ShownBeforeTest
from gfn4rec.evaluation.ways import GREEDY, Way, at_weights, decoded_ways
from gfn4rec.metrics import metrics_of
from gfn4rec.policies import build_policy
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Sampling
from gfn4rec.seeding import torch_generator

MOST_SLATES: Final = 10_000
POPULARITY, RANDOM, PRIOR = "popularity", "random", "prior alone"
"""Names of the reference rows, and of the row of a policy's prior without the reward."""
_BATCH_SLATES, _BATCH_PAIRS = 256, 2**23  # the most slates in a batch, and pairs of a slate and an item
_TOLERANCE = 1e-6  # of sums of weights in single precision
HeldOutRow: TypeAlias = dict[str, float | None]
Report: TypeAlias = Callable[[str, int, int], None]


class HeldOutResults(StrictConfig):
    """The held-out metrics of a policy, beside those of references on the same test slates."""

    liked: float
    """The smallest reward of an item that counts as liked."""
    slate_size: int
    """K of the metrics."""
    num_slates: int
    """Evaluated test slates."""
    num_relevant: int
    """Those of them with an item that the user liked and had not met before."""
    num_left_out: int
    """Test slates of users who have not met fewer items than a slate has."""
    rows: dict[str, HeldOutRow]
    """Metrics by how slates were chosen: `greedy`, `greedy, w=2`, `prior alone`."""
    references: dict[str, HeldOutRow]
    """Metrics of `popularity` and `random`."""


@dataclass(frozen=True)
class HeldOut:
    """Test slates, and which of their items a policy should have found.

    >>> from gfn4rec import SlateData
    >>> tests = HeldOut.of(SlateData.open("data/tiny"))
    >>> tests.relevant_BK.shape == (len(tests.slate_B), 6)
    True
    """

    data: SlateData
    liked: float
    slate_B: Tensor  # numbers of the evaluated test slates
    relevant_BK: Tensor  # their relevant items, 0 in place of others
    count_N: Tensor  # training records of each item
    num_left_out: int

    @classmethod
    def of(
        cls, data: SlateData, liked: float | None = None, num_slates: int = MOST_SLATES, split: str = "test"
    ) -> "HeldOut | None":
        """Return the test slates of a data set, or those of another split, at most `num_slates`; None without any.

        By default, an item is liked if its reward is at least `default_liked` of the data set.
        """
        if liked is not None and not math.isfinite(liked):
            raise UserError(f"liked {liked}: write the smallest reward of a liked item, a finite number")
        slate_B, rows = data.split(split), data.training_rows()
        if not len(slate_B) or not len(rows):
            return None
        if len(slate_B) > num_slates:
            chosen = torch.randperm(len(slate_B), generator=torch_generator(0, "evaluation/held-out"))[:num_slates]
            slate_B = slate_B[chosen.sort().values.to(slate_B.device)]
        liked = default_liked(data) if liked is None else liked
        kept, relevant = [slate_B[:0]], [slate_B.new_zeros(0, data.slate_size)]
        for part_b in _batches(slate_B, data.num_items):
            is_seen_bN = seen_before(data, part_b)
            has_choice_b = data.num_items - is_seen_bN.sum(dim=1) >= data.slate_size
            kept.append(part_b[has_choice_b])
            relevant.append(_relevant(data, part_b, liked, is_seen_bN)[has_choice_b])
        count_N = torch.bincount(data.item_at(rows), minlength=data.num_items + 1)
        kept_B = torch.cat(kept)
        return cls(data, liked, kept_B, torch.cat(relevant), count_N, len(slate_B) - len(kept_B))

    @property
    def key(self) -> str:
        """What tells these slates from others of the same data set: the threshold, and how many they are."""
        return f"liked {self.liked}, {len(self.slate_B)} slates"

    def count_relevant(self) -> Tensor:
        """Return the number of relevant items of each slate, (B,)."""
        return (self.relevant_BK > 0).sum(dim=1)


def default_liked(data: SlateData) -> float:
    """Return the smallest item reward in the training rows of the log that is at least their mean."""
    rows = data.training_rows()
    reward_X = _item_rewards(data, rows)
    least = float(reward_X.mean()) - _TOLERANCE
    return round(float(reward_X[reward_X >= least].min()), 6)


def seen_before(data: SlateData, slate_B: Tensor) -> Tensor:
    """Return whether the user of a slate has met an item in the log before it, (B, N); padding is never met."""
    end_B = data.first_rows(slate_B)
    start_B = data.first_row_U[data.user_at(end_B)]
    num_B = end_B - start_B
    number_X = torch.arange(len(slate_B), device=slate_B.device).repeat_interleave(num_B)
    place_X = torch.arange(len(number_X), device=slate_B.device) - (num_B.cumsum(dim=0) - num_B)[number_X]
    is_seen_BN = torch.zeros(len(slate_B), data.num_items + 1, dtype=torch.bool, device=slate_B.device)
    is_seen_BN[number_X, data.item_at(start_B[number_X] + place_X)] = True
    return is_seen_BN


def evaluate_held_out(
    policy: Policy,
    tests: HeldOut,
    sampling: Sampling = Sampling(greedy=True),  # noqa: B008
    generator: torch.Generator | None = None,
    report: Callable[[int, int], None] = lambda *_: None,
    decoder: Decoder | None = None,
) -> HeldOutRow:
    """Return the held-out metrics of a policy, or of what a decoder makes from it."""
    shown = recommend_before(policy, tests, sampling, generator, report, decoder)
    return {metric.key: getattr(held_out, metric.key)(shown) for metric in metrics_of("held_out")}


def recommend_before(
    policy: Policy,
    tests: HeldOut,
    sampling: Sampling = Sampling(greedy=True),  # noqa: B008
    generator: torch.Generator | None = None,
    report: Callable[[int, int], None] = lambda *_: None,
    decoder: Decoder | None = None,
) -> ShownBeforeTest:
    """Return what a policy recommends just before the test slates, and what of it was relevant."""
    slates, num_done, way = [tests.relevant_BK[:0]], 0, Way(sampling, decoder)
    for part_b in _batches(tests.slate_B, tests.data.num_items):
        is_seen_bN = seen_before(tests.data, part_b)
        item_N = torch.arange(tests.data.num_items + 1, device=part_b.device)
        candidates_bN = item_N.masked_fill(is_seen_bN, 0)[:, 1:]
        request = tests.data.slates(part_b).request
        slates.append(way.recommend(policy, request, generator, candidates_bN).slate_BK)
        num_done += len(part_b)
        report(num_done, len(tests.slate_B))
    slate_BK = torch.cat(slates)
    is_hit_BK = (slate_BK[:, :, None] == tests.relevant_BK[:, None, :]).any(dim=2)
    return ShownBeforeTest(slate_BK, is_hit_BK, tests.count_relevant(), tests.count_N)


def measure_references(tests: HeldOut, report: Report = lambda *_: None) -> dict[str, HeldOutRow]:
    """Return the held-out metrics of popularity, and of slates that are drawn uniformly."""
    catalogue = Catalogue.of(tests.data)
    generator = torch_generator(0, "evaluation/held-out/random", tests.data.device)
    ways = {POPULARITY: (Sampling(greedy=True), None), RANDOM: (Sampling(), generator)}
    rows = {}
    for name, (sampling, own) in ways.items():
        reference = build_policy(name, catalogue).eval()
        rows[name] = evaluate_held_out(reference, tests, sampling, own, _named(report, f"held-out {name}"))
    return rows


def measure_held_out(
    policy: Policy,
    tests: HeldOut,
    references: dict[str, HeldOutRow] | None = None,
    reward_weights: Sequence[float] = (1.0,),
    report: Report = lambda *_: None,
    decoder: Decoder | None = None,
) -> HeldOutResults:
    """Return the held-out metrics of a policy and of its prior, if it has one, beside those of references.

    With a decoder, they are also those of its slates. Where it chooses among drawn slates, they are drawn at
    temperature 1.
    """
    ways = at_weights({GREEDY: Way(Sampling(greedy=True))}, reward_weights)
    if decoder is not None:
        first = next(iter(decoded_ways(decoder, {"T=1": Way(Sampling())}).items()))
        ways |= at_weights(dict([first]), reward_weights)
    if policy.has_prior:
        ways[PRIOR] = Way(Sampling(greedy=True, reward_weight=0.0))
    rows = {}
    for name, way in ways.items():
        generator, own = torch_generator(0, "evaluation/held-out/decoder", tests.data.device), f"held-out {name}"
        rows[name] = evaluate_held_out(policy, tests, way.sampling, generator, _named(report, own), way.decoder)
    return HeldOutResults(
        liked=tests.liked,
        slate_size=tests.data.slate_size,
        num_slates=len(tests.slate_B),
        num_relevant=int((tests.count_relevant() > 0).sum()),
        num_left_out=tests.num_left_out,
        rows=rows,
        references=measure_references(tests, report) if references is None else references,
    )


def _named(report: Report, name: str) -> Callable[[int, int], None]:
    return lambda done, total: report(name, done, total)


def _batches(slate_B: Tensor, num_items: int) -> Iterator[Tensor]:
    yield from slate_B.split(max(1, min(_BATCH_SLATES, _BATCH_PAIRS // (num_items + 1))))


def _item_rewards(data: SlateData, row: Tensor) -> Tensor:
    return data.response_at(row).double() @ data.weight_R.double()


def _relevant(data: SlateData, slate_B: Tensor, liked: float, is_seen_BN: Tensor) -> Tensor:
    """Return the items of slates that were liked and not met before, 0 in place of others."""
    slates = data.slates(slate_B)
    reward_BK = slates.response_BKR.double() @ data.weight_R.double()
    is_relevant_BK = (reward_BK >= liked - _TOLERANCE) & ~is_seen_BN.gather(1, slates.slate_BK)
    if slates.is_sampled_BK is not None:
        is_relevant_BK &= ~slates.is_sampled_BK
    return slates.slate_BK.masked_fill(~is_relevant_BK, 0)

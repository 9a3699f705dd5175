"""How good a simulator is by the support of items: by the number of log rows of an item that it learned from."""

from collections.abc import Mapping
from typing import Final

import torch
from pydantic import Field
from torch import Tensor

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.cautious_model import CautiousModel

EDGES: Final = (0, 5, 10, 20, 50, 100, 500)
_NUM_REQUESTS, _NUM_ITEMS = 256, 4096
_REQUESTS_AT_ONCE = 32


class SupportBin(StrictConfig):
    """What is predicted of items that have about the same number of rows to learn from."""

    fewest: int
    most: int | None
    """None in the last bin, which has no upper end."""
    num_items: int
    num_rows: int
    """Held-out rows of these items."""
    predicted: dict[str, float] = Field(default_factory=dict)
    """The mean probability of each behaviour in these rows, without pessimism; empty without rows."""
    observed: dict[str, float] = Field(default_factory=dict)
    """The share of these rows with the behaviour."""
    disagreement: float | None = None
    """Standard deviation of the members' expected rewards: the mean over held-out requests and all items of the bin."""
    trust: float | None = None
    """The share of a probability that the pessimism leaves: the mean over the same pairs."""


def support_bins(
    data: SlateData, is_train_row: Tensor, row_N: Tensor, probability_NR: Tensor, model: object = None
) -> tuple[SupportBin, ...]:
    """Compare predicted with observed responses of held-out rows, by support.

    For a frozen cautious model, its disagreement and trust are measured, too.
    """
    item_row, num_items = data.item_at(torch.arange(data.num_rows, device=data.device)), data.num_items
    count_N = torch.bincount(item_row[is_train_row], minlength=num_items + 1)
    edge = torch.tensor(EDGES[1:], device=data.device)
    bin_N, bin_of_row_N = (torch.bucketize(count, edge, right=True) for count in (count_N, count_N[item_row[row_N]]))
    label_NR = data.response_at(row_N)
    ignorance = _ignorance(model, data, row_N, bin_N) if isinstance(model, CautiousModel) else {}
    bins = []
    for number, fewest in enumerate(EDGES):
        is_mine = bin_of_row_N == number
        bins.append(
            SupportBin(
                fewest=fewest,
                most=EDGES[number + 1] - 1 if number + 1 < len(EDGES) else None,
                num_items=int((bin_N[1:] == number).sum()),
                num_rows=int(is_mine.sum()),
                predicted=_means(data, probability_NR[is_mine]),
                observed=_means(data, label_NR[is_mine]),
                **ignorance.get(number, {}),
            )
        )
    return tuple(bins)


def _means(data: SlateData, value_NR: Tensor) -> dict[str, float]:
    if not len(value_NR):
        return {}
    return dict(zip(data.behaviours, value_NR.double().mean(dim=0).tolist(), strict=True))


@torch.inference_mode()
def _ignorance(model: CautiousModel, data: SlateData, row_N: Tensor, bin_N: Tensor) -> Mapping[int, dict[str, float]]:
    """Return the mean disagreement and trust of each bin that has items, over a sample of requests and items."""
    generator = torch_generator(0, "support", data.device)
    row_B = row_N[torch.randperm(len(row_N), generator=generator, device=data.device)[:_NUM_REQUESTS]]
    item_C = torch.randperm(data.num_items, generator=generator, device=data.device)[:_NUM_ITEMS] + 1
    disagreement_C, trust_C = torch.zeros(2, len(item_C), dtype=torch.float64, device=data.device)
    for rows in row_B.split(_REQUESTS_AT_ONCE):
        state, item_BC = model.encode(data.requests(rows)), item_C.expand(len(rows), -1)
        disagreement_C += model.disagreement(state, item_BC, data.weight_R).sum(dim=0) / len(row_B)
        trust_C += model.trust(state, item_BC).sum(dim=0) / len(row_B)
    means = {}
    for number in bin_N[item_C].unique().tolist():
        is_mine_C = bin_N[item_C] == number
        means[number] = {
            "disagreement": float(disagreement_C[is_mine_C].mean()),
            "trust": float(trust_C[is_mine_C].mean()),
        }
    return means

"""DPP: the greedy most likely subset of a determinantal point process (Chen et al., 2018) over a policy's top items."""

from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from gfn4rec.decoders.diversity import Diversifier, DiversityConfig

_LEAST_VARIANCE = 1e-9  # less of an item's variance left is rounding: the items before it span it
_LAST = 100.0  # puts items after those with variance, whose gains are at least log(1e-9)


class DPPConfig(DiversityConfig):
    """Settings of the DPP; the weight of relevance is theta in q = exp(relevance theta / (2 (1 - theta)))."""


class DPP(Diversifier):
    """Takes, step by step, the item that makes the determinant of q_i S_ij q_j over the slate the largest."""

    name: ClassVar = "dpp"
    description: ClassVar = "greedy most likely slate of a determinantal point process: relevant and diverse as a set"
    Config: ClassVar = DPPConfig
    config: DPPConfig

    @override
    def _places(self, relevance_BC: Tensor, similarity_BCC: Tensor, is_item_BC: Tensor, size: int) -> Tensor:
        return greedy_subset(relevance_BC, similarity_BCC, is_item_BC, size, self.config.relevance_weight)


def greedy_subset(relevance_BC: Tensor, similarity_BCC: Tensor, is_item_BC: Tensor, size: int, weight: float) -> Tensor:
    """Return the places of the items of the greedy subset, in its order, (B, K).

    The determinant grows by q_i^2 v_i, where v_i is what the items before i leave of its variance S_ii. So a step takes
    the item with the largest weight * relevance + (1 - weight) * log v_i. The Cholesky factor of S grows by a row per
    step. Items without variance would make the determinant 0, so they are taken last, by their relevance.
    """
    is_open_BC, row_B = is_item_BC.clone(), torch.arange(len(relevance_BC), device=relevance_BC.device)
    variance_BC = similarity_BCC.diagonal(dim1=1, dim2=2).clone()
    factor_BKC = variance_BC.new_zeros(len(variance_BC), size, variance_BC.shape[1])
    places = list[Tensor]()
    for step in range(size):
        place_B = _gains(relevance_BC, variance_BC, weight).masked_fill(~is_open_BC, -torch.inf).argmax(dim=1)
        left_B1 = variance_BC[row_B, place_B][:, None]
        explained_BC = (factor_BKC[row_B, :, place_B][:, :, None] * factor_BKC).sum(dim=1)
        new_BC = (similarity_BCC[row_B, place_B] - explained_BC) / left_B1.clamp(min=_LEAST_VARIANCE).sqrt()
        factor_BKC[:, step] = new_BC
        variance_BC = variance_BC - new_BC.square()
        is_open_BC[row_B, place_B] = False
        places.append(place_B)
    return torch.stack(places, dim=1)


def _gains(relevance_BC: Tensor, variance_BC: Tensor, weight: float) -> Tensor:
    """Return what each item adds to the logarithm of the determinant, times 1 - weight."""
    gain_BC = weight * relevance_BC + (1 - weight) * variance_BC.clamp(min=_LEAST_VARIANCE).log()
    if weight == 1:
        return gain_BC
    return torch.where(variance_BC <= _LEAST_VARIANCE, relevance_BC - _LAST, gain_BC)

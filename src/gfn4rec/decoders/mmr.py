"""MMR: maximal marginal relevance (Carbonell and Goldstein, 1998) over a policy's top items."""

from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from gfn4rec.decoders.diversity import Diversifier, DiversityConfig


class MMRConfig(DiversityConfig):
    """Settings of MMR; the weight of relevance is its lambda."""


class MMR(Diversifier):
    """Takes, step by step, the item that is relevant and unlike the most similar of the items before it."""

    name: ClassVar = "mmr"
    description: ClassVar = "maximal marginal relevance: relevant items that are unlike each of those before them"
    Config: ClassVar = MMRConfig
    config: MMRConfig

    @override
    def _places(self, relevance_BC: Tensor, similarity_BCC: Tensor, is_item_BC: Tensor, size: int) -> Tensor:
        return marginally_relevant(relevance_BC, similarity_BCC, is_item_BC, size, self.config.relevance_weight)


def marginally_relevant(
    relevance_BC: Tensor, similarity_BCC: Tensor, is_item_BC: Tensor, size: int, weight: float
) -> Tensor:
    """Return the places of the items that MMR takes, in its order, (B, K); similarities are not negative.

    A step takes the item with the largest weight * relevance - (1 - weight) * (largest similarity to an item before).
    """
    is_open_BC, nearest_BC = is_item_BC.clone(), torch.zeros_like(relevance_BC)
    places, row_B = list[Tensor](), torch.arange(len(relevance_BC), device=relevance_BC.device)
    for _ in range(size):
        gain_BC = weight * relevance_BC - (1 - weight) * nearest_BC
        place_B = gain_BC.masked_fill(~is_open_BC, -torch.inf).argmax(dim=1)
        nearest_BC = torch.maximum(nearest_BC, similarity_BCC[row_B, place_B])
        is_open_BC[row_B, place_B] = False
        places.append(place_B)
    return torch.stack(places, dim=1)

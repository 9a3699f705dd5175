"""MMR against a naive implementation, and worked out by hand."""

import pytest
import torch
from torch import Tensor

from gfn4rec.decoders.mmr import marginally_relevant
from tests.decoders.examples import random_lists


def naive(
    relevance: list[float], similarity: list[list[float]], is_item: list[bool], size: int, weight: float
) -> list[int]:
    """One list at a time, by the definition."""
    chosen: list[int] = []
    for _ in range(size):
        best, most = -1, float("-inf")
        for item in range(len(relevance)):
            if item in chosen or not is_item[item]:
                continue
            nearest = max((similarity[item][other] for other in chosen), default=0.0)
            value = weight * relevance[item] - (1 - weight) * nearest
            if value > most:
                best, most = item, value
        chosen.append(best)
    return chosen


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.7, 1.0])
def test_lists_are_those_of_the_definition(weight: float) -> None:
    relevance_BC, similarity_BCC, is_item_BC = random_lists(num_lists=60, length=9, width=4)
    found_BK = marginally_relevant(relevance_BC, similarity_BCC, is_item_BC, 5, weight)
    lists = zip(relevance_BC.tolist(), similarity_BCC.tolist(), is_item_BC.tolist(), strict=True)
    assert found_BK.tolist() == [naive(*one, 5, weight) for one in lists]


def by_hand(weight: float) -> list[int]:
    relevance_BC = torch.tensor([[1.0, 0.9, 0.6, 0.0]])
    similarity_BCC = torch.tensor([[[1, 0.8, 0.2, 0.0], [0.8, 1, 0.3, 0.1], [0.2, 0.3, 1, 0.9], [0.0, 0.1, 0.9, 1]]])
    everything: Tensor = torch.ones(1, 4, dtype=torch.bool)
    place_BK = marginally_relevant(relevance_BC, similarity_BCC, everything, 3, weight)
    return [int(place) for place in place_BK[0]]


def test_lists_worked_out_by_hand() -> None:
    # Half and half: item 0 first, as nothing is before it. Then 0.45 - 0.4, 0.3 - 0.1, 0 - 0: item 2. Then item 1 has
    # 0.45 - 0.4 (its nearest is item 0), item 3 has 0 - 0.45 (its nearest is item 2).
    assert by_hand(0.5) == [0, 2, 1]
    assert by_hand(1.0) == [0, 1, 2]
    assert by_hand(0.0) == [0, 3, 1]  # 0.2, 0.8 and 0.0; then 0.8 and 0.9

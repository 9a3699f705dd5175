"""The greedy subset of a DPP against determinants of submatrices, and worked out by hand."""

import numpy as np
import pytest
import torch

from gfn4rec.decoders.dpp import greedy_subset
from tests.decoders.examples import random_lists

FLOATS = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def naive(relevance: FLOATS, similarity: FLOATS, is_item: FLOATS, size: int, weight: float) -> list[int]:
    """Return the items that make the determinant of the kernel's submatrix the largest, step by step."""
    quality = np.exp(weight * relevance / (2 * (1 - weight)))
    kernel = quality[:, None] * similarity * quality[None]
    chosen: list[int] = []
    for _ in range(size):
        open_items = [item for item in range(len(relevance)) if is_item[item] and item not in chosen]
        determinants = [np.linalg.det(kernel[np.ix_([*chosen, item], [*chosen, item])]) for item in open_items]
        chosen.append(open_items[int(np.argmax(determinants))])
    return chosen


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.7, 0.95])
def test_lists_have_the_largest_determinants(weight: float) -> None:
    relevance_BC, similarity_BCC, is_item_BC = random_lists(num_lists=60, length=9, width=5)
    found_BK = greedy_subset(relevance_BC, similarity_BCC, is_item_BC, 5, weight)
    lists = zip(relevance_BC.numpy(), similarity_BCC.numpy(), is_item_BC.numpy(), strict=True)
    assert found_BK.tolist() == [naive(*one, 5, weight) for one in lists]


def test_all_weight_on_relevance_gives_the_top_items() -> None:
    relevance_BC, similarity_BCC, is_item_BC = random_lists(num_lists=60, length=9, width=2)
    similarity_BCC[:, 0], similarity_BCC[:, :, 0] = similarity_BCC[:, 1], similarity_BCC[:, :, 1]  # equal items, too
    found_BK = greedy_subset(relevance_BC, similarity_BCC, is_item_BC, 5, 1.0)
    expected_BC = relevance_BC.masked_fill(~is_item_BC, -1.0).argsort(dim=1, descending=True)
    assert torch.equal(found_BK, expected_BC[:, :5])


@pytest.mark.parametrize("weight", [0.0, 0.5, 0.99, 0.999999])
def test_identical_items_are_not_both_chosen(weight: float) -> None:
    """Items 0 to 2 are the same, and so are 3 and 4; item 5 is another. The slate has three places."""
    kind = torch.tensor([0, 0, 0, 1, 1, 2])
    similarity_BCC = (kind[:, None] == kind).double()[None]
    relevance_BC = torch.tensor([[1.0, 0.99, 0.98, 0.6, 0.5, 0.0]], dtype=torch.float64)
    everything = torch.ones(1, 6, dtype=torch.bool)
    assert greedy_subset(relevance_BC, similarity_BCC, everything, 3, weight).tolist() == [[0, 3, 5]]
    # There is no fourth kind of item: the most relevant ones fill the slate.
    assert greedy_subset(relevance_BC, similarity_BCC, everything, 5, weight).tolist() == [[0, 3, 5, 1, 2]]


def test_items_that_others_span_come_last() -> None:
    """Vectors in two dimensions: after two of them, no third one adds to the determinant."""
    relevance_BC, similarity_BCC, is_item_BC = random_lists(num_lists=40, length=6, width=2)
    similarity_BCC = 2 * similarity_BCC - 1  # products of the vectors themselves
    found_BK = greedy_subset(relevance_BC, similarity_BCC, is_item_BC, 5, 0.5)
    for row, places in enumerate(found_BK.tolist()):
        assert sorted(places[2:], key=lambda place: -float(relevance_BC[row, place])) == places[2:]
        assert len(set(places)) == 5


def test_a_list_worked_out_by_hand() -> None:
    # Item 0 first: its gain is 0.5, that of the others 0.45 and 0. Left of the variance of item 1: 1 - 0.9^2 = 0.19, of
    # item 2 all. 0.5 * 0.9 + 0.5 log 0.19 = -0.38 is less than 0.
    similarity_BCC = torch.tensor([[[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]]], dtype=torch.float64)
    relevance_BC, everything = torch.tensor([[1.0, 0.9, 0.0]], dtype=torch.float64), torch.ones(1, 3, dtype=torch.bool)
    assert greedy_subset(relevance_BC, similarity_BCC, everything, 2, 0.5).tolist() == [[0, 2]]
    # 0.7 * 0.9 + 0.3 log 0.19 = 0.13 is more.
    assert greedy_subset(relevance_BC, similarity_BCC, everything, 2, 0.7).tolist() == [[0, 1]]


def test_a_nearly_identical_item_is_taken_if_it_is_so_much_more_relevant() -> None:
    # Left of the variance of item 1 is about 1e-4: 0.95 * 0.99 + 0.05 log 1e-4 = 0.48, item 2 has 0.95 * 0.2 = 0.19.
    nearly = (1 - 1e-4) ** 0.5
    similarity_BCC = torch.tensor([[[1.0, nearly, 0.0], [nearly, 1.0, 0.0], [0.0, 0.0, 1.0]]], dtype=torch.float64)
    relevance_BC, everything = torch.tensor([[1.0, 0.99, 0.2]], dtype=torch.float64), torch.ones(1, 3, dtype=torch.bool)
    assert greedy_subset(relevance_BC, similarity_BCC, everything, 2, 0.95).tolist() == [[0, 1]]
    assert greedy_subset(relevance_BC, similarity_BCC, everything, 2, 0.9).tolist() == [[0, 2]]  # -0.03 and 0.18

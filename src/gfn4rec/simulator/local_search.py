"""Slates that no single change improves: greedy construction and local search, for any list effects."""

from itertools import combinations
from typing import Final

import torch
from torch import Tensor

from gfn4rec.simulator.slate_values import SlateValues

_TOLERANCE: Final = 1e-6  # a change must gain more than rounding errors


@torch.inference_mode()
def built_slates(values: SlateValues, item_BC: Tensor, slate_size: int) -> Tensor:
    """Return slates built from candidates, item by item: each one maximises the expected reward of the slate so far."""
    slate_BK = item_BC.new_zeros(len(item_BC), slate_size)
    for place in range(slate_size):
        reward_BC = values.rewards(_with_item(slate_BK, place, item_BC)).masked_fill(
            _is_taken(slate_BK, item_BC), -torch.inf
        )
        slate_BK[:, place] = item_BC.gather(1, reward_BC.argmax(dim=1, keepdim=True))[:, 0]
    return slate_BK


@torch.inference_mode()
def improved_slates(values: SlateValues, slate_BK: Tensor, item_BC: Tensor) -> Tensor:
    """Return slates with at least the expected rewards of the given ones, which no single change improves.

    A change replaces one item by a candidate or, if the order of items matters, exchanges two positions. At each
    position in turn, the best replacement is made.
    """
    size = slate_BK.shape[1]
    reward_B = values.rewards(slate_BK[:, None])[:, 0]
    is_open_B = torch.ones_like(reward_B, dtype=torch.bool)
    while bool(is_open_B.any()):
        row_X = is_open_B.nonzero()[:, 0]
        some, slate_XK, reward_X = values.of_requests(row_X), slate_BK[row_X], reward_B[row_X]
        for place in range(size):
            option_XCK = _with_item(slate_XK, place, item_BC[row_X])
            is_taken_XC = _is_taken(slate_XK, item_BC[row_X])
            slate_XK, reward_X = _better(some, slate_XK, reward_X, option_XCK, is_taken_XC)
        if values.is_ordered and size > 1:
            slate_XK, reward_X = _better(some, slate_XK, reward_X, _exchanges(slate_XK))
        is_open_B = torch.zeros_like(is_open_B).index_put((row_X,), reward_X > reward_B[row_X])
        slate_BK, reward_B = slate_BK.index_put((row_X,), slate_XK), reward_B.index_put((row_X,), reward_X)
    return slate_BK


def _better(
    values: SlateValues, slate_BK: Tensor, reward_B: Tensor, option_BCK: Tensor, is_closed_BC: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the best options that are better than the slates, else these, and the rewards."""
    reward_BC = values.rewards(option_BCK)
    if is_closed_BC is not None:
        reward_BC = reward_BC.masked_fill(is_closed_BC, -torch.inf)
    best_B, chosen_B = reward_BC.max(dim=1)
    best_BK = option_BCK[torch.arange(len(best_B), device=best_B.device), chosen_B]
    is_better_B = best_B > reward_B + _TOLERANCE
    return torch.where(is_better_B[:, None], best_BK, slate_BK), torch.where(is_better_B, best_B, reward_B)


def _with_item(slate_BK: Tensor, place: int, item_BC: Tensor) -> Tensor:
    """Return the slates with each of the candidates at a position, (B, C, K)."""
    option_BCK = slate_BK[:, None].repeat(1, item_BC.shape[1], 1)
    option_BCK[:, :, place] = item_BC
    return option_BCK


def _is_taken(slate_BK: Tensor, item_BC: Tensor) -> Tensor:
    """Return which candidates the slate already has, (B, C)."""
    return (slate_BK[:, None] == item_BC[:, :, None]).any(dim=2)


def _exchanges(slate_BK: Tensor) -> Tensor:
    """Return the slates with any two positions exchanged, (B, pairs, K)."""
    size = slate_BK.shape[1]
    order_PK = torch.arange(size, device=slate_BK.device).repeat(size * (size - 1) // 2, 1)
    for row, (one, other) in enumerate(combinations(range(size), 2)):
        order_PK[row, one], order_PK[row, other] = other, one
    return slate_BK[:, order_PK]

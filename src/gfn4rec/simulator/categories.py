"""The categories of items, which items share one, and which are complements."""

import re
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from gfn4rec.config import nearest
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import FeatureEntry
from gfn4rec.errors import UserError

_FIRST_VALUE = 2  # the first known value of an index feature: 0 is padding, 1 is unknown


@dataclass(frozen=True)
class ItemCategories:
    """The categories of each item.

    Categories are those values of an item feature that are known. Two items share a category if they have one in
    common. Categories are paired in the order of their names, numbers in names by their value: the first with the
    second, the third with the fourth, and so on; the last one of an odd number has no partner. Two items are
    complements if one has a category whose partner the other has.

    >>> categories = ItemCategories.made_of([(), (1,), (1, 3), (2,)])
    >>> categories.num_earlier(torch.tensor([1, 3, 2])), categories.has_complement(torch.tensor([1, 2, 3]))
    (tensor([0, 0, 1]), tensor([True, True, True]))
    """

    value_NM: Tensor  # from 1; 0 fills up the rows, and stands for no category

    @classmethod
    def of(cls, data: SlateData, name: str | None = None) -> Self:
        """Return the values of an item feature, by default of the first one with categories."""
        entry = _feature(data, name)
        features = data.item_features
        column = features.multi[entry.name] if entry.kind == "multi" else features.categorical[entry.name][:, None]
        order = sorted(range(len(entry.vocabulary)), key=lambda place: _name_key(entry.vocabulary[place]))
        rank_V = torch.zeros(_FIRST_VALUE + len(order), dtype=torch.int64, device=column.device)
        rank_V[torch.tensor(order, dtype=torch.int64, device=column.device) + _FIRST_VALUE] = torch.arange(
            1, len(order) + 1, device=column.device
        )
        return cls(rank_V[column])

    @classmethod
    def made_of(cls, categories: list[tuple[int, ...]]) -> Self:
        """Return given categories, numbered from 1 in the order of their names; the first row is that of padding."""
        width = max(1, *(len(row) for row in categories))
        return cls(torch.tensor([[*row, *[0] * (width - len(row))] for row in categories]))

    def num_earlier(self, slate: Tensor) -> Tensor:
        """Return for each item of slates, (..., K), how many items before it share a category with it."""
        value = self.value_NM[slate]
        shares = _any_equal(value.where(value > 0, -1), value)
        return shares.tril(-1).sum(dim=-1)

    def has_complement(self, slate: Tensor) -> Tensor:
        """Return for each item of slates, (..., K), whether another one is its complement."""
        is_complement = _any_equal(_partner(self.value_NM[slate]), self.value_NM[slate])
        itself = torch.eye(slate.shape[-1], dtype=torch.bool, device=slate.device)
        return (is_complement & ~itself).any(dim=-1)


def _any_equal(one: Tensor, other: Tensor) -> Tensor:
    """Return whether any value of an item, (..., K, M), equals any value of another one, (..., K, K)."""
    return (one[..., :, None, :, None] == other[..., None, :, None, :]).flatten(-2).any(dim=-1)


def _partner(value: Tensor) -> Tensor:
    """Return the partners of categories: 2 of 1, 1 of 2, 4 of 3 and so on; -1 where there is no category."""
    return ((value - 1) ^ 1) + 1


def _name_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return what names are sorted by: numbers in them by their value, so that `tag 2` comes before `tag 10`."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((int(part), "") if number % 2 else (-1, part) for number, part in enumerate(parts))


def _feature(data: SlateData, name: str | None) -> FeatureEntry:
    having = [entry for entry in data.manifest.item_features if entry.kind in ("categorical", "multi")]
    if not having:
        raise UserError(
            f"{data.manifest.name}: no item feature has categories, so saturation and complements have no meaning; "
            "leave them at 0, or prepare the data set with a categorical feature of items"
        )
    if name is None:
        return having[0]
    chosen = [entry for entry in having if entry.name == name]
    if not chosen:
        known = nearest(name, [entry.name for entry in having])
        raise UserError(f"category {name}: {data.manifest.name} has no such item feature with categories; {known}")
    return chosen[0]

"""The categories of items, which items share one, and which are complements."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from gfn4rec.config import nearest
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import FeatureEntry
from gfn4rec.errors import UserError

_BITS = 62  # of an integer that are used
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

    @cached_property
    def _sets(self) -> tuple[Tensor, Tensor] | None:
        """The categories of each item, and their partners, as bits of integers, (N, words); None if that is no gain.

        Comparing all pairs of the values of two items takes the most time in oracles.
        """
        num_words = int(self.value_NM.max()) // _BITS + 1
        if num_words >= self.value_NM.shape[1] ** 2:
            return None
        return _as_bits(self.value_NM, num_words), _as_bits(_partner(self.value_NM).clamp(min=0), num_words + 1)

    def num_earlier(self, slate: Tensor) -> Tensor:
        """Return for each item of slates, (..., K), how many items before it share a category with it."""
        if self._sets is None:
            value = self.value_NM[slate]
            shares = _any_equal(value.where(value > 0, -1), value)
        else:
            own = self._sets[0][slate]
            shares = _any_bit(own, own)
        return shares.tril(-1).sum(dim=-1)

    def has_complement(self, slate: Tensor) -> Tensor:
        """Return for each item of slates, (..., K), whether another one is its complement."""
        if self._sets is None:
            is_complement = _any_equal(_partner(self.value_NM[slate]), self.value_NM[slate])
        else:
            own, partners = (of[slate] for of in self._sets)
            is_complement = _any_bit(partners[..., : own.shape[-1]], own)
        itself = torch.eye(slate.shape[-1], dtype=torch.bool, device=slate.device)
        return (is_complement & ~itself).any(dim=-1)


def _any_equal(one: Tensor, other: Tensor) -> Tensor:
    """Return whether any value of an item, (..., K, M), equals any value of another one, (..., K, K)."""
    return (one[..., :, None, :, None] == other[..., None, :, None, :]).flatten(-2).any(dim=-1)


def _any_bit(one: Tensor, other: Tensor) -> Tensor:
    """Return whether an item has any bit, (..., K, words), of another one, (..., K, K)."""
    return ((one[..., :, None, :] & other[..., None, :, :]) != 0).any(dim=-1)


def _as_bits(value_NM: Tensor, num_words: int) -> Tensor:
    """Return sets of numbers as bits, (N, words); 0 is no number."""
    word_NM, bit_NM = value_NM // _BITS, torch.ones_like(value_NM) << value_NM % _BITS
    words = [torch.where((value_NM > 0) & (word_NM == word), bit_NM, 0) for word in range(num_words)]
    return torch.stack([_union(bits_NM) for bits_NM in words], dim=1)


def _union(bits_NM: Tensor) -> Tensor:
    union_N = bits_NM[:, 0]
    for bits_N in bits_NM.T[1:]:
        union_N = union_N | bits_N
    return union_N


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

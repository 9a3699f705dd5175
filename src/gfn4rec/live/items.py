"""The live catalogue: the items of the log, and those added while the service runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.records import Features, ItemChange, NotFoundError


@dataclass(frozen=True)
class Item:
    """An item as it is now."""

    id: str
    number: int
    title: str | None
    features: Features | None
    """Raw values that were given live; None: all as in the data set."""
    is_enabled: bool


class LiveItems:
    """The items at one revision of the catalogue; `after` returns those of a later one.

    Items keep their numbers. Those of the log come first, others follow in the order in which they were added. A change
    replaces title and features; of an item of the log, what the change leaves out is as in the data set.
    """

    def __init__(self, items: Sequence[Item], revision: int, logged: Sequence[Item]) -> None:
        self.revision = revision
        self._items, self._logged = items, logged
        self._by_id = {item.id: item for item in items}
        self.is_enabled_N = torch.tensor([False, *(item.is_enabled for item in items)])
        self.all_enabled = bool(self.is_enabled_N[1:].all())

    @classmethod
    def of(cls, data: SlateData) -> "LiveItems":
        """Return the items of a data set."""
        titles = data.items["title"].to_list() if "title" in data.items.columns else [None] * data.num_items
        rows = zip(data.items["id"].to_list(), titles, strict=True)
        items = [Item(str(raw), number, title, None, True) for number, (raw, title) in enumerate(rows, 1)]
        return cls(items, 0, items)

    def after(self, changes: Iterable[ItemChange]) -> "LiveItems":
        """Return the items after changes, which follow this revision."""
        items, by_id, revision = list(self._items), dict(self._by_id), self.revision
        for change in changes:
            assert change.revision == revision + 1, "a change of the catalogue is missing"
            known, revision = by_id.get(change.item), change.revision
            item = self._changed(len(items) + 1 if known is None else known.number, change)
            items[item.number - 1 : item.number] = [item]
            by_id[item.id] = item
        return self if revision == self.revision else LiveItems(items, revision, self._logged)

    def _changed(self, number: int, change: ItemChange) -> Item:
        if number > len(self._logged):
            return Item(change.item, number, change.title, change.features, change.is_enabled)
        title = self._logged[number - 1].title if change.title is None else change.title
        return Item(change.item, number, title, change.features or None, change.is_enabled)

    def features(self) -> dict[int, Features]:
        """Return the raw features of items that were added or changed live, by their numbers."""
        return {item.number: item.features for item in self._items if item.features is not None}

    def __len__(self) -> int:
        return len(self._items)

    def get(self, item_id: str) -> Item:
        """Return an item by its id."""
        if item_id not in self._by_id:
            raise NotFoundError(f"item {item_id}: not in the catalogue")
        return self._by_id[item_id]

    def find(self, item_id: str) -> Item | None:
        """Return an item by its id, or None."""
        return self._by_id.get(item_id)

    def at(self, number: int) -> Item:
        """Return an item by its number."""
        return self._items[number - 1]

    def added(self, num_known: int) -> Sequence[Item]:
        """Return the items whose numbers are larger than a number, in their order."""
        return self._items[num_known:]

    def search(self, text: str, limit: int) -> tuple[list[Item], int]:
        """Return items whose id or title contains a text, at most `limit`, and how many there are."""
        wanted = text.casefold()
        found = [
            item for item in self._items if wanted in item.id.casefold() or wanted in (item.title or "").casefold()
        ]
        return found[:limit], len(found)

    def open_to(self, exclude: Iterable[int], candidates: Iterable[int] | None) -> Tensor:
        """Return which items may be drawn, (N,): the enabled ones among the candidates that are not excluded."""
        is_open_N = self.is_enabled_N.clone()
        if candidates is not None:
            is_candidate_N = torch.zeros_like(is_open_N)
            is_candidate_N[list(candidates)] = True
            is_open_N &= is_candidate_N
        excluded = list(exclude)
        if excluded:
            is_open_N[excluded] = False
        return is_open_N

"""A few requests with their slates, to show to people."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.features import FIRST_VALUE
from gfn4rec.data.manifest import FeatureEntry
from gfn4rec.errors import UserError
from gfn4rec.seeding import torch_generator

FeatureValue: TypeAlias = str | float | list[str] | None  # None: unknown


@dataclass(frozen=True)
class Event:
    """An item that a user was shown, and the behaviours it was met with."""

    item: int | str
    title: str | None
    responses: list[str]
    is_sampled: bool = False
    """Whether it is an item of a slate that was sampled, so that the user was not shown it."""


@dataclass(frozen=True)
class Example:
    """A request and the slate logged for it, with raw ids and values."""

    user: int | str
    profile: dict[str, FeatureValue]
    history: list[Event]
    slate: list[Event]
    item_rewards: list[float]
    reward: float


def examples(data: SlateData, split: str, count: int, seed: int = 0) -> list[Example]:
    """Draw a few requests with their slates at random from a split."""
    slates = data.split(split)
    if not len(slates):
        raise UserError(f"the {split} split of this data set is empty; choose another --split")
    chosen = slates[torch.randperm(len(slates), generator=torch_generator(seed, "examples"))[:count]]
    return [_example(data, slate) for slate in chosen]


def _example(data: SlateData, slate: torch.Tensor) -> Example:
    batch = data.slates(slate[None])
    user = int(batch.request.user_B[0])
    history = batch.request.history_BH[0]
    is_event = history > 0
    slate_events = _events(data, batch.slate_BK[0], batch.response_BKR[0])
    if batch.is_sampled_BK is not None:
        is_sampled = batch.is_sampled_BK[0].tolist()
        slate_events = [replace(event, is_sampled=mark) for event, mark in zip(slate_events, is_sampled, strict=True)]
    return Example(
        user=data.users["id"][user - 1],
        profile={
            feature.name: _value(data.users[feature.name], user - 1, feature) for feature in data.manifest.user_features
        },
        history=_events(data, history[is_event], batch.request.response_BHR[0][is_event]),
        slate=slate_events,
        item_rewards=batch.item_reward_BK[0].tolist(),
        reward=float(batch.reward_B[0]),
    )


def _events(data: SlateData, items: torch.Tensor, responses: torch.Tensor) -> list[Event]:
    rows: pl.DataFrame = data.items[(items - 1).tolist()]
    titles = rows["title"].to_list() if "title" in rows.columns else [None] * rows.height
    return [
        Event(item, title, [name for name, response in zip(data.behaviours, row, strict=True) if response])
        for item, title, row in zip(rows["id"].to_list(), titles, responses.tolist(), strict=True)
    ]


def _value(column: pl.Series, row: int, feature: FeatureEntry) -> FeatureValue:
    """Return the raw value of a feature from the number, index or list of indices that is stored."""
    if feature.kind == "numeric":
        number: float | None = column[row]
        return number
    indices = column[row].to_list() if feature.kind == "multi" else [column[row]]
    values = [feature.vocabulary[index - FIRST_VALUE] for index in indices if index >= FIRST_VALUE]
    if feature.kind == "multi":
        return values
    return values[0] if values else None

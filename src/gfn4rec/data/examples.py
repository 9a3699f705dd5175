"""A few requests with their slates, for people to look at."""

from typing import Any

import polars as pl
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.features import FIRST_VALUE
from gfn4rec.data.manifest import FeatureEntry
from gfn4rec.errors import UserError
from gfn4rec.seeding import torch_generator


def examples(data: SlateData, split: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """A few requests with their slates, drawn at random from a split, with raw ids and values."""
    slates = data.split(split)
    if not len(slates):
        raise UserError(f"the {split} split of this data set is empty; choose another --split")
    chosen = slates[torch.randperm(len(slates), generator=torch_generator(seed, "examples"))[:count]]
    batch = data.slates(chosen)
    found = []
    for row in range(len(chosen)):
        user = int(batch.request.user_B[row])
        history = batch.request.history_BH[row]
        is_event = history > 0
        found.append(
            {
                "user": data.users["id"][user - 1],
                "profile": _profile(data.users.row(user - 1, named=True), data.manifest.user_features),
                "history": _events(data, history[is_event], batch.request.response_BHR[row][is_event]),
                "slate": _events(data, batch.slate_BK[row], batch.response_BKR[row]),
                "item_rewards": batch.item_reward_BK[row].tolist(),
                "reward": float(batch.reward_B[row]),
            }
        )
    return found


def _events(data: SlateData, items: torch.Tensor, responses: torch.Tensor) -> list[dict[str, Any]]:
    rows: pl.DataFrame = data.items[(items - 1).tolist()]
    titles = rows["title"].to_list() if "title" in rows.columns else [None] * rows.height
    return [
        {
            "item": item,
            "title": title,
            "responses": [name for name, answer in zip(data.behaviours, answers, strict=True) if answer],
        }
        for item, title, answers in zip(rows["id"].to_list(), titles, responses.tolist(), strict=True)
    ]


def _profile(row: dict[str, Any], features: tuple[FeatureEntry, ...]) -> dict[str, Any]:
    def value(feature: FeatureEntry) -> Any:
        if feature.kind == "numeric":
            return row[feature.name]
        indices = row[feature.name] if feature.kind == "multi" else [row[feature.name]]
        values = [feature.vocabulary[index - FIRST_VALUE] for index in indices if index >= FIRST_VALUE]
        return values if feature.kind == "multi" else (values[0] if values else None)

    return {feature.name: value(feature) for feature in features}

"""The figures that the paper prints, by its names of the data sets."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any, Final

from pydantic import Field

from gfn4rec.config import StrictConfig
from gfn4rec.data.manifest import PrepareConfig

AS_PREPARED_BY_THE_PAPER: Final = {"core": 20, "slate_size": 6}

Rows = dict[str, dict[str, float]]


class Published(StrictConfig):
    """A data set's figures; a table that the paper does not have of it is empty."""

    name: str
    data_sets: tuple[str, ...]
    alike: tuple[str, ...] = ()
    """Data sets of the same kind: settings are taken from it and its claims judged there, but no figures compared."""
    summary: dict[str, float]
    reward_range: str
    settings: dict[str, Any] = Field(default_factory=dict)
    """What the paper's search ended with, for GFN4Rec."""
    online: Rows = Field(default_factory=dict)
    offline: Rows = Field(default_factory=dict)
    balance: Rows = Field(default_factory=dict)
    sensitivity: dict[str, Rows] = Field(default_factory=dict)
    time: Rows = Field(default_factory=dict)
    reasons: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Why our figures are others, as far as it is known, by table and row."""


@cache
def published() -> tuple[Published, ...]:
    """All of them."""
    text = resources.files("gfn4rec.experiments").joinpath("published.toml").read_text(encoding="utf-8")
    return tuple(Published.parse({"name": name, **table}, name) for name, table in tomllib.loads(text).items())


def published_for(data_set: str, prepared: PrepareConfig) -> Published | None:
    """What is to be shown beside a data set, if anything: figures only where it is prepared as the paper's was."""
    is_theirs = prepared.model_dump(include=set(AS_PREPARED_BY_THE_PAPER)) == AS_PREPARED_BY_THE_PAPER
    for each in published():
        if is_theirs and data_set in each.data_sets:
            return each
        if data_set in (*each.data_sets, *each.alike):
            return Published(**each.model_dump(include={"name", "summary", "reward_range", "settings"}), data_sets=())
    return None

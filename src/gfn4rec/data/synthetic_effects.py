"""List effects of the embedded data sets: how the items of a logged slate change each other's responses.

They are those of docs/simulator.md, with the true category of each item. The last categories of an odd number have no
partner.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from gfn4rec.config import ADDED_LATER, GrownConfig

Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]


class LoggedEffects(GrownConfig):
    """The strengths of list effects in a log; all of them are off by default."""

    saturation: float = Field(default=0.0, ge=0, le=1, json_schema_extra=ADDED_LATER)
    complements: float = Field(default=0.0, ge=0, json_schema_extra=ADDED_LATER)
    position_decay: float = Field(default=0.0, ge=0, le=1, json_schema_extra=ADDED_LATER)
    cascade: float = Field(default=0.0, ge=0, le=1, json_schema_extra=ADDED_LATER)

    @property
    def has_stops(self) -> bool:
        """Whether users may stop before the end of a slate."""
        return self.position_decay > 0 or self.cascade > 0

    @property
    def has_effects(self) -> bool:
        """Whether any effect is on."""
        return self.saturation > 0 or self.complements > 0 or self.has_stops


def with_categories(probability: Floats, category: Ints, effects: LoggedEffects) -> Floats:
    """Return the probabilities (n, K, R) of slates whose items have these categories, (n, K), counted from 0."""
    if not (effects.saturation or effects.complements):
        return probability
    is_same = category[:, :, None] == category[:, None, :]
    is_partner = (category ^ 1)[:, :, None] == category[:, None, :]
    num_earlier = np.tril(is_same, -1).sum(axis=2)
    factor = (1 + effects.complements * is_partner.any(axis=2)) * (1 - effects.saturation) ** num_earlier
    changed: Floats = np.clip(probability * factor[:, :, None].astype(np.float32), 0, 1)
    return changed


def examination(attraction: Floats, effects: LoggedEffects) -> Floats:
    """Return the probability that each position is looked at, (n, K), given the attractions (n, K, R)."""
    responds = 1 - (1 - attraction).prod(axis=2)
    return _looked_at((1 - effects.position_decay) * (1 - effects.cascade * responds))


def stopped(response: npt.NDArray[np.bool_], effects: LoggedEffects, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return the responses (n, K, R) of users who may stop, given how they would respond to each position."""
    limit = (1 - effects.position_decay) * (1 - effects.cascade * response.any(axis=2))
    goes_on = rng.random(limit.shape, dtype=np.float32) < limit
    return response & (_looked_at(goes_on.astype(np.float32)) > 0)[:, :, None]


def _looked_at(goes_on: Floats) -> Floats:
    """Return the products of all numbers before each position."""
    looked: Floats = np.ones(goes_on.shape, dtype=np.float32)
    looked[:, 1:] = goes_on[:, :-1].cumprod(axis=1)
    return looked

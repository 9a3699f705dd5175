"""List effects: how the items of a slate, and their positions, change each other's responses.

Each effect is a function of its own; `attraction` composes those that change what an item is worth to a user who looks
at it, and `examination` says whether the user does. A response has the probability

    attraction * examination
    attraction = clip((p - rho * similarity) * (1 + complements)^c * (1 - saturation)^n, 0, 1) * trust

where p is the response model's probability, c is 1 for an item with a complement in the slate and else 0, and n is the
number of earlier items of the slate that share its category.
"""

from typing import Final, Self

import torch
from pydantic import Field
from torch import Tensor

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.simulator.categories import ItemCategories


class ListEffects(StrictConfig):
    """The strengths of list effects besides rho; all of them are off by default.

    >>> ListEffects(cascade=0.5).is_ordered, ListEffects().is_any
    (True, False)
    """

    saturation: float = Field(default=0.0, ge=0, le=1)
    """Share of an item's responses that each earlier item of the same category takes away."""
    complements: float = Field(default=0.0, ge=0)
    """How many more responses an item gets if another one of the slate is its complement, as a share of its own."""
    position_decay: float = Field(default=0.0, ge=0, le=1)
    """Probability that a user stops after a position, whatever the responses are."""
    cascade: float = Field(default=0.0, ge=0, le=1)
    """Probability that a user stops after a position with a response."""
    category: str | None = None
    """Name of the item feature with the categories; by default the first one that has them."""

    @property
    def has_categories(self) -> bool:
        """Whether categories of items matter."""
        return self.saturation > 0 or self.complements > 0

    @property
    def has_examination(self) -> bool:
        """Whether users may stop before the end of a slate."""
        return self.position_decay > 0 or self.cascade > 0

    @property
    def is_ordered(self) -> bool:
        """Whether the order of a slate's items matters."""
        return self.saturation > 0 or self.has_examination

    @property
    def is_any(self) -> bool:
        """Whether any effect is on."""
        return self.has_categories or self.has_examination

    def strengths(self) -> dict[str, object]:
        """Return the settings that are not the default; none of them if no effect is on."""
        return self.model_dump(mode="json", exclude_defaults=True) if self.is_any else {}

    def categories(self, data: SlateData) -> ItemCategories | None:
        """Return the categories of a data set, or None if none are needed."""
        needed = self.has_categories or self.category is not None
        return ItemCategories.of(data, self.category) if needed else None

    @classmethod
    def of(cls, other: "ListEffects") -> Self:
        """Return the effects alone of a configuration that has more."""
        return cls(**{name: getattr(other, name) for name in cls.model_fields})


NO_EFFECTS: Final = ListEffects()


def attraction(suppressed: Tensor, slate: Tensor, effects: ListEffects, categories: ItemCategories | None) -> Tensor:
    """Return the probabilities (..., K, R) of responses to items that are looked at, not yet clipped to [0, 1].

    `suppressed` are those with the influence of similar items.
    """
    if categories is None:
        return suppressed
    if effects.complements:
        suppressed = complemented(suppressed, categories.has_complement(slate), effects.complements)
    if effects.saturation:
        suppressed = saturated(suppressed, categories.num_earlier(slate), effects.saturation)
    return suppressed


def complemented(probability: Tensor, has_complement: Tensor, strength: float) -> Tensor:
    """Return the probabilities (..., K, R), those of items with a complement times 1 + strength."""
    return probability * torch.where(has_complement, 1 + strength, 1.0)[..., None]


def saturated(probability: Tensor, num_earlier: Tensor, saturation: float) -> Tensor:
    """Return the probabilities (..., K, R) times (1 - saturation)^n for n earlier items of the category."""
    return probability * ((1 - saturation) ** num_earlier)[..., None]


def examination(attraction: Tensor, effects: ListEffects) -> Tensor:
    """Return the probability that each position is looked at, (..., K), given the attractions (..., K, R).

    The first position always is. After a position that was looked at, the user looks at the next one with the
    probability (1 - position_decay) * (1 - cascade if there was a response). Responses to an item are independent of
    each other.
    """
    responds = 1 - (1 - attraction).prod(dim=-1)
    goes_on = (1 - effects.position_decay) * (1 - effects.cascade * responds)
    return torch.cat([torch.ones_like(goes_on[..., :1]), goes_on[..., :-1]], dim=-1).cumprod(dim=-1)


def looked_at(response: Tensor, uniform: Tensor, effects: ListEffects) -> Tensor:
    """Return which positions are looked at, (..., K), 0 or 1, given how the user would respond to each, (..., K, R).

    `uniform` has a number between 0 and 1 for each position, which decides whether the user goes on after it.
    """
    responds = response.any(dim=-1).to(uniform.dtype)
    goes_on = (uniform < (1 - effects.position_decay) * (1 - effects.cascade * responds)).to(response.dtype)
    return torch.cat([torch.ones_like(goes_on[..., :1]), goes_on[..., :-1]], dim=-1).cumprod(dim=-1)

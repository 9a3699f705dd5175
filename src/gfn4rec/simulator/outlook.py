"""How users may respond to slates: all list effects, composed in their order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from torch import Tensor

from gfn4rec.simulator.categories import ItemCategories
from gfn4rec.simulator.effects import ListEffects, attraction, examination, looked_at
from gfn4rec.simulator.influence import slate_similarity, suppress

Draw: TypeAlias = Callable[[Sequence[int]], Tensor]


@dataclass(frozen=True)
class Outlook:
    """How users may respond to slates (..., K).

    The attraction of an item is the probability of each behaviour if the user looks at it.
    """

    raw: Tensor  # the attraction before it was clipped to [0, 1], (..., K, R)
    attraction: Tensor
    similarity: Tensor  # of each item to the others of its slate, (..., K)
    effects: ListEffects

    def probabilities(self) -> Tensor:
        """Return the probability of each response, whether the user looks at the item or not, (..., K, R)."""
        if not self.effects.has_examination:
            return self.attraction
        return self.attraction * examination(self.attraction, self.effects)[..., None]

    def without(self, is_absent: Tensor) -> "Outlook":
        """Return the same, with positions (..., K) whose items get no response."""
        return replace(self, attraction=self.attraction * ~is_absent[..., None])

    def draw_responses(self, draw: Draw) -> Tensor:
        """Return responses to slates (B, K), 0 or 1. `draw` returns uniform numbers, B times the shape it is given."""
        response_BKR = (draw(self.attraction.shape[1:]) < self.attraction).float()
        if not self.effects.has_examination:
            return response_BKR
        uniform_BK = draw(self.attraction.shape[1:2])
        return response_BKR * looked_at(response_BKR, uniform_BK, self.effects)[:, :, None]


@dataclass(frozen=True)
class ListModel:
    """How the items of a slate change each other's responses."""

    item_embedding_ND: Tensor
    effects: ListEffects
    rho: float
    categories: ItemCategories | None  # None if no effect needs them
    includes_self: bool  # whether item influence includes the similarity of an item to itself

    def outlook(self, slate: Tensor, probability: Tensor, trust: Tensor) -> Outlook:
        """Return how users may respond to slates (..., K).

        `probability` (..., K, R) is that of each item alone, `trust` (..., K) the share of it that is believed.
        """
        similarity = slate_similarity(self.item_embedding_ND, slate, self.includes_self)
        raw = attraction(suppress(probability, similarity, self.rho), slate, self.effects, self.categories)
        return Outlook(raw * trust[..., None], raw.clamp(0, 1) * trust[..., None], similarity, self.effects)

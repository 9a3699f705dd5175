"""What MMR and DPP share: they weigh the relevance of a policy's top items against their similarity to each other."""

from abc import abstractmethod
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor
from typing_extensions import override

from gfn4rec.decoders.base import DecodedSlates, Decoder
from gfn4rec.decoders.similarity import similarities
from gfn4rec.decoders.top_items import TopItems, TopItemsConfig
from gfn4rec.policies.base import CandidateIds, Policy
from gfn4rec.policies.draws import Generators
from gfn4rec.schema import Request, Sampling


class DiversityConfig(TopItemsConfig):
    """Settings of a decoder that weighs relevance against diversity."""

    relevance_weight: float = Field(default=0.7, ge=0, le=1)
    """Weight of relevance against diversity: 1 shows the policy's top items, 0 starts at the best and diversifies."""
    similarity: Literal["vectors", "features"] = "vectors"
    """What makes items similar: the policy's item vectors, or the features of items (categories, not numbers)."""


class Diversifier(Decoder):
    """Chooses among the policy's top items by a rule that knows their relevance and their similarity."""

    draws: ClassVar = False
    config: DiversityConfig

    @abstractmethod
    def _places(self, relevance_BC: Tensor, similarity_BCC: Tensor, is_item_BC: Tensor, size: int) -> Tensor:
        """Return the places of the chosen items among the top ones, in their order, (B, K)."""

    @override
    def _decode(
        self,
        policy: Policy,
        request: Request,
        generator: Generators | None,
        sampling: Sampling,
        candidates: CandidateIds | None,
    ) -> DecodedSlates:
        top = TopItems.of(policy, request, sampling, candidates, self.config.num_candidates)
        similarity_BCC = similarities(policy, top.item_BC, self.config.similarity)
        size = policy.catalogue.slate_size
        return top.decoded(policy, self._places(top.relevance(), similarity_BCC, top.is_item(), size))

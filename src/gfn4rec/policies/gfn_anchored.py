"""The anchored GFN: the energy GFN as a correction of a reward model, with a uniform prior."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import Tensor
from typing_extensions import override

from gfn4rec.policies.averaging import AVERAGING
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.guided import GuidedConfig, GuidedGFN
from gfn4rec.policies.log_prior import PriorScores
from gfn4rec.schema import Request


class AnchoredGFNConfig(GuidedConfig):
    """Settings of the anchored GFN."""

    beta: float = Field(default=60.0, gt=0)
    """Sharpness: slate probabilities are proportional to exp(beta * expected reward)."""


class AnchoredGFN(GuidedGFN):
    """A flow whose probabilities are relative to uniform ones, and which starts at a reward model's predictions."""

    description: ClassVar = "anchored GFN, the energy GFN as a correction of predicted item rewards"
    Config: ClassVar = AnchoredGFNConfig
    config: AnchoredGFNConfig
    training_defaults: ClassVar[Mapping[str, object]] = AVERAGING

    def __init__(self, catalogue: Catalogue, config: AnchoredGFNConfig) -> None:
        super().__init__(catalogue, config, prior_state_dim=0, scale=config.beta / catalogue.slate_size)

    @override
    def _prior(self, request: Request, is_hidden_N: Tensor | None) -> PriorScores:
        """Return equal scores for all items."""
        nothing_B0 = self.scale.new_zeros(len(request.user_B), 0)
        return PriorScores(nothing_B0, self.scale.new_zeros(self.catalogue.num_items + 1, 0), nothing_B0)

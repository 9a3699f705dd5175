"""Best of n: draws several slates, and shows the one of which the policy's flow expects the highest reward."""

from typing import ClassVar

import torch
from pydantic import Field
from typing_extensions import override

from gfn4rec.decoders.base import DecodedSlates, Decoder, DecoderConfig
from gfn4rec.policies.base import CandidateIds, Policy
from gfn4rec.policies.draws import Generators
from gfn4rec.schema import Request, Sampling


class BestOfNConfig(DecoderConfig):
    """Settings of best of n."""

    num_slates: int = Field(default=16, ge=1)
    """Number of slates drawn for each request (n)."""


class BestOfN(Decoder):
    """Keeps the drawn slate with the highest `Policy.score`, the first one if there are several."""

    name: ClassVar = "best-of-n"
    description: ClassVar = "draws n slates and keeps the one of which the policy's flow expects the highest reward"
    Config: ClassVar = BestOfNConfig
    draws: ClassVar = True
    config: BestOfNConfig

    @override
    def _decode(
        self,
        policy: Policy,
        request: Request,
        generator: Generators | None,
        sampling: Sampling,
        candidates: CandidateIds | None,
    ) -> DecodedSlates:
        first = policy.recommend(request, generator, sampling, candidates)
        slate_BK, log_prob_BK, score_B = first.slate_BK, first.log_prob_BK, policy.score(request, first.slate_BK)
        for _ in range(1, self.config.num_slates):
            drawn = policy.recommend(request, generator, sampling, candidates)
            drawn_B = policy.score(request, drawn.slate_BK)
            is_better_B1 = (drawn_B > score_B)[:, None]
            slate_BK = torch.where(is_better_B1, drawn.slate_BK, slate_BK)
            log_prob_BK = torch.where(is_better_B1, drawn.log_prob_BK, log_prob_BK)
            score_B = torch.maximum(drawn_B, score_B)
        return DecodedSlates(slate_BK, log_prob_BK)

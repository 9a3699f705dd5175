"""The contract of decoders: a policy and requests become slates in another way than by drawing them step by step."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from gfn4rec.config import StrictConfig
from gfn4rec.errors import UserError
from gfn4rec.policies.base import CandidateIds, Policy
from gfn4rec.policies.draws import Generators, check_generators
from gfn4rec.schema import Request, Sampling


class DecoderConfig(StrictConfig):
    """Settings of a decoder."""


@dataclass(frozen=True)
class DecodedSlates:
    """Slates of a decoder.

    `log_prob_BK` is the log-probability, at temperature 1, of each step of the policy itself if it built these slates:
    how likely the policy finds them. It is not that of the decoder. A decoder has no `sampling_log_prob_BK`, because
    the probability with which it shows a slate is 1 or unknown; so its slates are of no use to off-policy estimates.

    >>> slates = DecodedSlates(torch.tensor([[4, 5]]), torch.tensor([[-1.0, -2.0]]))
    >>> slates.log_prob_BK.sum(dim=1)
    tensor([-3.])
    """

    slate_BK: Tensor
    log_prob_BK: Tensor


class Decoder(ABC):
    """Makes slates from a policy.

    >>> import torch
    >>> from gfn4rec import OpenedRun, build_decoder
    >>> opened = OpenedRun.open("runs/tiny")
    >>> request = opened.data.latest(torch.tensor([1, 2]))
    >>> build_decoder("mmr", {"relevance_weight": 0.8}).recommend(opened.policy, request).slate_BK.shape
    torch.Size([2, 6])
    """

    name: ClassVar[str]
    description: ClassVar[str]
    """The line of the table in docs/decoders.md."""
    Config: ClassVar[type[DecoderConfig]]
    draws: ClassVar[bool]
    """Whether it draws slates from the policy, so that temperature, greediness and epsilon have a meaning."""
    starts_greedily: ClassVar[bool] = False
    """Whether it also takes greedy slates, besides drawn ones."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def recommend(
        self,
        policy: Policy,
        request: Request,
        generator: Generators | None = None,
        sampling: Sampling = Sampling(),  # noqa: B008
        candidates: CandidateIds | None = None,
    ) -> DecodedSlates:
        """Return a slate of different items for each request; arguments are those of `Policy.recommend`."""
        self._check(sampling)
        check_generators(generator, len(request.user_B))
        if not len(request.user_B):
            slate_BK = torch.empty(0, policy.catalogue.slate_size, device=request.user_B.device)
            return DecodedSlates(slate_BK.long(), slate_BK)
        return self._decode(policy, request, generator, sampling, candidates)

    @abstractmethod
    def _decode(
        self,
        policy: Policy,
        request: Request,
        generator: Generators | None,
        sampling: Sampling,
        candidates: CandidateIds | None,
    ) -> DecodedSlates:
        """Return the slates of at least one request, given a sampling that has a meaning."""

    def as_dict(self) -> dict[str, object]:
        """Return name and settings as values for JSON."""
        return {"name": self.name, "settings": self.config.model_dump(mode="json")}

    def _check(self, sampling: Sampling) -> None:
        if self.draws:
            if sampling.is_deterministic and not self.starts_greedily:
                raise UserError(f"{self.name} chooses among drawn slates, and greedy ones are all the same; draw them")
            return
        for name, plain in (("temperature", 1.0), ("greediness", None), ("epsilon", 0.0)):
            value = getattr(sampling, name)
            if isinstance(value, Tensor) or value != plain:
                raise UserError(f"{self.name} draws nothing, so {name} has no effect; leave it out")

"""A simulator that knows what it does not know: what users would have chosen, and where its members disagree.

A log holds the responses to items that users chose. What a response model says of other items is a guess, and mostly
optimistic: who took the trouble to watch an obscure film probably liked it. The cautious model also learns which items
a user chooses, and lowers the probabilities of those that such users hardly ever choose.
"""

import copy
import math
from typing import Self, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from gfn4rec.schema import FeatureTensors, Request
from gfn4rec.simulator.effects import NO_EFFECTS, ListEffects
from gfn4rec.simulator.response_model import ItemLogits, ResponseModelConfig


class CautiousConfig(ResponseModelConfig):
    """Sizes of the cautious model."""

    id_deviation: float = Field(default=0.001, gt=0)
    """Standard deviation of the initial id embeddings; with a small one, rare items and users rely on features."""
    num_members: int = Field(default=3, ge=1)
    """The number of networks whose mean is the prediction."""
    num_positions: int = Field(default=0, ge=0)
    """K, if the log says at which position of a slate items were shown, else 0."""


class CautiousNetwork(ItemLogits):
    """A member of the cautious model: a logit per behaviour and one of choice, and what positions change.

    Users look less at later positions, so that each position but the first has a number per behaviour, which is added
    to the logit.
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        num_behaviours: int,
        user_features: FeatureTensors,
        item_features: FeatureTensors,
        config: CautiousConfig,
    ) -> None:
        super().__init__(num_users, num_items, num_behaviours, user_features, item_features, config, num_behaviours + 1)
        if config.num_positions:
            self.later_positions = nn.Parameter(torch.zeros(config.num_positions - 1, num_behaviours))

    @torch.no_grad()
    def start_positions(self, effect_KR: Tensor) -> None:
        """Start with these effects of the positions; the first row, that of the first position, is 0."""
        self.later_positions.copy_(effect_KR[1:])

    def examination(self, position: Tensor) -> Tensor:
        """Return what is added to the logits of responses at positions, counted from 0, (...) -> (..., R)."""
        return F.embedding(position, F.pad(self.later_positions, (0, 0, 1, 0)))


class CautiousModel(nn.Module):
    """The mean of several networks, each with a logit per behaviour and one of choice.

    The logit of choice is log ratio(u, i): how much likelier the user is to choose the item than an item drawn
    uniformly is to be this one. With the pessimism c, a response has the probability p * ratio / (ratio + c), where p
    is its calibrated probability if the item was chosen. So c = 0 believes all predictions, and an item that the user
    chooses c times as often as a random one has half of p.

    It is a `UserModel` once it is frozen.
    """

    rho: float | None = None
    """The strength of item influence; one that was loaded from disk has it."""
    effects: ListEffects = NO_EFFECTS
    """Other list effects; one that was loaded from disk has those that it was made with."""
    pessimism: float = 0.0

    def __init__(
        self,
        num_users: int,
        num_items: int,
        num_behaviours: int,
        user_features: FeatureTensors,
        item_features: FeatureTensors,
        config: CautiousConfig,
    ) -> None:
        super().__init__()
        self.config = config
        sizes = (num_users, num_items, num_behaviours, user_features, item_features, config)
        self.networks = nn.ModuleList(CautiousNetwork(*sizes) for _ in range(config.num_members))
        self.calibration_2R: Tensor
        self.item_encoding_MND: Tensor
        self.item_embedding_ND: Tensor
        self.register_buffer("calibration_2R", torch.tensor([[1.0], [0.0]]).repeat(1, num_behaviours))
        encoding_MND = torch.zeros(config.num_members, num_items + 1, config.dim)
        self.register_buffer("item_encoding_MND", encoding_MND, persistent=False)
        self.register_buffer("item_embedding_ND", torch.zeros(num_items + 1, config.dim), persistent=False)

    @property
    def history_length(self) -> int:
        """The number of events that the model reads of a history."""
        return self.config.history_length

    @property
    def has_positions(self) -> bool:
        """Whether probabilities depend on the position in the slate."""
        return self.config.num_positions > 0

    @property
    def members(self) -> list[CautiousNetwork]:
        """The networks that learn."""
        return [cast(CautiousNetwork, network) for network in self.networks]

    @torch.no_grad()
    def freeze(self) -> Self:
        """Turn gradients and dropout off, and encode all items once.

        The similarity of two items is the mean of the members' cosines.
        """
        self.eval().requires_grad_(False)
        self.item_encoding_MND = torch.stack([member.encoder.items.table() for member in self.members])
        unit_MND = F.normalize(self.item_encoding_MND, dim=2)
        self.item_embedding_ND = torch.cat(list(unit_MND), dim=1) / len(unit_MND) ** 0.5
        return self

    def with_pessimism(self, pessimism: float) -> Self:
        """Return the same model with another pessimism; the weights are shared."""
        other = copy.copy(self)
        other.pessimism = pessimism
        return other

    def encode(self, request: Request) -> Tensor:
        """Return the state vectors of requests, (B, members, R + 1, ensembles, D)."""
        pairs = zip(self.members, self.item_encoding_MND, strict=True)
        return torch.stack(
            [member.state_vectors(member.encoder(request, table_ND)) for member, table_ND in pairs], dim=1
        )

    def probabilities(self, state: Tensor, item_BC: Tensor) -> Tensor:
        """Return the probabilities of each behaviour for C items of each request, if they were chosen, (B, C, R).

        If positions matter, they are those at the first position.
        """
        return self._calibrated(self._logits(state, item_BC)[:, :, :, :-1].mean(dim=0))

    def slate_probabilities(self, state: Tensor, slate_BK: Tensor) -> Tensor:
        """Return the probabilities of each behaviour for the items of slates, each at its position, (B, K, R)."""
        if not self.has_positions:
            return self.probabilities(state, slate_BK)
        logit_BKR = self._logits(state, slate_BK)[:, :, :, :-1].mean(dim=0)
        position_K = torch.arange(slate_BK.shape[1], device=slate_BK.device).clamp(max=self.config.num_positions - 1)
        examination_KR = torch.stack([member.examination(position_K) for member in self.members]).mean(dim=0)
        return self._calibrated(logit_BKR + examination_KR)

    def trust(self, state: Tensor, item_BC: Tensor) -> Tensor:
        """Return ratio / (ratio + pessimism), the share of a probability that is believed, (B, C)."""
        if self.pessimism == 0:
            return torch.ones(item_BC.shape, device=item_BC.device)
        log_ratio_BC = self._logits(state, item_BC, first=-1)[:, :, :, 0].mean(dim=0)
        return torch.sigmoid(log_ratio_BC - math.log(self.pessimism))

    def disagreement(self, state: Tensor, item_BC: Tensor, weight_R: Tensor) -> Tensor:
        """Return the standard deviation of the members' expected item rewards, without pessimism, (B, C)."""
        reward_MBC = self._calibrated(self._logits(state, item_BC)[:, :, :, :-1]) @ weight_R
        return reward_MBC.std(dim=0, unbiased=False)

    def _logits(self, state: Tensor, item_BC: Tensor, first: int = 0) -> Tensor:
        """Return the logits of each member from this one on, (members, B, C, R + 1)."""
        triples = zip(self.members, state.unbind(dim=1), self.item_encoding_MND, strict=True)
        return torch.stack(
            [member.logits(vectors[:, None], table_ND[item_BC], first) for member, vectors, table_ND in triples]
        )

    def _calibrated(self, logits: Tensor) -> Tensor:
        return torch.sigmoid(logits * self.calibration_2R[0] + self.calibration_2R[1])

"""The response model g(u, O): the probability of each response to an item, before item influence."""

from typing import Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from gfn4rec.nn.request_encoder import RequestEncoder, RequestEncoderConfig
from gfn4rec.schema import FeatureTensors, Request
from gfn4rec.simulator.effects import NO_EFFECTS, ListEffects


class ResponseModelConfig(RequestEncoderConfig):
    """Sizes of the response model."""

    num_ensembles: int = Field(default=2, ge=1)
    """The number of ensembles; their largest logit is the prediction."""


class ItemLogits(nn.Module):
    """Logits of a request and an item, R of them: the dot product of a state vector and the item encoding, plus a bias.

    The bias depends on the item's encoding.
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        num_behaviours: int,
        user_features: FeatureTensors,
        item_features: FeatureTensors,
        config: ResponseModelConfig,
        num_logits: int,
    ) -> None:
        super().__init__()
        self.config = config
        self.encoder = RequestEncoder(num_users, num_items, num_behaviours, user_features, item_features, config)
        self.head = nn.Linear(config.state_dim, num_logits * config.num_ensembles * config.dim)
        self.head_norm = nn.LayerNorm(config.dim)
        self.item_bias = nn.Linear(config.dim, num_logits)

    def state_vectors(self, state: Tensor) -> Tensor:
        """Map states to state vectors, (..., state_dim) -> (..., R, ensembles, D)."""
        vectors = self.head(state).unflatten(-1, (-1, self.config.num_ensembles, self.config.dim))
        normalised: Tensor = self.head_norm(vectors)
        return normalised

    def logits(self, state_vectors: Tensor, item: Tensor, first: int = 0) -> Tensor:
        """Return logits before calibration, (..., R), of state vectors (..., R, ensembles, D) and items (..., D).

        With `first`, only those from this one on are computed.
        """
        score = torch.einsum("...red,...d->...re", state_vectors[..., first:, :, :], item) / self.config.dim**0.5
        bias = self.item_bias
        logits: Tensor = score.amax(dim=-1) + F.linear(item, bias.weight[first:], bias.bias[first:])
        return logits


class ResponseModel(ItemLogits):
    """The paper's response model: a logit per behaviour.

    It is a `UserModel` once it is frozen, which encodes all items. Probabilities are calibrated by a scale and a shift
    per behaviour, which are 1 and 0 until they are fitted.
    """

    rho: float | None = None
    """The strength of item influence; one that was loaded from disk has it."""
    effects: ListEffects = NO_EFFECTS
    """Other list effects; one that was loaded from disk has those that it was made with."""

    def __init__(
        self,
        num_users: int,
        num_items: int,
        num_behaviours: int,
        user_features: FeatureTensors,
        item_features: FeatureTensors,
        config: ResponseModelConfig,
    ) -> None:
        super().__init__(num_users, num_items, num_behaviours, user_features, item_features, config, num_behaviours)
        self.calibration_2R: Tensor
        self.item_encoding_ND: Tensor
        self.item_embedding_ND: Tensor
        self.register_buffer("calibration_2R", torch.tensor([[1.0], [0.0]]).repeat(1, num_behaviours))
        self.register_buffer("item_encoding_ND", torch.zeros(num_items + 1, config.dim), persistent=False)
        self.register_buffer("item_embedding_ND", torch.zeros(num_items + 1, config.dim), persistent=False)

    @property
    def history_length(self) -> int:
        """The number of events that the model reads of a history."""
        return self.config.history_length

    @property
    def members(self) -> list[ItemLogits]:
        """The networks that learn: the model itself."""
        return [self]

    @torch.no_grad()
    def freeze(self) -> Self:
        """Turn gradients and dropout off, and encode all items once, with embeddings of length 1."""
        self.eval().requires_grad_(False)
        self.item_encoding_ND = self.encoder.items.table()
        self.item_embedding_ND = F.normalize(self.item_encoding_ND, dim=1)
        return self

    def encode(self, request: Request) -> Tensor:
        """Return the state vectors of requests, (B, R, ensembles, D)."""
        return self.state_vectors(self.encoder(request, self.item_encoding_ND))

    def probabilities(self, state: Tensor, item_BC: Tensor) -> Tensor:
        """Return calibrated probabilities of each behaviour for C items of each request, (B, C, R)."""
        logits = self.logits(state[:, None], self.item_encoding_ND[item_BC])
        return torch.sigmoid(logits * self.calibration_2R[0] + self.calibration_2R[1])

"""What all learning policies stand on: the request encoder, and the item table it shares with the scores."""

from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from gfn4rec.nn.request_encoder import RequestEncoder, RequestEncoderConfig
from gfn4rec.policies.base import PolicyConfig
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request


class PolicyEncoderConfig(RequestEncoderConfig):
    """The request encoder of a policy: no dropout, so that the trained distribution is the sampled one."""

    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of values dropped while learning."""


class BackboneConfig(PolicyConfig):
    """Settings that every learning policy has."""

    encoder: PolicyEncoderConfig = PolicyEncoderConfig()
    """Sizes of the request encoder."""
    hidden_dims: tuple[PositiveInt, ...] = (128,)
    """Hidden widths of the networks on top of the encoder."""
    unknown_user_share: float = Field(default=0.05, ge=0, le=1)
    """Share of requests whose user is hidden while learning, so that unknown users can be served."""
    scoring: Literal["float32", "bfloat16"] = "float32"
    """Precision of the products with the item table."""


class Backbone(nn.Module):
    """Encodes requests, and all items: once per change of the weights where nothing is learned."""

    def __init__(self, catalogue: Catalogue, config: BackboneConfig) -> None:
        super().__init__()
        self.unknown_user_share = config.unknown_user_share
        self.scoring_dtype = torch.bfloat16 if config.scoring == "bfloat16" else None
        self.encoder = RequestEncoder(
            catalogue.num_users,
            catalogue.num_items,
            len(catalogue.weight_R),
            catalogue.user_features,
            catalogue.item_features,
            config.encoder,
        )
        self._cached_table: tuple[list[Tensor], Tensor] | None = None

    def encode(self, request: Request) -> tuple[Tensor, Tensor]:
        """The states of requests, (B, state_dim), and the vectors of all items, (N, D)."""
        table_ND = self.item_table()
        return self.encoder(request, table_ND), table_ND

    def item_table(self) -> Tensor:
        """The vectors of all items, as they are now."""
        if torch.is_grad_enabled():
            return self.encoder.items.table()
        weights = list(self.encoder.items.parameters())
        # The weights themselves are compared: a fused optimiser changes them without counting up their versions.
        if self._cached_table is None or not all(map(_same, self._cached_table[0], weights)):
            # A normal tensor in the weights' own precision, whatever the caller's context is.
            with torch.inference_mode(False), torch.no_grad(), torch.autocast(weights[0].device.type, enabled=False):
                self._cached_table = [weight.clone() for weight in weights], self.encoder.items.table()
        return self._cached_table[1]

    def hide_users(self, request: Request, generator: torch.Generator) -> Request:
        """The same requests, some of them by unknown users."""
        uniform_B = torch.rand(len(request.user_B), generator=generator, device=request.user_B.device)
        user_B = request.user_B.masked_fill(uniform_B < self.unknown_user_share, 0)
        return Request(user_B, request.history_BH, request.response_BHR)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.device == other.device and one.dtype == other.dtype and torch.equal(one, other)

"""The request encoder of all policies that learn, and the item table that encoder and scores share."""

from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from typing_extensions import override

from gfn4rec.config import ADDED_LATER
from gfn4rec.nn.kept import Kept
from gfn4rec.nn.request_encoder import RequestEncoder, RequestEncoderConfig
from gfn4rec.policies.base import PolicyConfig
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request
from gfn4rec.seeding import torch_generator


class PolicyEncoderConfig(RequestEncoderConfig):
    """Sizes of a policy's request encoder. No dropout by default, so that slates follow the trained distribution."""

    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate in training."""


class BackboneConfig(PolicyConfig):
    """Settings of every policy that learns."""

    encoder: PolicyEncoderConfig = PolicyEncoderConfig()
    """Sizes of the request encoder."""
    hidden_dims: tuple[PositiveInt, ...] = (128,)
    """Widths of the hidden layers of the networks on top of the encoder."""
    unknown_user_share: float = Field(default=0.05, ge=0, le=1)
    """Share of training requests whose user is hidden, so that the policy learns to serve unknown users."""
    unknown_item_share: float = Field(default=0.0, ge=0, le=1, json_schema_extra=ADDED_LATER)
    """Share of items whose ids are hidden in a learning step, so that the policy learns to encode new items."""
    scoring: Literal["float32", "bfloat16"] = "float32"
    """Precision of the scores, which are dot products with item vectors; bfloat16 pays only on a GPU."""

    @property
    @override
    def history_length(self) -> int:
        """Number of latest events of a history that the policy reads."""
        return self.encoder.history_length


class Backbone(nn.Module):
    """Encodes requests and all items. Without gradients, items are encoded once per change of the weights."""

    def __init__(self, catalogue: Catalogue, config: BackboneConfig) -> None:
        super().__init__()
        self.unknown_user_share, self.unknown_item_share = config.unknown_user_share, config.unknown_item_share
        self.scoring_dtype = torch.bfloat16 if config.scoring == "bfloat16" else None
        self.encoder = RequestEncoder(
            catalogue.num_users,
            catalogue.num_items,
            len(catalogue.weight_R),
            catalogue.user_features,
            catalogue.item_features,
            config.encoder,
        )
        self._table = Kept()

    def encode(self, request: Request, is_hidden_N: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the states of requests, (B, S), and the vectors of all items, (N, D)."""
        table_ND = self.item_table(is_hidden_N)
        return self.encoder(request, table_ND), table_ND

    def encode_to_learn(self, request: Request, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the same with some of the users and of the items' ids hidden."""
        return self.encode(self.hide_users(request, generator), self.hide_items(generator))

    def item_table(self, is_hidden_N: Tensor | None = None) -> Tensor:
        """Return the vectors of all items under the current weights, (N, D)."""
        items = self.encoder.items
        return self._table.of(list(items.parameters()), lambda: items.table(is_hidden_N), keep=is_hidden_N is None)

    def hide_users(self, request: Request, generator: torch.Generator) -> Request:
        """Return the same requests with some of the users replaced by the unknown user."""
        uniform_B = torch.rand(len(request.user_B), generator=generator, device=request.user_B.device)
        user_B = request.user_B.masked_fill(uniform_B < self.unknown_user_share, 0)
        return Request(user_B, request.history_BH, request.response_BHR)

    def hide_items(self, generator: torch.Generator) -> Tensor | None:
        """Return which items' ids are hidden in a learning step, (N,); None if they never are.

        The numbers come from a stream of their own that begins where the generator is, and leave the generator there.
        """
        if not self.unknown_item_share:
            return None
        start = int(torch.randint(2**62, (), generator=generator.clone_state(), device=generator.device))
        own = torch_generator(start, "hidden items", generator.device)
        num_rows = self.encoder.items.num_entities + 1
        return torch.rand(num_rows, generator=own, device=generator.device) < self.unknown_item_share

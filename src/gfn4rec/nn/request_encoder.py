"""The request encoder of the paper's appendix: a causal transformer over the history, joined with the user profile."""

from typing import Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from gfn4rec.config import ADDED_LATER, StrictConfig
from gfn4rec.nn.entity_encoder import EntityEncoder
from gfn4rec.nn.transformer import TransformerLayer
from gfn4rec.schema import FeatureTensors, Request


class RequestEncoderConfig(StrictConfig):
    """Sizes of the request encoder; the defaults are the paper's."""

    dim: int = Field(default=32, ge=1)
    """D, the width of item, user and response encodings."""
    embedding_dim: int = Field(default=16, ge=1)
    """Width of the embeddings of ids and features."""
    num_layers: int = Field(default=2, ge=1)
    """Number of transformer layers."""
    num_heads: int = Field(default=4, ge=1)
    """Number of attention heads."""
    feedforward_dim: int = Field(default=64, ge=1)
    """Hidden width of the feed-forward part of a transformer layer."""
    state_dim: int = Field(default=128, ge=1)
    """Width of a request's state."""
    history_length: int = Field(default=50, ge=1)
    """L, the number of latest events that are read."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate in training."""
    id_deviation: float = Field(default=0.1, gt=0, json_schema_extra=ADDED_LATER)
    """Standard deviation of the initial id embeddings; with a small one, rare items and users rely on features."""

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if 2 * self.dim % self.num_heads:
            raise ValueError(
                f"num_heads {self.num_heads} does not divide the width of a token, 2 * dim = {2 * self.dim}"
            )
        return self


class RequestEncoder(nn.Module):
    """Maps a request to a state.

    A learned start token precedes the oldest event, so that a user without history has a state, too. Padding (item 0)
    is never attended to, wherever it is; positions count events without padding, from the oldest one.
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        num_behaviours: int,
        user_features: FeatureTensors,
        item_features: FeatureTensors,
        config: RequestEncoderConfig,
    ) -> None:
        super().__init__()
        self.config = config
        self.items = EntityEncoder(num_items, item_features, config.embedding_dim, config.dim, config.id_deviation)
        self.users = EntityEncoder(num_users, user_features, config.embedding_dim, config.dim, config.id_deviation)
        self.position = nn.Embedding(config.history_length, config.dim)
        self.response = nn.Linear(num_behaviours, config.dim)
        self.start = nn.Parameter(torch.zeros(2 * config.dim))
        self.layers = nn.ModuleList(
            TransformerLayer(2 * config.dim, config.num_heads, config.feedforward_dim, config.dropout)
            for _ in range(config.num_layers)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.state = nn.Sequential(
            nn.Linear(3 * config.dim, config.state_dim), nn.ReLU(), nn.LayerNorm(config.state_dim)
        )
        nn.init.normal_(self.position.weight, std=0.1)

    def forward(self, request: Request, item_table_ND: Tensor | None = None) -> Tensor:
        """Return the states of requests, (B, state_dim); only the latest L events of a history are read."""
        request = self.latest(request)
        token_BTD, is_key_BT = self._tokens(request, item_table_ND)
        *layers, last_layer = self.layers
        mask = _causal_mask(is_key_BT) if layers else None
        for layer in layers:
            token_BTD = layer(token_BTD, mask)
        return self._states(last_layer.last(token_BTD, is_key_BT), self.users(request.user_B))  # type: ignore[operator]

    def latest(self, request: Request) -> Request:
        """Return requests with the latest L events of their histories."""
        length = self.config.history_length
        return Request(request.user_B, request.history_BH[:, -length:], request.response_BHR[:, -length:])

    def prefixes(self, request: Request, item_table_ND: Tensor | None = None) -> Tensor:
        """Return the states before each event and after the last, (B, H + 1, state_dim); state t has read t columns."""
        token_BTD, is_key_BT = self._tokens(request, item_table_ND)
        mask = _causal_mask(is_key_BT)
        for layer in self.layers:
            token_BTD = layer(token_BTD, mask)
        user_BTD = self.users(request.user_B)[:, None].expand(-1, token_BTD.shape[1], -1)
        return self._states(token_BTD, user_BTD)

    def _tokens(self, request: Request, item_table_ND: Tensor | None) -> tuple[Tensor, Tensor]:
        history_BH = request.history_BH
        is_event_BH = history_BH > 0
        item_BHD = self.items(history_BH) if item_table_ND is None else item_table_ND[history_BH]
        position_BHD = self.position((is_event_BH.cumsum(dim=1) - 1).clamp_(min=0))
        event_BHD = torch.cat([item_BHD + position_BHD, self.response(request.response_BHR)], dim=2)
        # Padding is never attended to, but the last position may be padding: as a copy of the start token, it gives
        # an empty history the state of that token.
        event_BHD = torch.where(is_event_BH[:, :, None], event_BHD, self.start)
        start_B1D = self.start.expand(len(history_BH), 1, -1)
        token_BTD = self.dropout(torch.cat([start_B1D, event_BHD], dim=1))
        return token_BTD, F.pad(is_event_BH, (1, 0), value=True)

    def _states(self, history: Tensor, profile: Tensor) -> Tensor:
        state: Tensor = self.state(torch.cat([history, profile], dim=-1))
        return state


def _causal_mask(is_key_BT: Tensor) -> Tensor:
    """Return 0 where a position may attend (keys up to and including itself) and -inf elsewhere, (B, 1, T, T)."""
    length = is_key_BT.shape[1]
    causal_TT = torch.ones(length, length, dtype=torch.bool, device=is_key_BT.device).tril()
    allowed_BTT = is_key_BT[:, None, None, :] & causal_TT
    return torch.zeros(allowed_BTT.shape, device=is_key_BT.device).masked_fill_(~allowed_BTT, -torch.inf)

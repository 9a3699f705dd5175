"""A transformer layer: of the history encoder, and of a re-ranker."""

import torch.nn.functional as F
from torch import Tensor, nn


class TransformerLayer(nn.Module):
    """A transformer layer (ReLU, normalised after each part) that can compute its last position alone."""

    def __init__(self, dim: int, num_heads: int, feedforward_dim: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)
        self.output = nn.Linear(dim, dim)
        self.feedforward = nn.Sequential(nn.Linear(dim, feedforward_dim), nn.ReLU(), nn.Linear(feedforward_dim, dim))
        self.attention_norm = nn.LayerNorm(dim)
        self.feedforward_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token_BTD: Tensor, mask: Tensor, last_only: bool = False) -> Tensor:
        """Attend where `mask` (broadcast to B, heads, queries, keys) is true."""
        key, value = self._heads(self.key_value(token_BTD)).chunk(2, dim=-1)
        if last_only:
            token_BTD, mask = token_BTD[:, -1:], mask[:, :, -1:]
        query = self._heads(self.query(token_BTD))
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        token_BTD = self.attention_norm(token_BTD + self.dropout(self.output(attended.transpose(1, 2).flatten(2))))
        mixed_BTD: Tensor = self.feedforward_norm(token_BTD + self.dropout(self.feedforward(token_BTD)))
        return mixed_BTD

    def _heads(self, token_BTD: Tensor) -> Tensor:
        heads: Tensor = token_BTD.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        return heads

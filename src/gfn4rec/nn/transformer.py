"""The transformer layer of the history encoder and of a re-ranker."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TransformerLayer(nn.Module):
    """Attention and a feed-forward part with ReLU, each followed by a layer norm; `last` computes one position only."""

    def __init__(self, dim: int, num_heads: int, feedforward_dim: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)  # for each head, first the key, then the value
        self.output = nn.Linear(dim, dim)
        self.feedforward = nn.Sequential(nn.Linear(dim, feedforward_dim), nn.ReLU(), nn.Linear(feedforward_dim, dim))
        self.attention_norm = nn.LayerNorm(dim)
        self.feedforward_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token_BTD: Tensor, mask: Tensor) -> Tensor:
        """Attend where `mask`, broadcast to (B, heads, queries, keys), is true; a float mask is added to the scores."""
        weight_2DD = self.key_value.weight.unflatten(0, (self.num_heads, 2, -1)).transpose(0, 1).flatten(1, 2)
        bias_2D = self.key_value.bias.unflatten(0, (self.num_heads, 2, -1)).transpose(0, 1).flatten(1)
        # Separate products for keys and values, so that their gradients need no concatenation.
        query, key, value = (
            projected.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for projected in (
                self.query(token_BTD),
                F.linear(token_BTD, weight_2DD[0], bias_2D[0]),
                F.linear(token_BTD, weight_2DD[1], bias_2D[1]),
            )
        )
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self._mix(token_BTD, attended.transpose(1, 2).flatten(2))

    def last(self, token_BTD: Tensor, is_key_BT: Tensor) -> Tensor:
        """Return the output at the last position, (B, D), which attends where `is_key_BT` is true.

        With one query per request, keys and values need not be computed: (W x) q = x (W^T q), the bias of the keys adds
        the same to all scores and cancels in the softmax, and the mean of the values is the value of the mean.
        """
        key_hdD, value_hdD = self.key_value.weight.unflatten(0, (self.num_heads, 2, -1)).unbind(dim=1)
        value_bias_hd = self.key_value.bias.unflatten(0, (self.num_heads, 2, -1))[:, 1]
        last_BD = token_BTD[:, -1]
        query_Bhd = self.query(last_BD).unflatten(1, (self.num_heads, -1)) * key_hdD.shape[1] ** -0.5
        asked_BhD = torch.einsum("bhd,hdx->bhx", query_Bhd, key_hdD)
        score_BhT = (asked_BhD @ token_BTD.mT).masked_fill(~is_key_BT[:, None], -torch.inf)
        mean_BhD = score_BhT.softmax(dim=2) @ token_BTD
        attended_Bhd = torch.einsum("bhx,hdx->bhd", mean_BhD, value_hdD) + value_bias_hd
        return self._mix(last_BD, attended_Bhd.flatten(1))

    def _mix(self, token: Tensor, attended: Tensor) -> Tensor:
        token = self.attention_norm(token + self.dropout(self.output(attended)))
        mixed: Tensor = self.feedforward_norm(token + self.dropout(self.feedforward(token)))
        return mixed

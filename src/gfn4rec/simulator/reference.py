"""The response model that the paper's authors published, with its quirks, which are confined to this file.

The quirks: a reshape scrambles the response sequences; padding is not masked; items, users and history tokens share one
normalisation; in the environment, item encodings are clamped to [-1, 1] for scores and similarities; similarity is a
mean of products that includes the item itself.
"""

from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import load_tensors, load_weights
from gfn4rec.schema import FeatureTensors, Request
from gfn4rec.simulator.effects import NO_EFFECTS, ListEffects

_FIRST_VALUE = 2  # the first known value of an index feature: 0 is padding, 1 is unknown
_GENRES, _GENDER, _AGE = "genres", "gender", "age"


class ReferenceConfig(StrictConfig):
    """Sizes of the published model, named as in its code."""

    enc_dim: int = Field(default=32, ge=1)
    user_latent_dim: int = Field(default=16, ge=1)
    item_latent_dim: int = Field(default=16, ge=1)
    n_ensemble: int = Field(default=2, ge=1)
    attn_n_head: int = Field(default=4, ge=1)
    transformer_d_forward: int = Field(default=64, ge=1)
    transformer_n_layer: int = Field(default=2, ge=1)
    state_hidden_dims: tuple[int, ...] = (128,)
    dropout_rate: float = Field(default=0.1, ge=0, lt=1)
    max_hist_seq_len: int = Field(default=50, ge=1)


class _Scorer(nn.Module):
    """The scorer; its layers have the numbers of the published weights: 0 and 4 are linear, 3 is a norm."""

    def __init__(self, in_dim: int, hidden_dim: int, out_dim: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(in_dim, hidden_dim),
            nn.Dropout(dropout),
            nn.ReLU(),
            nn.LayerNorm(hidden_dim),
            nn.Linear(hidden_dim, out_dim),
        )

    def forward(self, state: Tensor) -> Tensor:
        scores: Tensor = self.layers(state)
        return scores


class ReferenceModel(nn.Module):
    """The published model as a `UserModel`; parameter names are those of the published weights."""

    influence_includes_self = True
    rho: float | None = None
    effects: ListEffects = NO_EFFECTS
    gender_UV: Tensor
    age_UV: Tensor
    genres_NV: Tensor
    item_embedding_ND: Tensor
    _item_encoding_ND: Tensor

    def __init__(
        self,
        num_users: int,
        num_items: int,
        num_behaviours: int,
        user_features: FeatureTensors,
        item_features: FeatureTensors,
        config: ReferenceConfig,
    ) -> None:
        super().__init__()
        self.config = config
        self.num_behaviours = num_behaviours
        dim = config.enc_dim
        self.uIDEmb = nn.Embedding(num_users + 1, config.user_latent_dim)
        self.iIDEmb = nn.Embedding(num_items + 1, config.item_latent_dim)
        sizes = {**user_features.num_values, **item_features.num_values}
        self.UFEmb_gender = nn.Linear(sizes[_GENDER] - _FIRST_VALUE, config.user_latent_dim)
        self.UFEmb_age = nn.Linear(sizes[_AGE] - _FIRST_VALUE, config.user_latent_dim)
        self.IFEmb_genres = nn.Linear(sizes[_GENRES] - _FIRST_VALUE, config.item_latent_dim)
        self.userEmbNorm = nn.LayerNorm(config.user_latent_dim)
        self.itemEmbNorm = nn.LayerNorm(config.item_latent_dim)
        self.userFeatureKernel = nn.Linear(config.user_latent_dim, dim)
        self.itemFeatureKernel = nn.Linear(config.item_latent_dim, dim)
        self.encNorm = nn.LayerNorm(dim)
        self.posEmb = nn.Embedding(config.max_hist_seq_len, dim)
        self.feedbackEncoder = nn.Linear(num_behaviours, dim)
        layer = nn.TransformerEncoderLayer(
            2 * dim, config.attn_n_head, config.transformer_d_forward, config.dropout_rate, batch_first=True
        )
        self.transformer = nn.TransformerEncoder(layer, config.transformer_n_layer, enable_nested_tensor=False)
        num_vectors = num_behaviours * config.n_ensemble
        self.scorer = _Scorer(3 * dim, config.state_hidden_dims[0], num_vectors * dim, config.dropout_rate)
        self.stateNorm = nn.LayerNorm(dim)
        self._register_buffers(user_features, item_features, sizes)

    def _register_buffers(
        self, user_features: FeatureTensors, item_features: FeatureTensors, sizes: dict[str, int]
    ) -> None:
        """Add what is not part of the published weights: the features, and the items once they are encoded."""
        shape = (self.iIDEmb.num_embeddings, self.config.enc_dim)
        buffers = {
            "gender_UV": _one_hot(user_features.categorical[_GENDER], sizes[_GENDER]),
            "age_UV": _one_hot(user_features.categorical[_AGE], sizes[_AGE]),
            "genres_NV": _one_hot(item_features.multi[_GENRES], sizes[_GENRES]),
            "item_embedding_ND": torch.zeros(shape),
            "_item_encoding_ND": torch.zeros(shape),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)

    @property
    def history_length(self) -> int:
        """The number of events that the model reads of a history."""
        return self.config.max_hist_seq_len

    @torch.no_grad()
    def freeze(self) -> Self:
        """Turn gradients and dropout off, and encode all items once; call it when the weights are loaded."""
        self.eval().requires_grad_(False)
        parts = (self.iIDEmb.weight, self.IFEmb_genres(self.genres_NV))
        self._item_encoding_ND = self.encNorm(sum(self.itemFeatureKernel(self.itemEmbNorm(part)) for part in parts))
        # Dot products of these vectors are means of the products of clamped encodings.
        self.item_embedding_ND = self._item_encoding_ND.clamp(-1, 1) / self.config.enc_dim**0.5
        return self

    def encode(self, request: Request) -> Tensor:
        """Return the state vectors of the scorer, (B, R * ensembles, D)."""
        history_BH, user_B = request.history_BH, request.user_B
        if history_BH.shape[1] != self.config.max_hist_seq_len:
            length = self.config.max_hist_seq_len
            raise UserError(f"the published model reads histories of {length} events, not {history_BH.shape[1]}")
        item_BHD = self.encNorm(self._item_encoding_ND[history_BH] + self.posEmb.weight)
        # The published code concatenates the response sequences of the behaviours and reads the result as triples.
        scrambled_BHR = request.response_BHR.transpose(1, 2).reshape(request.response_BHR.shape)
        token_BHD = torch.cat([item_BHD, self.feedbackEncoder(scrambled_BHR)], dim=2)
        encoded_BD = self._last_position(token_BHD)
        parts = (self.uIDEmb(user_B), self.UFEmb_gender(self.gender_UV[user_B]), self.UFEmb_age(self.age_UV[user_B]))
        profile_BD = self.encNorm(sum(self.userFeatureKernel(self.userEmbNorm(part)) for part in parts))
        vectors = self.scorer(torch.cat([encoded_BD, profile_BD], dim=1)).unflatten(1, (-1, self.config.enc_dim))
        state: Tensor = self.stateNorm(vectors)
        return state

    def _last_position(self, token_BHD: Tensor) -> Tensor:
        """Return the transformer's output at the latest event, (B, 2D).

        It equals that of `self.transformer` with a causal mask up to rounding, in a third of the time: the last layer
        needs one query only, and there is no dropout.
        """
        for number, layer in enumerate(self.transformer.layers, start=1):
            attention = layer.self_attn
            joined = F.linear(token_BHD, attention.in_proj_weight, attention.in_proj_bias)
            query, key, value = joined.unflatten(2, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)
            is_last = number == len(self.transformer.layers)
            if is_last:
                query, token_BHD = query[:, :, -1:], token_BHD[:, -1:]
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=not is_last)
            token_BHD = layer.norm1(token_BHD + attention.out_proj(attended.transpose(1, 2).flatten(2)))
            token_BHD = layer.norm2(token_BHD + layer.linear2(F.relu(layer.linear1(token_BHD))))
        return token_BHD[:, 0]

    def logits(self, state: Tensor, item_BC: Tensor) -> Tensor:
        """Return scores with unclamped encodings, (B, C, R), from which the published AUC was computed."""
        return self._scores(state, self._item_encoding_ND[item_BC])

    def probabilities(self, state: Tensor, item_BC: Tensor) -> Tensor:
        """Return probabilities with clamped encodings, (B, C, R), as in the published environment."""
        return torch.sigmoid(self._scores(state, self._item_encoding_ND[item_BC].clamp(-1, 1)))

    def _scores(self, state: Tensor, item_BCD: Tensor) -> Tensor:
        """Return the largest mean product of the ensembles, which are the inner index of the state vectors."""
        score = torch.einsum("bvd,bcd->bcv", state, item_BCD) / self.config.enc_dim
        largest: Tensor = score.unflatten(2, (self.num_behaviours, self.config.n_ensemble)).amax(dim=3)
        return largest


def _one_hot(index: Tensor, num_values: int) -> Tensor:
    """Return index features with one column per known value, as the published model reads them."""
    rows = torch.zeros(len(index), num_values)
    rows.scatter_(1, index if index.dim() == 2 else index[:, None], 1.0)
    return rows[:, _FIRST_VALUE:]


def read_reference(weights: Path, data: SlateData) -> ReferenceModel:
    """Read the published model for a data set, from a directory or file of safetensors or from a PyTorch checkpoint.

    A checkpoint is read as tensors only: a pickle that would run code is refused, and the code does not run.
    """
    _require_features(data)
    path = weights / "model.safetensors" if weights.is_dir() else weights
    tensors = load_tensors(path)
    model = ReferenceModel(
        data.num_users,
        data.num_items,
        len(data.behaviours),
        data.user_features,
        data.item_features,
        _sizes(tensors, len(data.behaviours), path),
    )
    load_weights(model, tensors, path)
    return model.to(data.device).freeze()


def _require_features(data: SlateData) -> None:
    have = {*data.user_features.categorical, *data.item_features.multi}
    missing = [name for name in (_GENDER, _AGE, _GENRES) if name not in have]
    if missing or data.behaviours != ("click", "like", "star"):
        what = f"the feature {missing[0]!r}" if missing else "the behaviours click, like, star"
        raise UserError(f"the published model needs {what}, which {data.manifest.name} does not have; use ml-1m")


def _sizes(tensors: dict[str, Tensor], num_behaviours: int, path: Path) -> ReferenceConfig:
    """Infer the sizes from the shapes; they do not show the number of heads, which is the published one."""
    try:
        dim = len(tensors["encNorm.weight"])
        return ReferenceConfig(
            enc_dim=dim,
            user_latent_dim=tensors["uIDEmb.weight"].shape[1],
            item_latent_dim=tensors["iIDEmb.weight"].shape[1],
            n_ensemble=len(tensors["scorer.layers.4.bias"]) // (dim * num_behaviours),
            transformer_d_forward=len(tensors["transformer.layers.0.linear1.bias"]),
            transformer_n_layer=sum(name.endswith("self_attn.in_proj_bias") for name in tensors),
            state_hidden_dims=(len(tensors["scorer.layers.0.bias"]),),
            max_hist_seq_len=len(tensors["posEmb.weight"]),
        )
    except KeyError as error:
        raise UserError(f"{path}: lacks {error.args[0]!r}; it is not the published response model") from None

"""Encoders of users and items: embeddings of the id and of each feature are normalised, mapped and summed."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gfn4rec.nn.rows import hide_rows
from gfn4rec.schema import FeatureTensors

_INITIAL_DEVIATION = 0.1
# For a feature with few values, a product with the shares of its values is faster than a look-up.
_FEW_VALUES, _MOST_SHARES = 128, 2**24


class EntityEncoder(nn.Module):
    """Encodes users or items. Row 0 is the padding item, or the unknown user; its id embedding stays zero.

    Id embeddings whose variance is well below the norm's epsilon, 1e-5, stay short when they are normalised: until it
    is learned, an entity's own embedding hardly counts beside its features.
    """

    def __init__(
        self,
        num_entities: int,
        features: FeatureTensors,
        embedding_dim: int,
        dim: int,
        id_deviation: float = _INITIAL_DEVIATION,
    ) -> None:
        super().__init__()
        self.num_entities = num_entities
        self.id_embedding = nn.Embedding(num_entities + 1, embedding_dim, padding_idx=0)
        self.categorical = nn.ModuleDict(
            {name: nn.Embedding(features.num_values[name], embedding_dim) for name in features.categorical}
        )
        self.multi = nn.ModuleDict(
            {
                name: nn.EmbeddingBag(features.num_values[name], embedding_dim, mode="mean", padding_idx=0)
                for name in features.multi
            }
        )
        self.numeric = nn.ModuleDict({name: nn.Linear(1, embedding_dim) for name in features.numeric})
        self.embedding_norm = nn.LayerNorm(embedding_dim)
        self.kernel = nn.Linear(embedding_dim, dim)
        self.norm = nn.LayerNorm(dim)
        for name, parameter in self.named_parameters():
            if name.startswith(("id_embedding", "categorical", "multi")):
                is_id = name.startswith("id_embedding")
                nn.init.normal_(parameter, std=id_deviation if is_id else _INITIAL_DEVIATION)
        with torch.no_grad():
            self.id_embedding.weight[0] = 0
        # Features belong to the data set, so they are not saved with the weights.
        for kind in ("categorical", "multi", "numeric"):
            for name, values in getattr(features, kind).items():
                self.register_buffer(_buffer(kind, name), values, persistent=False)
        for name, values in {**features.categorical, **features.multi}.items():
            num_values = features.num_values[name]
            if num_values <= _FEW_VALUES and len(values) * num_values <= _MOST_SHARES:
                share_NV = _shares(values.view(len(values), -1), num_values, has_padding=name in features.multi)
                self.register_buffer(_buffer("share", name), share_NV, persistent=False)

    def forward(self, index: Tensor) -> Tensor:
        """Encode entities, (...,) -> (..., D)."""
        if index.numel() >= self.num_entities:
            return self.table()[index]
        return self._encode(index.reshape(-1)).reshape(*index.shape, -1)

    def table(self, is_hidden_N: Tensor | None = None) -> Tensor:
        """Encode all entities, row 0 included; those that are hidden by their features alone."""
        return self._encode(None, is_hidden_N)

    def _encode(self, index: Tensor | None, is_hidden_N: Tensor | None = None) -> Tensor:
        """Encode some entities, or all of them in order."""
        norm = self.embedding_norm
        parts = [norm(hide_rows(self._ids(index), is_hidden_N))]
        # Category embeddings are normalised before the look-up, because there are fewer of them than entities.
        parts += [
            self._look_up("categorical", name, norm(_weight(layer)), index) for name, layer in self.categorical.items()
        ]
        parts += [norm(self._look_up("multi", name, _weight(layer), index)) for name, layer in self.multi.items()]
        parts += [norm(layer(self._values("numeric", name, index)[:, None])) for name, layer in self.numeric.items()]
        # Mapping the sum equals summing the mapped parts, except that the bias counts once per part.
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        encoding: Tensor = self.norm(F.linear(total, self.kernel.weight, len(parts) * self.kernel.bias))
        return encoding

    def _ids(self, index: Tensor | None) -> Tensor:
        if index is None:  # a copy is faster than a look-up of every row; row 0 is not trained
            return F.pad(self.id_embedding.weight[1:], (0, 0, 1, 0))
        embedding: Tensor = self.id_embedding(index)
        return embedding

    def _look_up(self, kind: str, name: str, embedding_VD: Tensor, index: Tensor | None) -> Tensor:
        """Return the embedding of a feature's value, or the mean embedding of its values."""
        if hasattr(self, _buffer("share", name)):
            return self._values("share", name, index) @ embedding_VD
        value = self._values(kind, name, index)
        if kind == "categorical":
            return F.embedding(value, embedding_VD)
        return F.embedding_bag(value, embedding_VD, mode="mean", padding_idx=0)

    def _values(self, kind: str, name: str, index: Tensor | None) -> Tensor:
        values: Tensor = getattr(self, _buffer(kind, name))
        return values if index is None else values[index]


def _weight(embedding: nn.Module) -> Tensor:
    weight: Tensor = embedding.get_parameter("weight")
    return weight


def _buffer(kind: str, name: str) -> str:
    return f"{kind}_values_{name.replace('.', '_')}"


def _shares(values_NM: Tensor, num_values: int, has_padding: bool) -> Tensor:
    """Return the weight of each value in the mean over a row's values, (N, V); padding has weight 0."""
    count_NV = torch.zeros(len(values_NM), num_values, device=values_NM.device)
    count_NV.scatter_add_(1, values_NM, torch.where(values_NM > 0, 1.0, 0.0 if has_padding else 1.0))
    return count_NV / count_NV.sum(dim=1, keepdim=True).clamp(min=1)

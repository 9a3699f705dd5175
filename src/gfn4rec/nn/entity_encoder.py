"""Users and items as vectors: embeddings of the id and of each feature, normalised, mapped, summed, normalised."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gfn4rec.schema import FeatureTensors

_INITIAL_DEVIATION = 0.1
_MOST_SHARES = 2**24  # of a multi-valued feature; a product with so many is faster than a look-up of each value


class EntityEncoder(nn.Module):
    """Encodes users or items; row 0 is padding for items and the unknown user for users: its id vector stays zero."""

    def __init__(self, num_entities: int, features: FeatureTensors, embedding_dim: int, dim: int) -> None:
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
                nn.init.normal_(parameter, std=_INITIAL_DEVIATION)
        with torch.no_grad():
            self.id_embedding.weight[0] = 0
        # The features belong to the data set, not to the weights: they are not saved with them.
        for kind in ("categorical", "multi", "numeric"):
            for name, values in getattr(features, kind).items():
                self.register_buffer(_buffer(kind, name), values, persistent=False)
        for name, values in features.multi.items():
            if len(values) * features.num_values[name] <= _MOST_SHARES:
                self.register_buffer(
                    _buffer("share", name), _shares(values, features.num_values[name]), persistent=False
                )

    def forward(self, index: Tensor) -> Tensor:
        """The encodings of entities, (...,) -> (..., D)."""
        if index.numel() >= self.num_entities:
            return self.table()[index]
        return self._encode(index.reshape(-1)).reshape(*index.shape, -1)

    def table(self) -> Tensor:
        """The encodings of all entities, row 0 included."""
        return self._encode(torch.arange(self.num_entities + 1, device=self.id_embedding.weight.device))

    def _encode(self, index: Tensor) -> Tensor:
        parts = [self.id_embedding(index)]
        parts += [module(self._values("categorical", name)[index]) for name, module in self.categorical.items()]
        parts += [self._bag(name, index) for name in self.multi]
        parts += [module(self._values("numeric", name)[index, None]) for name, module in self.numeric.items()]
        # The sum of the mapped parts is the map of their sum, but for the bias, which counts once per part.
        total = self.embedding_norm(parts[0])
        for part in parts[1:]:
            total = total + self.embedding_norm(part)
        encoding: Tensor = self.norm(F.linear(total, self.kernel.weight, len(parts) * self.kernel.bias))
        return encoding

    def _bag(self, name: str, index: Tensor) -> Tensor:
        """The mean of the values' embeddings; a product with the shares of the values, where there are few values."""
        bag, share_NV = self.multi[name], getattr(self, _buffer("share", name), None)
        assert isinstance(bag, nn.EmbeddingBag)
        if share_NV is None:
            mean: Tensor = bag(self._values("multi", name)[index])
            return mean
        is_table = len(index) == self.num_entities + 1  # which is asked for in order
        product: Tensor = (share_NV if is_table else share_NV[index]) @ bag.weight
        return product

    def _values(self, kind: str, name: str) -> Tensor:
        values: Tensor = getattr(self, _buffer(kind, name))
        return values


def _buffer(kind: str, name: str) -> str:
    return f"{kind}_values_{name.replace('.', '_')}"


def _shares(values_NM: Tensor, num_values: int) -> Tensor:
    """How much each value counts in the mean of each row's values, (N, V); padding counts nothing."""
    count_NV = torch.zeros(len(values_NM), num_values, device=values_NM.device)
    count_NV.scatter_add_(1, values_NM, (values_NM > 0).float())
    return count_NV / count_NV.sum(dim=1, keepdim=True).clamp(min=1)

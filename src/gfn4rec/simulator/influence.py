"""Item influence: the more an item resembles the others of its slate, the fewer responses it gets."""

from torch import Tensor


def slate_similarity(item_embedding_ND: Tensor, slate: Tensor, include_self: bool = False) -> Tensor:
    """Return the mean similarity of each item to the other items of its slate, or to all including itself, (..., K)."""
    vector = item_embedding_ND[slate]  # (..., K, D)
    total = (vector * vector.sum(dim=-2, keepdim=True)).sum(dim=-1)
    if include_self:
        return total / slate.shape[-1]
    if slate.shape[-1] == 1:
        return total.new_zeros(total.shape)
    return (total - vector.square().sum(dim=-1)) / (slate.shape[-1] - 1)


def suppress(probability: Tensor, similarity: Tensor, rho: float) -> Tensor:
    """Return the probabilities (..., K, R) minus rho times the similarity, not yet clipped to [0, 1]."""
    return probability - rho * similarity[..., None]

"""Item influence: the more an item resembles the others of its slate, the fewer responses it gets."""

from torch import Tensor


def slate_similarity(item_embedding_ND: Tensor, slate_BK: Tensor, include_self: bool = False) -> Tensor:
    """Return the mean similarity of each item to the other items of its slate, or to all including itself, (B, K)."""
    vector_BKD = item_embedding_ND[slate_BK]
    total_BK = (vector_BKD * vector_BKD.sum(dim=1, keepdim=True)).sum(dim=2)
    if include_self:
        return total_BK / slate_BK.shape[1]
    if slate_BK.shape[1] == 1:
        return total_BK.new_zeros(total_BK.shape)
    return (total_BK - vector_BKD.square().sum(dim=2)) / (slate_BK.shape[1] - 1)


def suppress(probability_BKR: Tensor, similarity_BK: Tensor, rho: float) -> Tensor:
    """Return the probabilities minus rho times the similarity, not yet clipped to [0, 1]."""
    return probability_BKR - rho * similarity_BK[:, :, None]

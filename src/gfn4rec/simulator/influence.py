"""Item influence: an item is answered less the more it resembles the others of its slate."""

from torch import Tensor


def slate_similarity(item_embedding_ND: Tensor, slate_BK: Tensor, include_self: bool = False) -> Tensor:
    """The mean similarity of each item of a slate to the others, or to all of them with itself, (B, K)."""
    vector_BKD = item_embedding_ND[slate_BK]
    total_BK = (vector_BKD * vector_BKD.sum(dim=1, keepdim=True)).sum(dim=2)
    if include_self:
        return total_BK / slate_BK.shape[1]
    if slate_BK.shape[1] == 1:
        return total_BK.new_zeros(total_BK.shape)
    return (total_BK - vector_BKD.square().sum(dim=2)) / (slate_BK.shape[1] - 1)


def suppress(probability_BKR: Tensor, similarity_BK: Tensor, rho: float) -> Tensor:
    """Probabilities less rho times the similarity, before they are clipped to [0, 1]."""
    return probability_BKR - rho * similarity_BK[:, :, None]

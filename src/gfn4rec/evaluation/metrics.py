"""Diversity of a batch of slates."""

import torch
import torch.nn.functional as F
from torch import Tensor

from gfn4rec.simulator.influence import slate_similarity


def coverage(slate_BK: Tensor) -> int:
    """Distinct items shown in a batch."""
    return len(torch.unique(slate_BK))


def intra_list_diversity(item_embedding_ND: Tensor, slate_BK: Tensor) -> float:
    """ILD of the paper: the mean over ordered pairs of different items of 1 - cosine similarity (Eq. 11)."""
    return 1.0 - float(slate_similarity(F.normalize(item_embedding_ND, dim=1), slate_BK).mean())


def reference_diversity(item_embedding_ND: Tensor, slate_BK: Tensor) -> float:
    """ILD as the authors' environment reports it: products as they are, pairs of an item with itself included."""
    return 1.0 - float(slate_similarity(item_embedding_ND, slate_BK, include_self=True).mean())

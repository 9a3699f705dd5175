"""How similar items are, from 0 to 1: by a policy's item vectors, or by the features of items."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from gfn4rec.errors import UserError
from gfn4rec.policies.backbone import Backbone
from gfn4rec.policies.base import Policy, evaluating


def similarities(policy: Policy, item_BC: Tensor, by: Literal["vectors", "features"]) -> Tensor:
    """Return the similarities of the items of each request, (B, C, C), in double precision.

    Each (C, C) is a positive semidefinite matrix, whose diagonal is 1. Padding (item 0) has any similarity.
    """
    return _by_vectors(policy, item_BC) if by == "vectors" else _by_features(policy, item_BC)


def _by_vectors(policy: Policy, item_BC: Tensor) -> Tensor:
    """Return (1 + cosine) / 2 of the encodings of items, a mean over the policy's encoders.

    The mean encoding of the catalogue is subtracted first: all items share it, so it would make all of them similar.
    """
    encoders = [module for module in policy.modules() if isinstance(module, Backbone)]
    if not encoders:
        problem = f"a {type(policy).__name__} has no item vectors to compare items by"
        raise UserError(f"{problem}; compare them by their features (similarity=features)")
    vectors = []
    with evaluating(policy), torch.inference_mode():
        for encoder in encoders:
            table_ND = encoder.item_table().double()
            vectors.append(F.normalize(table_ND - table_ND[1:].mean(dim=0), dim=1))
    vector_ND = torch.cat(vectors, dim=1) / len(vectors) ** 0.5
    vector_BCD = F.embedding(item_BC, vector_ND)
    return (1 + vector_BCD @ vector_BCD.mT) / 2


def _by_features(policy: Policy, item_BC: Tensor) -> Tensor:
    """Return the cosines of the values of categorical features, a mean over features.

    Of a feature with one value per item, that is 1 for the same value and else 0. Items whose value is unknown are
    alike.
    """
    features = policy.catalogue.item_features
    lists = [value_N[:, None] for value_N in features.categorical.values()] + list(features.multi.values())
    if not lists:
        raise UserError("similarity features: the items of this data set have no categorical features; use vectors")
    total_BCC = torch.zeros(*item_BC.shape, item_BC.shape[1], dtype=torch.float64, device=item_BC.device)
    for value_NM in lists:
        value_BCM = value_NM.to(item_BC.device)[item_BC]
        num_BC = (value_BCM > 0).sum(dim=2).clamp(min=1).double()
        for value_BC in value_BCM.unbind(dim=2):  # of each item, compared with all values of the other
            is_shared_BCC = (value_BC[:, :, None, None] == value_BCM[:, None]).any(dim=3) & (value_BC > 0)[:, :, None]
            total_BCC += is_shared_BCC / (num_BC[:, :, None] * num_BC[:, None]).sqrt()
    return total_BCC / len(lists)

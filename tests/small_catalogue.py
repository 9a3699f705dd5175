"""Catalogues small enough to write every slate down."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gfn4rec.nn.entity_encoder import EntityEncoder
from gfn4rec.policies import build_policy, policy_class
from gfn4rec.policies.backbone import BackboneConfig
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import FeatureTensors, Request, SlateBatch

HISTORY = 5
SMALL_ENCODER = {
    "dim": 8,
    "embedding_dim": 4,
    "num_heads": 2,
    "num_layers": 1,
    "feedforward_dim": 8,
    "state_dim": 16,
    "history_length": HISTORY,
    "dropout": 0.0,
}
NO_FEATURES = FeatureTensors({}, {}, {}, {})


def make_catalogue(
    num_users: int = 2, num_items: int = 6, slate_size: int = 3, weights: Sequence[float] = (1.0, 1.0)
) -> Catalogue:
    count_N = torch.arange(num_items + 1) ** 2
    return Catalogue(num_users, num_items, slate_size, torch.tensor(weights), NO_FEATURES, NO_FEATURES, count_N)


def make_policy(name: str, catalogue: Catalogue, settings: Mapping[str, Any] | None = None, **more: Any) -> Policy:
    """A policy with a small encoder, where it has one."""
    config = policy_class(name).Config
    small: dict[str, Any] = {}
    if issubclass(config, BackboneConfig):
        small |= {"encoder": SMALL_ENCODER, "hidden_dims": (16,)}
    if "prior_encoder" in config.model_fields:  # among so few items, every hidden one moves the loss
        small |= {"prior_encoder": SMALL_ENCODER, "unknown_item_share": 0.0}
    if name == "gfn-anchored":
        small |= {"beta": 3.0}  # the default makes scores in the hundreds of predictions of any size
    return build_policy(name, catalogue, small | dict(settings or {}) | more)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stirred(name: str, catalogue: Catalogue) -> Policy:
    """Return a policy with all weights moved from their initial values."""
    policy = make_policy(name, catalogue)
    with torch.no_grad():
        for number, weight in enumerate(policy.parameters()):
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator(number)))
        for encoder in (module for module in policy.modules() if isinstance(module, EntityEncoder)):
            encoder.id_embedding.weight[0] = 0
    return policy


def make_requests(catalogue: Catalogue, count: int, seed: int = 0, length: int = HISTORY) -> Request:
    """Random users with histories of every length from none to full."""
    generator = torch.Generator().manual_seed(seed)
    history_BH = torch.randint(1, catalogue.num_items + 1, (count, length), generator=generator)
    num_events_B = torch.arange(count) % (length + 1)
    history_BH[torch.arange(length) < length - num_events_B[:, None]] = 0
    shape = (count, length, len(catalogue.weight_R))
    response_BHR = torch.randint(0, 2, shape, generator=generator).float() * (history_BH > 0)[:, :, None]
    return Request(torch.arange(count) % (catalogue.num_users + 1), history_BH, response_BHR)


def repeat_request(request: Request, row: int, count: int) -> Request:
    """One request, many times."""
    return request[torch.full((count,), row)]


def all_slates(items: Sequence[int], slate_size: int) -> Tensor:
    """Every ordered slate of different items."""
    return torch.tensor(list(itertools.permutations(items, slate_size)))


def make_batch(catalogue: Catalogue, count: int, seed: int = 0, reward: float | None = None) -> SlateBatch:
    """Random slates with random answers, or with one reward for everything."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(count, catalogue.num_items, generator=generator)
    slate_BK = scores.topk(catalogue.slate_size, dim=1).indices + 1
    shape = (*slate_BK.shape, len(catalogue.weight_R))
    response_BKR = torch.randint(0, 2, shape, generator=generator).float()
    item_reward_BK = response_BKR @ catalogue.weight_R if reward is None else torch.full(slate_BK.shape, reward)
    request = make_requests(catalogue, count, seed)
    return SlateBatch(request, slate_BK, response_BKR, item_reward_BK, item_reward_BK.mean(dim=1))

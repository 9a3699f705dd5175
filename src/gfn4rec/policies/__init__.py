"""Policies: a request becomes a slate with its probability, answers become a loss. The table of them."""

from collections.abc import Mapping
from typing import Any, Final

import torch

from gfn4rec.config import nearest
from gfn4rec.errors import UserError
from gfn4rec.policies.base import Policy
from gfn4rec.policies.boltzmann_cf import BoltzmannCF
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.cf import CF
from gfn4rec.policies.gfn import GFN4Rec
from gfn4rec.policies.gfn_energy import EnergyGFN
from gfn4rec.policies.gfn_rerank import GFNRerank
from gfn4rec.policies.list_cvae import ListCVAE
from gfn4rec.policies.popularity import Popularity
from gfn4rec.policies.prm import PRM
from gfn4rec.policies.random import Random
from gfn4rec.policies.rerank_cf import RerankCF
from gfn4rec.seeding import stream_seed

POLICIES: Final[Mapping[str, type[Policy]]] = {
    "gfn": GFN4Rec,
    "gfn-energy": EnergyGFN,
    "gfn-rerank": GFNRerank,
    "cf": CF,
    "boltzmann-cf": BoltzmannCF,
    "rerank-cf": RerankCF,
    "prm": PRM,
    "list-cvae": ListCVAE,
    "popularity": Popularity,
    "random": Random,
}


def policy_class(name: str) -> type[Policy]:
    """The policy of this name."""
    if name not in POLICIES:
        raise UserError(f"no policy {name!r}; {nearest(name, list(POLICIES))}")
    return POLICIES[name]


def build_policy(name: str, catalogue: Catalogue, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Policy:
    """An untrained policy, on the device of the catalogue."""
    kind = policy_class(name)
    config = kind.Config.parse(dict(settings or {}), f"policy {name}")
    with torch.random.fork_rng(devices=[]):  # modules draw their first weights from the global generator
        torch.manual_seed(stream_seed(seed, "policy weights"))
        return kind(catalogue, config).to(catalogue.weight_R.device)


def policy_name(policy: Policy) -> str:
    """The name of a policy in the table."""
    return next(name for name, kind in POLICIES.items() if kind is type(policy))

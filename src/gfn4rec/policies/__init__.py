"""Policies propose slates for requests and learn from the responses. `POLICIES` is the table of them."""

from collections.abc import Mapping
from typing import Final

import torch

from gfn4rec.config import nearest
from gfn4rec.errors import UserError
from gfn4rec.policies.base import Policy, PolicyConfig
from gfn4rec.policies.boltzmann_cf import BoltzmannCF
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.cf import CF
from gfn4rec.policies.gfn import GFN4Rec
from gfn4rec.policies.gfn_anchored import AnchoredGFN
from gfn4rec.policies.gfn_energy import EnergyGFN
from gfn4rec.policies.gfn_prior import PriorGFN
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
    "gfn-prior": PriorGFN,
    "gfn-anchored": AnchoredGFN,
    "gfn-rerank": GFNRerank,
    "cf": CF,
    "boltzmann-cf": BoltzmannCF,
    "rerank-cf": RerankCF,
    "prm": PRM,
    "list-cvae": ListCVAE,
    "popularity": Popularity,
    "random": Random,
}

DEFAULT_POLICY: Final = "gfn-prior"


def policy_class(name: str) -> type[Policy]:
    """Return the class of the policy with this name."""
    if name not in POLICIES:
        raise UserError(f"no policy {name!r}; {nearest(name, list(POLICIES))}")
    return POLICIES[name]


def build_policy(
    name: str, catalogue: Catalogue, config: PolicyConfig | Mapping[str, object] | None = None, seed: int = 0
) -> Policy:
    """Return an untrained policy on the device of the catalogue; `config` may be a mapping of settings.

    >>> from gfn4rec import Catalogue, SlateData
    >>> policy = build_policy("gfn", Catalogue.of(SlateData.open("data/tiny")), {"objective": "db"})
    >>> policy.config.objective
    'db'
    """
    policy = policy_class(name)
    if not isinstance(config, PolicyConfig):
        config = policy.Config.parse(dict(config or {}), f"policy {name}")
    with torch.random.fork_rng(devices=[]):  # modules draw their initial weights from the global generator
        torch.manual_seed(stream_seed(seed, "policy weights"))
        return policy(catalogue, config).to(catalogue.weight_R.device)

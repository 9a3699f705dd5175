"""The models of all experiments, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from gfn4rec.experiments.spaces import LARGE_BATCH_RATES
from gfn4rec.policies.averaging import AVERAGING

Role: TypeAlias = Literal["compared", "same terms", "ablation", "swept"]
"""Compared in the paper's tables; compared on equal terms; a method with one thing changed; one value of a sweep."""


@dataclass(frozen=True)
class Model:
    """A policy with what tells it from others of its kind."""

    policy: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings that a search must not change."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings that it may."""
    role: Role = "compared"
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Values that a search tries, in place of the policy's own."""
    low_temperatures: tuple[float, ...] = ()
    """At which it is measured besides those of all."""
    variant_of: str | None = None
    """The model whose settings it has, but for what is fixed; it is not searched itself."""

    @property
    def is_study(self) -> bool:
        """Whether it belongs to this project's own studies, which have runs of another length."""
        return self.role in ("same terms", "ablation")


@dataclass(frozen=True)
class Sweep:
    """Values of one setting of GFN4Rec, the others fixed."""

    values: tuple[float, ...]
    fixed: Mapping[str, float]


SENSITIVITY: Final[Mapping[str, Sweep]] = {
    "b_f": Sweep((0.1, 0.3, 0.5, 0.7, 0.9), {"b_r": 0.5, "b_z": 1.0}),
    "b_r": Sweep((0.1, 0.3, 0.5, 0.7, 0.9), {"b_f": 1.0, "b_z": 1.0}),
    "b_z": Sweep((0.1, 0.5, 1.0, 1.5), {"b_r": 0.5, "b_f": 1.0}),
}

_CF_TEMPERATURES: Final = (0.15, 0.1, 0.07, 0.05)  # its scores are logits of one item, not of one among thousands
_SAMPLED: Final[Mapping[str, Mapping[str, float]]] = {"CF": {"temperature": 0.1}}
"""What is shown while learning: all others sample at temperature 1, at which CF would show almost anything."""
_PUBLISHED: Final = {
    "CF": Model("cf", defaults=_SAMPLED["CF"], low_temperatures=_CF_TEMPERATURES),
    "ListCVAE": Model("list-cvae"),
    "RerankCF": Model("rerank-cf"),
    "PRM": Model("prm"),
    "GFN4Rec": Model("gfn", {"objective": "tb"}),
    "GFN4Rec (DB)": Model("gfn", {"objective": "db"}),
}
_OWN: Final = {
    "CF, top K": Model("cf", {"temperature": 0.0}, low_temperatures=_CF_TEMPERATURES),
    "Boltzmann CF": Model("boltzmann-cf"),
    "Energy flow": Model("gfn-energy"),
}

FAIR: Final[Mapping[str, str]] = {
    name: f"{name}, same terms"
    for name in ("CF", "ListCVAE", "PRM", "GFN4Rec", "GFN4Rec (DB)", "Boltzmann CF", "Energy flow")
}
"""Models that all learn on the terms of the energy flow (`AVERAGING`), by the model they are of."""


ABLATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "normalised queries, as in the paper": {"normalise_query": True},
    "probabilities not relative to uniform": {"relative": False, "b_f": 0.0},
    "trajectory balance": {"objective": "tb"},
    "learning batch of 128, half of it newest": {"learning_batch": 128, "newest_share": 0.5},
    "constant learning rate": {"schedule": "constant"},
    "no exploration": {"epsilon": 0.0},
}
"""The energy flow without one of its ideas."""

ALTERNATIVES: Final[Mapping[str, Mapping[str, Any]]] = {
    "sub-trajectory balance": {"objective": "subtb"},
    "forward-looking sub-trajectory balance": {"objective": "fl-subtb"},
    "forward-looking, exact": {"objective": "fl-db-exact"},
    "Huber penalty": {"penalty": "huber"},
    "beta 30": {"beta": 30.0},
    "beta 120": {"beta": 120.0},
}
"""The energy flow with one thing as it might have been."""

RATES: Final[Mapping[str, Mapping[str, Any]]] = {
    f"learning rate {rate:g}": {"learning_rate": rate} for rate in (3e-4, 3e-3)
}
"""The energy flow, run as long as the models of the paper, at other rates than its own."""

_AUTHORS_LOOP: Final = {"newest_share": 0.0, "encoder.dropout": 0.1, "temperature": 1.0, "epsilon": 0.01}
_AUTHORS: Final[Mapping[str, Mapping[str, Any]]] = {
    "CF": {"learning_rate": 3e-4, "weight_decay": 1e-4, "probability": "softmax", "offsets": (0.4, 0.1)},
    "ListCVAE": {"learning_rate": 1e-5, "weight_decay": 1e-4, "beta": 0.1},
    "PRM": {"learning_rate": 1e-4, "weight_decay": 0.0, "pv_weight": 0.1},
    "GFN4Rec": {"learning_rate": 3e-4, "weight_decay": 0.0, "b_r": 0.3, "b_f": 0.5, "b_z": 1.0},
}
AUTHORS: Final[Mapping[str, str]] = {name: f"{name}, the authors' settings" for name in _AUTHORS}
"""The paper's models with the settings of the scripts that its authors published, as far as there are such settings
here; their scripts sweep those of the flow, which has what the paper says.
"""

MODELS: Final[Mapping[str, Model]] = {
    **_PUBLISHED,
    **_OWN,
    **{
        f"{name} = {value}": Model(
            "gfn", {**_PUBLISHED["GFN4Rec"].fixed, name: value, **sweep.fixed}, role="swept", variant_of="GFN4Rec"
        )
        for name, sweep in SENSITIVITY.items()
        for value in sweep.values
    },
    **{
        fair: replace(
            model,
            fixed={**model.fixed, "temperature": 1.0, **_SAMPLED.get(name, {})},
            defaults=AVERAGING,
            role="same terms",
            values={"learning_rate": LARGE_BATCH_RATES},
        )
        for name, fair in FAIR.items()
        for model in ({**_PUBLISHED, **_OWN}[name],)
    },
    **{
        name: Model("gfn-energy", fixed, role="ablation", variant_of=FAIR["Energy flow"])
        for name, fixed in {**ABLATIONS, **ALTERNATIVES}.items()
    },
    **{name: Model("gfn-energy", fixed, role="swept", variant_of="Energy flow") for name, fixed in RATES.items()},
    **{
        AUTHORS[name]: replace(
            _PUBLISHED[name],
            fixed={**_PUBLISHED[name].fixed, **_AUTHORS_LOOP, **settings},
            role="swept",
            variant_of=name,
        )
        for name, settings in _AUTHORS.items()
    },
}


def base_of(name: str) -> str:
    """The model that a variant is one of; others are their own."""
    return MODELS[name].variant_of or name

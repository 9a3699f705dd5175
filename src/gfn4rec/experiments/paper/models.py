"""The models of all experiments, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from gfn4rec.experiments.jobs.job import DecoderChoice
from gfn4rec.experiments.search.spaces import LARGE_BATCH_RATES
from gfn4rec.policies.averaging import AVERAGING

Role: TypeAlias = Literal["compared", "same terms", "ablation", "swept"]
"""In the paper's tables; in the comparison on the same terms; with one idea changed; one value of a sweep."""
Settings: TypeAlias = Mapping[str, object]
"""Values by setting, as `gfn4rec policy show` and `gfn4rec train options` name them."""


@dataclass(frozen=True)
class Model:
    """A policy, and the settings that make it this model."""

    policy: str
    fixed: Settings = field(default_factory=dict)
    """Settings that a search must not change."""
    defaults: Settings = field(default_factory=dict)
    """Settings that a search may change."""
    role: Role = "compared"
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Values for a search to try, in place of the policy's own grid."""
    low_temperatures: tuple[float, ...] = ()
    """Temperatures to measure in addition to those of all models."""
    variant_of: str | None = None
    """The model that it takes all other settings from; a variant is not tuned by itself."""
    decoder: DecoderChoice | None = None
    """A decoder whose slates are measured beside those of the policy, in rows that begin with its name."""

    @property
    def is_study(self) -> bool:
        """Whether it belongs to this project's own studies, which train for a different number of steps."""
        return self.role in ("same terms", "ablation")


@dataclass(frozen=True)
class Sweep:
    """Values of one setting of GFN4Rec, with the others fixed."""

    values: tuple[float, ...]
    fixed: Mapping[str, float]


SENSITIVITY: Final[Mapping[str, Sweep]] = {
    "b_f": Sweep((0.1, 0.3, 0.5, 0.7, 0.9), {"b_r": 0.5, "b_z": 1.0}),
    "b_r": Sweep((0.1, 0.3, 0.5, 0.7, 0.9), {"b_f": 1.0, "b_z": 1.0}),
    "b_z": Sweep((0.1, 0.5, 1.0, 1.5), {"b_r": 0.5, "b_f": 1.0}),
}

_CF_TEMPERATURES: Final = (0.15, 0.1, 0.07, 0.05)  # its scores are logits of single items, not of a softmax over all
_SAMPLED: Final[Mapping[str, Mapping[str, float]]] = {"CF": {"temperature": 0.1}}
"""Sampling during training: other models use temperature 1, at which CF would be almost uniform."""
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
    "Energy GFN": Model("gfn-energy"),
}

FAIR: Final[Mapping[str, str]] = {
    name: f"{name}, same terms"
    for name in ("CF", "ListCVAE", "PRM", "GFN4Rec", "GFN4Rec (DB)", "Boltzmann CF", "Energy GFN")
}
"""Models that all train with the settings of the energy GFN (`AVERAGING`), by the model they are based on."""


ABLATIONS: Final[Mapping[str, Settings]] = {
    "normalised queries, as in the paper": {"normalise_query": True},
    "probabilities not relative to uniform": {"relative": False, "b_f": 0.0},
    "trajectory balance": {"objective": "tb"},
    "learning batch of 128, half of it newest": {"learning_batch": 128, "newest_share": 0.5},
    "constant learning rate": {"schedule": "constant"},
    "no exploration": {"epsilon": 0.0},
}
"""The energy GFN without one of its ideas."""

ALTERNATIVES: Final[Mapping[str, Settings]] = {
    "sub-trajectory balance": {"objective": "subtb"},
    "forward-looking sub-trajectory balance": {"objective": "fl-subtb"},
    "forward-looking, exact": {"objective": "fl-db-exact"},
    "Huber penalty": {"penalty": "huber"},
    "beta 30": {"beta": 30.0},
    "beta 120": {"beta": 120.0},
}
"""The energy GFN with one design decision changed."""

RATES: Final[Mapping[str, Settings]] = {f"learning rate {rate:g}": {"learning_rate": rate} for rate in (3e-4, 3e-3)}
"""The energy GFN, trained as long as the paper's models, with other learning rates."""

_AUTHORS_LOOP: Final = {"newest_share": 0.0, "encoder.dropout": 0.1, "temperature": 1.0, "epsilon": 0.01}
_AUTHORS: Final[Mapping[str, Settings]] = {
    "CF": {"learning_rate": 3e-4, "weight_decay": 1e-4, "probability": "softmax", "offsets": (0.4, 0.1)},
    "ListCVAE": {"learning_rate": 1e-5, "weight_decay": 1e-4, "beta": 0.1},
    "PRM": {"learning_rate": 1e-4, "weight_decay": 0.0, "pv_weight": 0.1},
    "GFN4Rec": {"learning_rate": 3e-4, "weight_decay": 0.0, "b_r": 0.3, "b_f": 0.5, "b_z": 1.0},
}
AUTHORS: Final[Mapping[str, str]] = {name: f"{name}, the authors' settings" for name in _AUTHORS}
"""The paper's models with the settings of its authors' published scripts, as far as those settings exist here.

The scripts sweep b_r, b_f and b_z; these have the values that the paper reports.
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
        name: Model("gfn-energy", fixed, role="ablation", variant_of=FAIR["Energy GFN"])
        for name, fixed in {**ABLATIONS, **ALTERNATIVES}.items()
    },
    **{name: Model("gfn-energy", fixed, role="swept", variant_of="Energy GFN") for name, fixed in RATES.items()},
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


POLICY_OF: Final[Mapping[str, str]] = {name: model.policy for name, model in MODELS.items()}
"""The policy of each model."""


def base_of(name: str) -> str:
    """Return the model that a variant is based on, or the model itself."""
    return MODELS[name].variant_of or name

"""GFN4Rec that goes past the paper: an energy reward, paid item by item."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from gfn4rec.policies.gfn import GFN4Rec, GFNConfig


class EnergyGFNConfig(GFNConfig):
    """Settings of the energy GFN4Rec; b_r and b_f are not used."""

    objective: str = "fl-db"
    reward: Literal["log", "energy"] = "energy"
    relative: bool = True
    normalise_query: bool = False


class EnergyGFN(GFN4Rec):
    """The same networks; the probability of a slate follows exp(beta * expected reward)."""

    description: ClassVar = "GFN4Rec with an energy reward, paid item by item: high reward and wide coverage"
    Config: ClassVar = EnergyGFNConfig
    config: EnergyGFNConfig
    # Once the policy is good, residuals are noise of the answers: many of them, at a falling rate, average it out.
    training_defaults: ClassVar[Mapping[str, Any]] = {
        "learning_batch": 512,
        "newest_share": 0.125,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "epsilon": 0.01,
    }

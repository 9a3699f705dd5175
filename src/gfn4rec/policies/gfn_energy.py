"""The energy GFN, which goes beyond the paper: an energy reward, credited item by item."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from gfn4rec.policies.averaging import AVERAGING
from gfn4rec.policies.gfn import GFN4Rec, GFNConfig


class EnergyGFNConfig(GFNConfig):
    """Settings of the energy GFN. b_r is not used, and b_f only with relative = false."""

    objective: str = "fl-db"
    reward: Literal["log", "energy"] = "energy"
    relative: bool = True
    normalise_query: bool = False


class EnergyGFN(GFN4Rec):
    """GFN4Rec's networks with slate probabilities proportional to exp(beta * expected reward)."""

    description: ClassVar = (
        "energy GFN, which has GFN4Rec's networks and an objective for high reward and wide coverage"
    )
    Config: ClassVar = EnergyGFNConfig
    config: EnergyGFNConfig
    training_defaults: ClassVar[Mapping[str, object]] = AVERAGING

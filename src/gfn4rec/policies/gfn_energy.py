"""GFN4Rec that goes past the paper: an energy reward, paid item by item."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from gfn4rec.policies.averaging import AVERAGING
from gfn4rec.policies.gfn import GFN4Rec, GFNConfig


class EnergyGFNConfig(GFNConfig):
    """Settings of the energy GFN4Rec; b_r is not used, nor b_f while probabilities are relative to uniform ones."""

    objective: str = "fl-db"
    reward: Literal["log", "energy"] = "energy"
    relative: bool = True
    normalise_query: bool = False


class EnergyGFN(GFN4Rec):
    """The same networks; the probability of a slate follows exp(beta * expected reward)."""

    description: ClassVar = "GFN4Rec with an energy reward, paid item by item: high reward and wide coverage"
    Config: ClassVar = EnergyGFNConfig
    config: EnergyGFNConfig
    training_defaults: ClassVar[Mapping[str, Any]] = AVERAGING

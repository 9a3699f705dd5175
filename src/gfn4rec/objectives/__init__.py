"""Objectives of generative flow networks: tensors to residuals, and the table of them.

On a tree of slates each slate has one way to it, so the backward probability is 1 and appears nowhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from torch import Tensor

from gfn4rec.objectives.detailed_balance import detailed_balance
from gfn4rec.objectives.flow import FlowBatch
from gfn4rec.objectives.forward_looking import corrected_forward_looking_balance, forward_looking_balance
from gfn4rec.objectives.penalty import PENALTIES as PENALTIES
from gfn4rec.objectives.sub_trajectory import sub_trajectory_balance
from gfn4rec.objectives.trajectory_balance import trajectory_balance


@dataclass(frozen=True)
class Objective:
    """A flow objective: its residuals by name, and what they need.

    That is the flow of every prefix or of the root only, and steps credited with the reward of their items, as observed
    or as predicted from the items up to them.
    """

    residuals: Callable[[FlowBatch], Mapping[str, Tensor]]
    needs_node_flows: bool = True
    gains: Literal["none", "observed", "predicted"] = "none"


OBJECTIVES: Final = {
    "tb": Objective(trajectory_balance, needs_node_flows=False),
    "db": Objective(detailed_balance),
    "subtb": Objective(sub_trajectory_balance),
    "fl-db": Objective(forward_looking_balance, gains="observed"),
    "fl-subtb": Objective(sub_trajectory_balance, gains="observed"),
    "fl-db-exact": Objective(corrected_forward_looking_balance, gains="predicted"),
}

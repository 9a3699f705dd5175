"""Objectives of generative flow networks: functions that compute residuals, and the table of objectives.

Prefixes of slates form a tree. Each has one parent, so backward probabilities are 1 and left out.
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
    """A flow objective: its meaning for `gfn4rec policy show`, its residuals, and the inputs that they need."""

    meaning: str
    residuals: Callable[[FlowBatch], Mapping[str, Tensor]]
    """Residuals by name. The loss is the sum of their mean penalties."""
    needs_node_flows: bool = True
    """Whether it needs the flow of every prefix, or of the empty slate only."""
    gains: Literal["none", "observed", "predicted"] = "none"
    """Reward of its item that each step is credited with: observed, or predicted from the items up to the step."""
    needs_square: bool = False
    """Whether only squared residuals have the right weights, so that the penalty must be the square."""


OBJECTIVES: Final[Mapping[str, Objective]] = {
    "tb": Objective("trajectory balance", trajectory_balance, needs_node_flows=False),
    "db": Objective("detailed balance", detailed_balance),
    "subtb": Objective("sub-trajectory balance", sub_trajectory_balance, needs_square=True),
    "fl-db": Objective(
        "db that credits each step with the observed reward of its item", forward_looking_balance, gains="observed"
    ),
    "fl-subtb": Objective(
        "subtb that credits each step with the observed reward of its item",
        sub_trajectory_balance,
        gains="observed",
        needs_square=True,
    ),
    "fl-db-exact": Objective(
        "db that credits each step with a predicted reward of its item",
        corrected_forward_looking_balance,
        gains="predicted",
    ),
}

"""Objectives of generative flow networks: tensors to residuals, and the table of them.

On a tree of slates each slate has one way to it, so the backward probability is 1 and appears nowhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from gfn4rec.objectives.detailed_balance import detailed_balance
from gfn4rec.objectives.flow import FlowBatch
from gfn4rec.objectives.penalty import PENALTIES as PENALTIES
from gfn4rec.objectives.trajectory_balance import trajectory_balance


@dataclass(frozen=True)
class Objective:
    """A flow objective: its residuals by name, and whether it needs the flow of every prefix or of the root only."""

    description: str
    residuals: Callable[[FlowBatch], Mapping[str, Tensor]]
    needs_node_flows: bool


OBJECTIVES: Final = {
    "tb": Objective("trajectory balance: one equation per slate", trajectory_balance, needs_node_flows=False),
    "db": Objective(
        "detailed balance: one equation per step, and one at the leaf", detailed_balance, needs_node_flows=True
    ),
}

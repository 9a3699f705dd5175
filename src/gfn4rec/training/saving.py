"""How the processes of a group write one checkpoint."""

from typing import Any

from torch import Tensor

from gfn4rec.training.group import Group
from gfn4rec.training.run import POLICY, Run


def part_name(name: str, group: Group) -> str:
    """The file of a part of a checkpoint: the weights are everybody's, the rest is each process's own."""
    return name if group.is_first or name == POLICY else f"{name}-{group.rank}"


def save_state(
    run: Run,
    step: int,
    tensors: dict[str, dict[str, Tensor]],
    state: dict[str, Any],
    lines: list[dict[str, Any]],
    group: Group,
) -> None:
    """Metrics first: a checkpoint must not know steps that the metrics do not."""
    gathered = group.gather({part_name(name, group): values for name, values in tensors.items()})
    if group.is_first:
        run.record(lines)
        run.save_checkpoint(step, {name: values for each in gathered for name, values in each.items()}, state)
    group.barrier()

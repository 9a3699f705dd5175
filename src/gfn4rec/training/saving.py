"""Checkpoints of a group of processes."""

from torch import Tensor

from gfn4rec.training.group import Group
from gfn4rec.training.recording import MetricsWriter
from gfn4rec.training.run import POLICY, Progress, Run


def part_name(name: str, group: Group) -> str:
    """Return the file name of a part of a checkpoint: the weights are shared, other parts belong to one process."""
    return name if group.is_first or name == POLICY else f"{name}-{group.rank}"


def save_state(
    run: Run,
    step: int,
    tensors: dict[str, dict[str, Tensor]],
    progress: Progress,
    metrics: MetricsWriter | None,
    group: Group,
) -> None:
    """Write a checkpoint of all processes. The first process writes it, after its metrics.

    If a checkpoint were ahead of the metrics, a resumed run would leave a gap in them.
    """
    gathered = group.gather({part_name(name, group): values for name, values in tensors.items()})
    if metrics is not None:
        metrics.flush()
        run.save_checkpoint(step, {name: values for parts in gathered for name, values in parts.items()}, progress)
    group.barrier()

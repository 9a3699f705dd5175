"""Metrics as TensorBoard events, beside `metrics.jsonl`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gfn4rec.errors import UserError


def require_tensorboard() -> None:
    """Refuse early where the package is absent."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise UserError("tensorboard is not installed; pip install 'gfn4rec[tensorboard]', or leave it off") from None


def write_events(directory: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Add metrics lines as scalars; those of evaluations by their names, as `greedy/reward`."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(directory / "tensorboard")) as writer:
        for line in lines:
            for name, value in line.items():
                scalars = (
                    {f"{name}/{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
                )
                for tag, number in scalars.items():
                    if tag not in ("step", "seconds"):
                        writer.add_scalar(tag, number, line["step"])

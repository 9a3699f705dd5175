"""The options for the device and the number of threads."""

from typing import Annotated

import typer

from gfn4rec.errors import UserError

DeviceOption = Annotated[str, typer.Option("--device", help="Device to compute on: cpu, cuda, cuda:1 or mps.")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="Number of threads; default: one per core.")
]


def choose_device(device: str, threads: int | None) -> str:
    """Set the number of threads, check that the device can be used, and return it."""
    import torch

    from gfn4rec.training.process import set_up_process

    set_up_process(threads)
    try:
        torch.device(device)
    except RuntimeError as error:
        raise UserError(f"--device {device}: no such device; write cpu, cuda, cuda:1 or mps") from error
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:120]
        raise UserError(f"--device {device}: cannot be used ({reason}); choose another, such as cpu") from error
    return device

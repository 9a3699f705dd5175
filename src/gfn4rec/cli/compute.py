"""Where a command computes: the device and the number of threads, chosen once."""

from typing import Annotated

import typer

from gfn4rec.errors import UserError

DeviceOption = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:1, mps.")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="Threads to compute with; by default one per core.")
]


def choose_device(device: str, threads: int | None) -> str:
    """The device, after a check that it is there."""
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
        raise UserError(f"--device {device}: cannot be used ({reason})") from error
    return device

"""The options for the device and the number of threads."""

from collections.abc import Callable
from typing import Annotated

import typer

from gfn4rec.cli.output import tell
from gfn4rec.errors import UserError

DeviceOption = Annotated[str, typer.Option("--device", help="Device to compute on: cpu, cuda, cuda:1 or mps.")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="Number of threads; default: one per free core.")
]


def threads_to_keep(threads: int | None) -> int:
    """Return the number of threads for a training: as asked for, else one for each core that is free now."""
    from gfn4rec.training.threads import Threads

    chosen = Threads.of(threads)
    if chosen.settle() < chosen.most:
        tell(
            f"other processes are busy: training with {chosen.number} instead of {chosen.most} threads from here on; "
            "--threads sets another number"
        )
    return chosen.number


def following(threads: int | None, report: Callable[..., None]) -> Callable[..., None]:
    """Return a report of progress that also lets the number of threads follow the free cores, unless it is given."""
    from gfn4rec.training.threads import Threads

    chosen = Threads.of(threads)

    def report_and_follow(*values: object) -> None:
        chosen.follow()
        report(*values)

    return report_and_follow


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

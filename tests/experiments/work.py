"""Work for engines, in a file of its own: whoever does it has to import nothing else."""

import os
import signal
from pathlib import Path

import torch

from gfn4rec.errors import RunError
from gfn4rec.experiments.engines import Tell
from gfn4rec.training.interruption import asked_to_end


def square(item: int, tell: Tell) -> int:
    """Fails for numbers below zero, breaks at 13, and dies of 666."""
    if item == 666:
        os.kill(os.getpid(), signal.SIGKILL)
    if item == 13:
        raise ZeroDivisionError("bad luck")
    if item < 0:
        raise RunError(f"{item}: below zero")
    tell(1, 2)
    return item * item


def work_until_asked(path: Path, tell: Tell) -> None:
    """Tells of more progress than a pipe can hold, and saves when it is asked to end."""
    with asked_to_end() as is_asked:
        path.write_text("begun")
        step = 0
        while not is_asked() or step < 5000:
            step += 1
            tell(step, 10**9)
        path.write_text("saved")


def wait_for(path: Path, tell: Tell) -> None:
    """Over as soon as the others have begun."""
    if path.name != "first":
        work_until_asked(path, tell)
    while not path.with_name("second").is_file():
        pass


def add_tiny(item: float, _: Tell) -> float:
    """What a number of no size is, once something is done with it."""
    return float(torch.tensor(item) + 0.0)

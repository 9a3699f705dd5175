"""Work for engines, in a file of its own so that worker processes import nothing else."""

import os
import signal
from pathlib import Path

import torch

from gfn4rec.errors import RunError
from gfn4rec.experiments.jobs.engines import ReportProgress
from gfn4rec.training.interruption import asked_to_end


def square(item: int, report: ReportProgress) -> int:
    """Fails for numbers below zero, breaks at 13, and dies of 666."""
    if item == 666:
        os.kill(os.getpid(), signal.SIGKILL)
    if item == 13:
        raise ZeroDivisionError("bad luck")
    if item < 0:
        raise RunError(f"{item}: below zero")
    report(1, 2)
    return item * item


def work_until_asked(path: Path, report: ReportProgress) -> None:
    """Reports more progress than a pipe can hold, and saves when it is asked to stop."""
    with asked_to_end() as is_asked:
        path.write_text("begun")
        step = 0
        while not is_asked() or step < 5000:
            step += 1
            report(step, 10**9)
        path.write_text("saved")


def wait_for(path: Path, report: ReportProgress) -> None:
    """The first ends as soon as the second has begun; the others work until they are asked to stop."""
    if path.name != "first":
        work_until_asked(path, report)
    while not path.with_name("second").is_file():
        pass


def add_tiny(item: float, _: ReportProgress) -> float:
    """Return a number after one operation, which flushes denormal floats to zero."""
    return float(torch.tensor(item) + 0.0)

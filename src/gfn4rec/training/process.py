"""Settings of a computing process: threads, and denormal floats."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def set_up_process(num_threads: int | None = None) -> None:
    """Set the number of threads, and round denormal floats to 0. Call it before any computation.

    Weights that decay without a gradient and softmaxes that are almost certain produce denormal floats (below 1e-38),
    with which processors compute many times more slowly. Threads inherit the rounding of the thread that starts them.
    """
    torch.set_flush_denormal(True)
    if num_threads is not None:
        torch.set_num_threads(num_threads)


@contextmanager
def computing_with(num_threads: int | None) -> Iterator[None]:
    """Compute with a number of threads inside the block; None leaves the number as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)

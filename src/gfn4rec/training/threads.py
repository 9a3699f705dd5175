"""The number of threads to compute with: one for each core that is free.

The threads of a computation wait for each other many times in a step, and keep their cores busy while they wait. Where
another process needs one of these cores, a step with two threads takes many times as long as with one.

A float sum depends on the number of threads in its rounding. A training therefore measures once and keeps the number;
what serves, evaluates or learns from live feedback follows the free cores.
"""

import math
import os
import threading
import time
from collections.abc import Callable
from typing import Final

import torch

from gfn4rec.training.cores import WINDOW, FreeCores, num_cores, quota

MARGIN: Final = 0.25  # a core counts as free if others use no more of it
PATIENCE: Final = 3.0  # seconds for which cores must have been free before threads are added


class Threads:
    """A number of threads that follows the free cores, or stays fixed.

    One thread calls `measure` often, and every thread that computes calls `apply` before it does; `follow` is both. In
    PyTorch, the number belongs partly to the process and partly to the calling thread.
    """

    def __init__(self, most: int, cores: FreeCores | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with the largest number; without `cores` it is fixed."""
        self.number = self.most = most
        self._cores, self._clock = cores, clock
        self._free_since: float | None = None
        self._fitting = most  # the smallest number that has fitted since then

    @classmethod
    def of(cls, fixed: int | None) -> "Threads":
        """Return the threads of this process: as many as asked for, else those that are free.

        `OMP_NUM_THREADS` fixes the number, too. So do several processes that train together: all need the same number.
        """
        if fixed is not None:
            return cls(fixed)
        most = torch.get_num_threads()
        if "OMP_NUM_THREADS" in os.environ or os.environ.get("WORLD_SIZE", "1") != "1":
            return cls(most)
        return cls(max(1, math.floor(min(quota(), most))), FreeCores(num_cores()))

    @property
    def is_fixed(self) -> bool:
        """Whether the number stays as it is."""
        return self._cores is None

    def measure(self) -> None:
        """Choose the number for the cores that are free now. It falls at once, and rises when they have stayed free."""
        free = None if self._cores is None else self._cores.measure()
        if free is None:
            return
        fitting, now = max(1, min(self.most, math.floor(free + MARGIN))), self._clock()
        if fitting <= self.number:
            self.number, self._free_since = fitting, None
            return
        if self._free_since is None:
            self._free_since, self._fitting = now, fitting
        self._fitting = min(self._fitting, fitting)
        if now - self._free_since >= PATIENCE:
            self.number, self._free_since = self._fitting, None

    def apply(self) -> None:
        """Let the calling thread compute with the number."""
        if self._cores is not None:
            self._cores.count_own(threading.get_native_id())
        torch.set_num_threads(self.number)

    def follow(self) -> None:
        """Measure, and compute with the number from here on."""
        self.measure()
        self.apply()

    def settle(self, pause: Callable[[float], None] = time.sleep) -> int:
        """Measure once, for half a second, and return the number, which is to be kept."""
        if self._cores is not None:
            pause(WINDOW)
            self.measure()
        return self.number

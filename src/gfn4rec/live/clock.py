"""Time that never goes backwards, whatever the system's clock does."""

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Returns the seconds since 1970."""


def steady_clock(not_before: float, wall: Clock = time.time, steady: Clock = time.monotonic) -> Clock:
    """Return a clock that starts at the wall's time, but not before a given one, and runs steadily from there.

    The latest time in a store is what a restarted service must not fall behind: otherwise decisions would close late by
    as much as the system's clock was set back.

    >>> clock = steady_clock(500.0, wall=lambda: 400.0, steady=iter([10.0, 13.0]).__next__)
    >>> clock()
    503.0
    """
    start, began = max(wall(), not_before), steady()
    return lambda: start + steady() - began

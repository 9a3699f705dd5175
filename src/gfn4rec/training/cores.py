"""How many cores are free for this process: those it may use, less what others use of them.

"Others" are other processes, other virtual machines on the same host, and those threads of this process that do not
compute with PyTorch, such as the event loop of a service. Processes of low priority count, too: they get a core less
often, but a step of several threads waits for each of them.
"""

import os
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

WINDOW: Final = 0.5  # seconds of a measurement; the system counts in hundredths of a second
_GROUPS: Final = Path("/sys/fs/cgroup")
_FIELDS: Final = (1, 2, 3, 6, 7, 8)  # of /proc/stat: user, nice, system, both kinds of interrupts, stolen by the host


class Usage(NamedTuple):
    """CPU seconds so far: of everything on the cores that this process may use, and of its computing threads."""

    everything: float
    own: float


Read: TypeAlias = Callable[[Collection[int]], Usage | None]


def read_usage(computing: Collection[int]) -> Usage | None:
    """Return the CPU seconds so far; None if the system does not tell them, as on macOS and Windows.

    `computing` are the native ids of those Python threads that compute; if none are known, all count.
    """
    try:
        text = Path("/proc/stat").read_text(encoding="ascii")
    except OSError:
        return None
    helpers = [thread.native_id for thread in threading.enumerate() if thread.native_id not in computing]
    # Threads of PyTorch are not threads of Python: own time is that of the process without its other threads.
    own = time.process_time() - (sum(map(_thread_seconds, helpers)) if computing else 0.0)
    return Usage(busy_ticks(text, _cores()) / os.sysconf("SC_CLK_TCK"), own)


def busy_ticks(text: str, cores: Collection[int]) -> int:
    """Return how long cores have been busy, in the units of /proc/stat, from its text."""
    rows = {row[0]: row for row in map(str.split, text.splitlines()) if row}
    return sum(int(rows[f"cpu{core}"][field]) for core in cores if f"cpu{core}" in rows for field in _FIELDS)


def num_cores() -> int:
    """Return the number of cores that this process is allowed to run on."""
    return len(_cores())


def quota(groups: Path = _GROUPS, own: Path = Path("/proc/self/cgroup")) -> float:
    """Return how many cores the control group of this process (version 2) may use at a time; often without limit."""
    try:
        path = own.read_text(encoding="utf-8").split("0::/", 1)[1].splitlines()[0]
    except (OSError, IndexError):
        return float("inf")
    folder = groups / path
    return min(map(_quota_of, (folder, *folder.parents)))


class FreeCores:
    """Measures again and again how many cores are free, over windows of at least half a second."""

    def __init__(self, cores: int, read: Read = read_usage, clock: Callable[[], float] = time.monotonic) -> None:
        self._cores, self._read, self._clock = cores, read, clock
        self._computing: set[int] = set()
        self._begin()

    def count_own(self, thread: int) -> None:
        """Count a Python thread of this process, by its native id, among those that compute."""
        if thread not in self._computing:
            self._computing.add(thread)
            self._begin()  # what was read before counted other threads

    def measure(self) -> float | None:
        """Return the mean number of free cores since the last measurement; None if that was a moment ago.

        Where the system does not tell, all are free.
        """
        start, before = self._start
        seconds = self._clock() - start
        if seconds < WINDOW:
            return None
        _, usage = self._begin()
        if usage is None or before is None:
            return float(self._cores)
        others = (usage.everything - before.everything - (usage.own - before.own)) / seconds
        return min(float(self._cores), self._cores - others)

    def _begin(self) -> tuple[float, Usage | None]:
        self._start = self._clock(), self._read(frozenset(self._computing))
        return self._start


def _cores() -> Collection[int]:
    try:
        return os.sched_getaffinity(0)
    except AttributeError:  # not on Linux
        return range(os.cpu_count() or 1)


def _thread_seconds(native_id: int | None) -> float:
    try:
        text = Path(f"/proc/self/task/{native_id}/schedstat").read_text(encoding="ascii")
    except OSError:  # it has just ended
        return 0.0
    return int(text.split()[0]) / 1e9


def _quota_of(group: Path) -> float:
    try:
        microseconds, period = (group / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return float("inf")
    return float("inf") if microseconds == "max" else int(microseconds) / int(period)

"""Keeps the learner process alive beside the service; serving never waits for it."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

from gfn4rec.live.clock import Clock

PARENT: Final = "GFN4REC_SUPERVISOR"  # names the process without which a learner ends itself
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_HEALTHY: Final = 60.0  # seconds after which a restart begins with the first pause again
_SECONDS_TO_END: Final = 20.0


def pause_before(restart: int) -> float:
    """Return the seconds to wait before the n-th restart in a row.

    >>> [pause_before(restart) for restart in (1, 2, 3, 10, 2000)]
    [1.0, 2.0, 4.0, 60.0, 60.0]
    """
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(restart - 1, 10))


class Supervisor:
    """Starts a process, and starts it again when it ends, with growing pauses."""

    def __init__(
        self,
        command: Sequence[str],
        clock: Clock,
        notify: Callable[[str], None],
        pause: Callable[[int], float] = pause_before,
        seconds_to_end: float = _SECONDS_TO_END,
        name: str = "the learner",
    ) -> None:
        self._command, self._clock, self._notify, self._name = command, clock, notify, name
        self._pause, self._seconds_to_end = pause, seconds_to_end
        self._end, self._starting = threading.Event(), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.restarts, self.state = 0, "stopped"
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    @property
    def pid(self) -> int | None:
        """The process's number while it runs."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def start(self) -> None:
        """Start the process."""
        self._thread.start()

    def stop(self) -> None:
        """End the process and do not start it again."""
        with self._starting:
            self._end.set()
            process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(self._seconds_to_end)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread.is_alive():
            self._thread.join()
        self.state = "stopped"

    def _run(self) -> None:
        in_a_row = 0
        while not self._end.is_set():
            began = self._clock()
            outcome = self._run_once()
            if self._end.is_set():
                return
            self.state, self.restarts = "restarting", self.restarts + 1
            in_a_row = 1 if self._clock() - began > _HEALTHY else in_a_row + 1
            pause = self._pause(in_a_row)
            self._notify(f"{self._name} has ended ({outcome}); it is restarted in {pause:g} s")
            self._end.wait(pause)

    def _run_once(self) -> str:
        """Run the process to its end, and return how it ended."""
        with self._starting:  # so that `stop` sees every process that is started
            if self._end.is_set():
                return "never started"
            try:
                self._process = subprocess.Popen(self._command, env={**os.environ, PARENT: str(os.getpid())})
            except OSError as error:
                return f"it cannot be started: {error.strerror}"
            self.state = "running"
        return f"exit code {self._process.wait()}"


def is_orphan() -> bool:
    """Return whether this process was started by a supervisor that has gone."""
    parent = os.environ.get(PARENT)
    return parent is not None and os.getppid() != int(parent)


def this_command(*arguments: str) -> list[str]:
    """Return the command line of a gfn4rec command in this environment."""
    return [sys.executable, "-m", "gfn4rec", *arguments]

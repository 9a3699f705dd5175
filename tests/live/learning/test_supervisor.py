"""The supervisor: a process that ends is started again, later and later, until it is stopped."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gfn4rec.live.supervisor import PARENT, Supervisor, is_orphan, pause_before, this_command
from tests.live.fakes import FakeClock

PATIENCE = 60.0  # until a process that does not do what it should fails the test
LONG = 1000.0


def shell(script: str) -> list[str]:
    """Return the command of a shell script."""
    return ["sh", "-c", script]


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """Return whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Watched:
    """A supervisor that pauses for no time until its process has ended so many times, and then for long."""

    def __init__(self, command: Sequence[str], times: int, seconds: Sequence[float] = (), **more: Any) -> None:
        self.clock, self.times, self.seconds = FakeClock(), times, [*seconds]
        self.in_a_row: list[int] = []
        self.messages: list[str] = []
        self.has_ended = threading.Event()
        self.supervisor = Supervisor(command, self._time, self._notify, self._pause, **more)
        self._is_running = False

    def _time(self) -> float:
        """Each run of the process takes as long as `seconds` says, or no time."""
        if self._is_running and self.seconds:
            self.clock.advance(self.seconds.pop(0))
        self._is_running = not self._is_running
        return self.clock()

    def _pause(self, in_a_row: int) -> float:
        self.in_a_row.append(in_a_row)
        return 0.0 if len(self.in_a_row) < self.times else LONG

    def _notify(self, message: str) -> None:
        self.messages.append(message)
        if len(self.messages) == self.times:
            self.has_ended.set()


def test_pauses_double_up_to_a_minute() -> None:
    assert [pause_before(number) for number in range(1, 9)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_a_process_that_ends_is_started_again_with_growing_pauses(tmp_path: Path) -> None:
    watched = Watched(shell(f"echo >> {tmp_path}/runs; exit 3"), times=4)
    assert (watched.supervisor.state, watched.supervisor.restarts) == ("stopped", 0)
    watched.supervisor.start()
    assert watched.has_ended.wait(PATIENCE)
    assert watched.in_a_row == [1, 2, 3, 4]
    assert (watched.supervisor.state, watched.supervisor.restarts) == ("restarting", 4)
    assert watched.supervisor.pid is None
    pauses = ("0", "0", "0", "1000")
    assert watched.messages == [
        f"the learner has ended (exit code 3); it is restarted in {pause} s" for pause in pauses
    ]
    watched.supervisor.stop()  # does not wait for the pause
    assert watched.supervisor.state == "stopped"
    assert (tmp_path / "runs").read_text().count("\n") == 4


def test_after_a_minute_of_health_pauses_begin_again() -> None:
    """It ran for 0, 0, 60, 60.1, 0 and 0 seconds."""
    watched = Watched(shell("exit 0"), times=6, seconds=(0.0, 0.0, 60.0, 60.1, 0.0, 0.0), name="the traffic")
    watched.supervisor.start()
    assert watched.has_ended.wait(PATIENCE)
    watched.supervisor.stop()
    assert watched.in_a_row == [1, 2, 3, 1, 2, 3]
    assert watched.supervisor.restarts == 6
    assert watched.messages[0] == "the traffic has ended (exit code 0); it is restarted in 0 s"


def test_a_process_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    watched = Watched([str(tmp_path / "missing")], times=3)
    watched.supervisor.start()
    assert watched.has_ended.wait(PATIENCE)
    assert watched.in_a_row == [1, 2, 3]
    reason = os.strerror(errno.ENOENT)
    message = f"the learner has ended (it cannot be started: {reason}); it is restarted in 0 s"
    assert watched.messages[0] == message
    assert (watched.supervisor.state, watched.supervisor.pid) == ("restarting", None)
    watched.supervisor.stop()


def test_what_runs_is_ended_and_not_started_again(tmp_path: Path) -> None:
    script = f"echo ${PARENT} > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/parent; exec sleep 1000"
    watched = Watched(shell(script), times=1)
    watched.supervisor.start()
    wait_for((tmp_path / "parent").exists)
    assert (tmp_path / "parent").read_text() == f"{os.getpid()}\n"  # by which it knows when it is an orphan
    wait_for(lambda: watched.supervisor.state == "running")  # the process may be faster than who started it
    pid = watched.supervisor.pid
    assert pid is not None
    watched.supervisor.stop()
    assert not is_alive(pid)
    assert (watched.supervisor.pid, watched.supervisor.state) == (None, "stopped")
    assert (watched.messages, watched.supervisor.restarts) == ([], 0)


def test_a_process_that_does_not_end_when_asked_is_killed(tmp_path: Path) -> None:
    """Signals that are ignored stay so after `exec`."""
    watched = Watched(shell(f"trap '' TERM; : > {tmp_path}/ready; exec sleep 1000"), times=1, seconds_to_end=0.01)
    watched.supervisor.start()
    wait_for((tmp_path / "ready").exists)
    wait_for(lambda: watched.supervisor.state == "running")
    pid = watched.supervisor.pid
    assert pid is not None
    stopping = threading.Thread(target=watched.supervisor.stop)
    stopping.start()
    stopping.join(PATIENCE)
    was_killed = not is_alive(pid)
    if not was_killed:
        os.kill(pid, signal.SIGKILL)
    assert was_killed


def test_one_that_is_stopped_before_it_starts_starts_nothing(tmp_path: Path) -> None:
    watched = Watched(shell(f": > {tmp_path}/started"), times=1)
    watched.supervisor.stop()
    watched.supervisor.start()
    watched.supervisor.stop()
    assert not (tmp_path / "started").exists()
    assert (watched.supervisor.state, watched.messages) == ("stopped", [])


def test_one_that_is_stopped_just_before_it_starts_a_process_starts_none(tmp_path: Path) -> None:
    is_about_to_start, may_start = threading.Event(), threading.Event()

    def clock() -> float:
        is_about_to_start.set()
        assert may_start.wait(PATIENCE)
        return 0.0

    watched = Supervisor(shell(f": > {tmp_path}/started"), clock, lambda _: None)
    watched.start()
    assert is_about_to_start.wait(PATIENCE)
    stopping = threading.Thread(target=watched.stop)
    stopping.start()
    wait_for(watched._end.is_set)
    may_start.set()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert not (tmp_path / "started").exists()


def test_a_process_that_is_being_started_while_it_is_stopped_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    is_starting, may_start = threading.Event(), threading.Event()
    started: list[subprocess.Popen[bytes]] = []
    original = subprocess.Popen

    def slow(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        is_starting.set()
        assert may_start.wait(PATIENCE)
        started.append(original(*arguments, **options))
        return started[-1]

    monkeypatch.setattr("gfn4rec.live.supervisor.subprocess.Popen", slow)
    watched = Watched(shell("exec sleep 1000"), times=1)
    watched.supervisor.start()
    assert is_starting.wait(PATIENCE)
    stopping = threading.Thread(target=watched.supervisor.stop)
    stopping.start()
    stopping.join(0.05)  # it waits for the start, or would have missed the process by now
    may_start.set()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert [process.poll() for process in started] == [-signal.SIGTERM]
    assert watched.supervisor.state == "stopped"


@pytest.mark.parametrize(
    ("parent", "expected"), [(None, False), (str(os.getppid()), False), (str(os.getppid() + 1), True)]
)
def test_a_process_whose_supervisor_is_gone_is_an_orphan(
    monkeypatch: pytest.MonkeyPatch, parent: str | None, expected: bool
) -> None:
    monkeypatch.delenv(PARENT, raising=False)
    if parent is not None:
        monkeypatch.setenv(PARENT, parent)
    assert is_orphan() == expected


def test_a_command_runs_in_the_same_environment() -> None:
    assert this_command("live", "learn") == [sys.executable, "-m", "gfn4rec", "live", "learn"]

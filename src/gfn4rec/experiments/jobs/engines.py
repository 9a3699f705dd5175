"""Engines run a function on many items: in processes of this machine, or on a Ray cluster."""

import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeAlias

from gfn4rec.errors import RunError, UserError
from gfn4rec.training.process import set_up_process

ReportProgress: TypeAlias = Callable[[int, int], None]  # how much is done, of how much
Work: TypeAlias = Callable[[Any, ReportProgress], Any]  # an item -> its result, None if it was asked to stop
_Busy: TypeAlias = dict[Connection, tuple[int, BaseProcess]]
_SAVING_SECONDS = 60  # for tasks that were asked to stop, at most


@dataclass(frozen=True)
class Event:
    """The start of an item, its progress, or its end with a result or a failure."""

    index: int
    done: int = 0
    total: int = 0
    is_finished: bool = False
    result: Any = None
    failure: str | None = None


Events: TypeAlias = Generator[Event, None, None]


class Engine(Protocol):
    """Runs a function on many items, several at a time."""

    def run(self, work: Work, items: Iterable[Any]) -> Events:
        """Yield events as they happen; the next item is taken when a worker is free.

        Closing the generator stops the workers: they finish their step and save it first.
        """
        ...


class LocalEngine:
    """Runs each item in a process of its own, at most `num_workers` at a time."""

    def __init__(self, num_workers: int | None = None, num_threads: int = 1) -> None:
        self.num_workers, self.num_threads = num_workers or os.cpu_count() or 1, num_threads

    def run(self, work: Work, items: Iterable[Any]) -> Events:
        """Yield events as they happen; see `Engine`."""
        context = multiprocessing.get_context("spawn")
        waiting = enumerate(items)
        busy: _Busy = {}
        with _stopping(busy):
            while True:
                for index, item in islice(waiting, self.num_workers - len(busy)):
                    ours, theirs = context.Pipe(duplex=False)
                    process = context.Process(target=_child, args=(work, item, index, theirs, self.num_threads))
                    with _ignoring_interrupts():
                        process.start()
                        busy[ours] = (index, process)
                    theirs.close()
                    yield Event(index)
                if not busy:
                    return
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    yield _receive(ready, busy)


def _receive(ready: Connection, busy: _Busy) -> Event:
    """Receive an event of a process; join the process if it is the last one."""
    index, process = busy[ready]
    try:
        event: Event = ready.recv()
    except (EOFError, OSError):  # it died, perhaps while it was sending
        process.join()
        event = Event(index, is_finished=True, failure=f"its process ended with code {process.exitcode}")
    if event.is_finished:
        process.join()
        del busy[ready]
    return event


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C: only their parent reacts to it, and asks them to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _stopping(busy: _Busy) -> Iterator[None]:
    """Stop all processes when the block ends, for whatever reason: each finishes its step and saves it."""
    try:
        yield
    finally:
        for _, process in busy.values():
            process.terminate()
        for connection, (_, process) in busy.items():
            with suppress(EOFError, OSError):  # read what it still sends, or it would block
                while True:
                    connection.recv_bytes()
            process.join()


def _child(work: Work, item: Any, index: int, connection: Connection, num_threads: int) -> None:
    set_up_process(num_threads)
    with suppress(BrokenPipeError):
        connection.send(_last_event(work, item, index, lambda done, total: connection.send(Event(index, done, total))))


def _last_event(work: Work, item: Any, index: int, report: ReportProgress) -> Event:
    try:
        return Event(index, is_finished=True, result=work(item, report))
    except (UserError, RunError) as error:
        return Event(index, is_finished=True, failure=str(error))


class RayEngine:
    """Runs items on a Ray cluster, by default one of this machine. All of its machines must see the same files."""

    def __init__(self, address: str | None = None, num_workers: int | None = None, num_threads: int = 1) -> None:
        self.address, self.num_workers, self.num_threads = address, num_workers, num_threads

    def run(self, work: Work, items: Iterable[Any]) -> Events:
        """Yield events as they happen, without progress within an item; see `Engine`."""
        ray = _connect(self.address)
        task = ray.remote(num_cpus=self.num_threads, max_retries=0)(_ray_task)
        waiting = enumerate(items)
        running: dict[Any, int] = {}
        try:
            while True:
                num_free = max(0, self._num_slots(ray) - len(running))
                for index, item in islice(waiting, num_free):
                    running[task.remote(work, item, index, self.num_threads)] = index
                    yield Event(index)
                if not running:
                    return
                (ready, *_), _ = ray.wait(list(running), num_returns=1)
                index = running.pop(ready)
                try:
                    event = ray.get(ready)
                except ray.exceptions.RayError as error:
                    event = Event(index, is_finished=True, failure=str(error).strip().splitlines()[-1])
                yield event
        finally:
            for left in running:
                ray.cancel(left)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=_SAVING_SECONDS)

    def _num_slots(self, ray: Any) -> int:
        """Return how many items can run now; a cluster may grow and shrink."""
        return self.num_workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // self.num_threads)


def _connect(address: str | None) -> Any:
    try:
        import ray
    except ImportError:
        raise UserError("--engine ray needs Ray; install it with: pip install 'gfn4rec[ray]'") from None
    if not ray.is_initialized():
        try:
            _check_reachable(address)
            ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"--address {address}: no Ray cluster there ({reason})") from error
    return ray


def _check_reachable(address: str | None) -> None:
    """Connect to an address once, because Ray itself waits for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _ray_task(work: Work, item: Any, index: int, num_threads: int) -> Event:
    set_up_process(num_threads)
    return _last_event(work, item, index, lambda *_: None)


def open_engine(name: str, num_workers: int | None = None, address: str | None = None) -> Engine:
    """Return the engine `local` or `ray`; by default it has a worker per core."""
    if name not in ("local", "ray"):
        raise UserError(f"--engine {name}: choose local or ray")
    if name == "ray":
        return RayEngine(address, num_workers)
    if address is not None:
        raise UserError(f"--address {address}: needs --engine ray")
    return LocalEngine(num_workers)

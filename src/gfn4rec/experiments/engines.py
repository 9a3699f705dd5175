"""Who does the work: processes of this machine, or a Ray cluster."""

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

Tell: TypeAlias = Callable[[int, int], None]
Work: TypeAlias = Callable[[Any, Tell], Any]  # an item and whom to tell of progress -> its result
_Busy: TypeAlias = dict[Connection, tuple[int, BaseProcess]]
_SAVING_SECONDS = 60  # at most, for those who were asked to end


@dataclass(frozen=True)
class Event:
    """Something that happened to an item: progress, or its end with a result or a failure."""

    index: int
    done: int = 0
    total: int = 0
    is_over: bool = False
    result: Any = None
    failure: str | None = None


Events: TypeAlias = Generator[Event, None, None]


class Engine(Protocol):
    """Runs a function on many items, and tells what happens in the order in which it does."""

    def run(self, work: Work, items: Iterable[Any]) -> Events:
        """The events of all items; an item is asked for when there is somebody free to work on it.

        Whoever stops listening closes the events, which ends the work; what is at hand is saved first.
        """
        ...


class LocalEngine:
    """A process for each item, so many at a time, with so many threads each."""

    def __init__(self, num_workers: int | None = None, num_threads: int = 1) -> None:
        self.num_workers, self.num_threads = num_workers or os.cpu_count() or 1, num_threads

    def run(self, work: Work, items: Iterable[Any]) -> Events:
        """See `Engine`."""
        context = multiprocessing.get_context("spawn")
        waiting = enumerate(items)
        busy: _Busy = {}
        with _ending(busy):
            while True:
                for index, item in islice(waiting, self.num_workers - len(busy)):
                    ours, theirs = context.Pipe(duplex=False)
                    process = context.Process(target=_child, args=(work, item, index, theirs, self.num_threads))
                    with _deaf_to_interrupts():
                        process.start()
                        busy[ours] = (index, process)
                    theirs.close()
                    yield Event(index)
                if not busy:
                    return
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    yield _heard(ready, busy)


def _heard(ready: Connection, busy: _Busy) -> Event:
    """What a process has to say; one that is over is joined."""
    index, process = busy[ready]
    try:
        event: Event = ready.recv()
    except (EOFError, OSError):  # it died, perhaps in the middle of a word
        process.join()
        event = Event(index, is_over=True, failure=f"its process ended with code {process.exitcode}")
    if event.is_over:
        process.join()
        del busy[ready]
    return event


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """A process begun here never hears Ctrl-C: its parent does, and asks it to end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ending(busy: _Busy) -> Iterator[None]:
    """However the block ends, no process outlives it: each is asked to end, finishes its step and saves."""
    try:
        yield
    finally:
        for _, process in busy.values():
            process.terminate()
        for connection, (_, process) in busy.items():
            with suppress(EOFError, OSError):  # it may have much to say still, and must not wait for a listener
                while True:
                    connection.recv_bytes()
            process.join()


def _child(work: Work, item: Any, index: int, connection: Connection, num_threads: int) -> None:
    set_up_process(num_threads)
    with suppress(BrokenPipeError):
        connection.send(_outcome(work, item, index, lambda done, total: connection.send(Event(index, done, total))))


def _outcome(work: Work, item: Any, index: int, tell: Tell) -> Event:
    try:
        return Event(index, is_over=True, result=work(item, tell))
    except (UserError, RunError) as error:
        return Event(index, is_over=True, failure=str(error))


class RayEngine:
    """Tasks of a Ray cluster, the one at an address or one of this machine; data and results lie where all can see."""

    def __init__(self, address: str | None = None, num_workers: int | None = None, num_threads: int = 1) -> None:
        self.address, self.num_workers, self.num_threads = address, num_workers, num_threads

    def run(self, work: Work, items: Iterable[Any]) -> Events:
        """See `Engine`; progress within an item is not told."""
        ray = _connect(self.address)
        task = ray.remote(num_cpus=self.num_threads, max_retries=0)(_ray_task)
        waiting = enumerate(items)
        running: dict[Any, int] = {}
        try:
            while True:
                num_free = max(0, self._num_places(ray) - len(running))
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
                    event = Event(index, is_over=True, failure=str(error).strip().splitlines()[-1])
                yield event
        finally:
            for left in running:
                ray.cancel(left)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=_SAVING_SECONDS)

    def _num_places(self, ray: Any) -> int:
        """A cluster may grow and shrink."""
        return self.num_workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // self.num_threads)


def _connect(address: str | None) -> Any:
    try:
        import ray
    except ImportError:
        raise UserError("--engine ray needs Ray; install it with: pip install 'gfn4rec[ray]'") from None
    if not ray.is_initialized():
        try:
            _knock(address)
            ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"--address {address}: no Ray cluster there ({reason})") from error
    return ray


def _knock(address: str | None) -> None:
    """Ray waits for minutes where nobody answers."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _ray_task(work: Work, item: Any, index: int, num_threads: int) -> Event:
    set_up_process(num_threads)
    return _outcome(work, item, index, lambda *_: None)


def open_engine(name: str, num_workers: int | None = None, address: str | None = None) -> Engine:
    """The engine of a name, with so many at work at a time; by default as many as there are cores."""
    if name not in ("local", "ray"):
        raise UserError(f"--engine {name}: choose local or ray")
    if name == "ray":
        return RayEngine(address, num_workers)
    if address is not None:
        raise UserError(f"--address {address}: is that of a Ray cluster; add --engine ray")
    return LocalEngine(num_workers)

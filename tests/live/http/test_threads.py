"""The service's policy thread and its learner compute with as many threads as there are free cores."""

import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from gfn4rec.live.batcher import Batcher, resolve
from gfn4rec.live.config import LearnerSettings, ServiceConfig
from gfn4rec.live.host import Host, Place
from gfn4rec.live.running import learn
from gfn4rec.schema import Proposal
from gfn4rec.training.process import computing_with
from gfn4rec.training.threads import Threads
from tests.live.http.serving import ask, decide
from tests.training.test_threads import Cores

PATIENCE = 60.0


class WatchedCores(Cores):
    """Counts its measurements."""

    def __init__(self, free: float) -> None:
        super().__init__(free)
        self.measured = threading.Semaphore(0)

    def measure(self) -> float | None:
        free = super().measure()
        self.measured.release()
        return free

    def wait_for_measurements(self) -> None:
        """Wait until a measurement that began after this call has changed the number."""
        while self.measured.acquire(blocking=False):
            pass
        for _ in range(3):  # one that had begun before, the one itself, and the next, which begins after the change
            assert self.measured.acquire(timeout=PATIENCE)


def test_the_answering_thread_prepares_each_batch() -> None:
    events = list[tuple[str, str]]()

    def answer(_: Sequence[int], futures: Sequence[Future[None]]) -> None:
        events.append(("answer", threading.current_thread().name))
        resolve(futures[0], None)

    batcher: Batcher[int, None] = Batcher(answer, largest_batch=1, largest_queue=2)
    batcher.submit(1)
    batcher.submit(2)
    batcher.start(lambda: events.append(("prepare", threading.current_thread().name)))
    batcher.close()
    assert events == [("prepare", "policy"), ("answer", "policy")] * 2


def test_a_service_computes_with_the_threads_that_are_free(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = WatchedCores(3.0)
    threads = Threads(3, cores, lambda: cores.now)  # type: ignore[arg-type]
    host = Host(Place.of(run, tmp_path / "live", None), ServiceConfig(), threads=threads)
    recommend, used = host.service.desk.policy.recommend, list[int]()

    def counting(request: Any, *arguments: Any) -> Proposal:
        used.append(torch.get_num_threads())
        return recommend(request, *arguments)

    monkeypatch.setattr(host.service.desk.policy, "recommend", counting)
    with computing_with(None):
        host.start()
        for free in (3.0, 1.0):
            cores.free = free
            cores.wait_for_measurements()
            decide(host, ask(f"free-{free}", "1"))
        host.stop()
    assert used == [3, 1]
    assert len(cores.own) == 1  # the policy's thread alone computes; the rest of the service needs cores, too


@pytest.mark.parametrize(("threads", "expected"), [(Threads(2), ["2"]), (Threads(2, Cores(2.0)), [])])  # type: ignore[arg-type]
def test_a_number_that_is_given_is_the_learners_too(
    run: Path, tmp_path: Path, threads: Threads, expected: list[str]
) -> None:
    host = Host(Place.of(run, tmp_path / "live", None), ServiceConfig(), LearnerSettings(), threads=threads)
    host.stop()
    assert host.supervisor is not None
    command = host.supervisor._command
    assert [value for option, value in pairwise(command) if option == "--threads"] == expected


def test_the_learner_follows_the_free_cores_between_steps(run: Path, tmp_path: Path) -> None:
    place = Place.of(run, tmp_path / "live", None)
    Host(place, ServiceConfig()).stop()
    cores, seen = Cores(3.0), list[tuple[int, str]]()

    class Watched(Threads):
        def follow(self) -> None:
            super().follow()
            seen.append((torch.get_num_threads(), threading.current_thread().name))
            cores.free -= 1
            if len(seen) == 4:
                signal.raise_signal(signal.SIGINT)

    with computing_with(None):
        learn(place, LearnerSettings(), threads=Watched(3, cores, lambda: cores.now))  # type: ignore[arg-type]
    assert seen[:4] == [(3, "MainThread"), (2, "MainThread"), (1, "MainThread"), (1, "MainThread")]

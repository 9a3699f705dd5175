"""The number of threads, for cores that are free as the tests say."""

import subprocess
import sys
import threading

import pytest
import torch

from gfn4rec.training import threads as threads_module
from gfn4rec.training.cores import WINDOW
from gfn4rec.training.process import computing_with
from gfn4rec.training.threads import MARGIN, PATIENCE, Threads


class Cores:
    """Says how many cores are free; each measurement takes half a second."""

    def __init__(self, free: float) -> None:
        self.free, self.now, self.own = free, 0.0, set[int]()

    def measure(self) -> float | None:
        self.now += WINDOW
        return self.free

    def count_own(self, thread: int) -> None:
        self.own.add(thread)


def following(most: int, free: float) -> tuple[Threads, Cores]:
    cores = Cores(free)
    return Threads(most, cores, lambda: cores.now), cores  # type: ignore[arg-type]


def numbers(threads: Threads, cores: Cores, *free: float) -> list[int]:
    """Return the number of threads after each measurement."""
    chosen = []
    for value in free:
        cores.free = value
        threads.measure()
        chosen.append(threads.number)
    return chosen


@pytest.mark.parametrize(
    ("free", "expected"),
    [(4.0, 4), (4 - MARGIN, 4), (3.7, 3), (3.0, 3), (2.8, 3), (1.5, 1), (1.0, 1), (0.3, 1), (-0.1, 1), (9.0, 4)],
)
def test_a_thread_for_each_free_core(free: float, expected: int) -> None:
    threads, cores = following(4, free)
    assert threads.number == 4  # until it is measured
    assert numbers(threads, cores, free) == [expected]


def test_falls_at_once_and_rises_when_cores_have_stayed_free() -> None:
    threads, cores = following(4, 4.0)
    waits = int(PATIENCE / WINDOW)
    assert numbers(threads, cores, 4, 1, 1) == [4, 1, 1]
    assert numbers(threads, cores, *[4.0] * (waits + 1)) == [1] * waits + [4]
    assert numbers(threads, cores, 3, 2, 2) == [3, 2, 2]
    assert numbers(threads, cores, 4, *[3.0] * waits) == [2] * waits + [3]  # the smallest number that fitted
    assert numbers(threads, cores, *[4.0] * (waits + 1)) == [3] * waits + [4]


def test_a_neighbour_that_comes_and_goes_does_not_make_it_flap() -> None:
    threads, cores = following(2, 2.0)
    pattern = [1.0, 1.0, 2.0, 2.0, 2.0, 2.0] * 10  # a second of work, two of rest
    assert numbers(threads, cores, *pattern) == [1] * 60
    assert numbers(threads, cores, *[1.8, 2.0, 1.9] * 10)[-1] == 2  # what everybody has beside it does not count


def test_what_is_fixed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert not Threads.of(None).is_fixed
    assert Threads.of(3).is_fixed
    assert Threads.of(3).settle(_never) == 3
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert Threads.of(None).is_fixed
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert Threads.of(None).is_fixed
    assert Threads.of(None).number == torch.get_num_threads()  # which PyTorch has taken from it


@pytest.mark.parametrize(("quota", "expected"), [(float("inf"), 5), (8.0, 5), (2.9, 2), (0.5, 1)])
def test_begins_with_all_cores_but_not_above_the_quota(
    monkeypatch: pytest.MonkeyPatch, quota: float, expected: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads_module, "quota", lambda: quota)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    assert Threads.of(None).number == expected


def test_a_training_measures_once() -> None:
    threads, cores = following(4, 2.0)
    pauses = list[float]()
    assert threads.settle(pauses.append) == 2
    assert pauses == [WINDOW]
    assert cores.now == WINDOW


def test_the_number_holds_in_the_thread_that_applies_it() -> None:
    threads, cores = following(3, 3.0)
    seen = list[int]()

    def compute() -> None:
        threads.follow()
        seen.append(torch.get_num_threads())
        cores.free = 1.0
        threads.follow()
        seen.append(torch.get_num_threads())
        seen.append(threading.get_native_id())

    with computing_with(None):
        thread = threading.Thread(target=compute)
        thread.start()
        thread.join()
    assert seen[:2] == [3, 1]
    assert cores.own == {seen[2]}


SCRIPT = """
import os, threading, torch
from gfn4rec.training.threads import Threads
torch.set_num_threads(3)
matrix, vector = torch.rand(1000, 1000), torch.rand(2_000_000)
def compute(number):
    Threads(number).apply()
    before = len(os.listdir("/proc/self/task"))
    matrix @ matrix
    vector.exp()
    print(len(os.listdir("/proc/self/task")) - before)
for number in (1, 3):
    thread = threading.Thread(target=compute, args=(number,))
    thread.start()
    thread.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads of a process by /proc")
def test_products_and_elementwise_operations_start_as_many_threads() -> None:
    """PyTorch keeps one number for the process and another for the calling thread; both must be set."""
    script = [sys.executable, "-c", SCRIPT]
    assert subprocess.run(script, check=True, capture_output=True, text=True).stdout.split() == ["0", "2"]


def test_a_number_for_a_block() -> None:
    before = torch.get_num_threads()
    with computing_with(before + 1):
        assert torch.get_num_threads() == before + 1
        with computing_with(None):
            assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def _never(_: float) -> None:
    raise AssertionError

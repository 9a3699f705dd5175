"""How many cores are free, from readings whose truth is written down."""

import os
import sys
import threading
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from gfn4rec.training.cores import WINDOW, FreeCores, Usage, busy_ticks, num_cores, quota, read_usage

STAT = """cpu  99 99 99 99 99 99 99 99 99 99
cpu0 1 20 300 4000 50000 600000 7000000 80000000 5 5
cpu1 2 0 0 9 9 0 0 0 2 0
cpu12 1000 0 0 0 0 0 0 0 0 0
intr 5 6 7
"""
LINUX = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="reads the counters of Linux")


class Machine:
    """A clock and counters that a test sets."""

    def __init__(self) -> None:
        self.now, self.others, self.own = 50.0, 7.0, 3.0
        self.is_known = True
        self.computing: list[Collection[int]] = []

    def read(self, computing: Collection[int]) -> Usage | None:
        self.computing.append(computing)
        return Usage(self.others + self.own, self.own) if self.is_known else None

    def run(self, seconds: float, others: float, own: float = 0.0) -> None:
        """Let time pass in which others and this process keep so many cores busy."""
        self.now += seconds
        self.others, self.own = self.others + others * seconds, self.own + own * seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def free(machine: Machine) -> FreeCores:
    return FreeCores(4, machine.read, lambda: machine.now)


@pytest.mark.parametrize(("others", "own"), [(0.0, 0.0), (0.0, 4.0), (1.0, 3.0), (2.5, 1.5), (4.0, 0.0)])
def test_what_others_do_not_use_is_free(machine: Machine, free: FreeCores, others: float, own: float) -> None:
    machine.run(2.0, others, own)
    assert free.measure() == pytest.approx(4 - others)


def test_a_measurement_covers_the_time_since_the_one_before(machine: Machine, free: FreeCores) -> None:
    machine.run(1.0, others=4.0)
    assert free.measure() == pytest.approx(0.0)
    machine.run(0.9 * WINDOW, others=1.0)
    assert free.measure() is None
    machine.run(0.1 * WINDOW + 1e-9, others=1.0)
    assert free.measure() == pytest.approx(3.0)


def test_counters_that_lag_make_no_cores(machine: Machine, free: FreeCores) -> None:
    machine.run(1.0, others=-0.1, own=1.0)
    assert free.measure() == 4.0


def test_where_the_system_tells_nothing_all_are_free(machine: Machine, free: FreeCores) -> None:
    machine.is_known = False
    machine.run(1.0, others=4.0)
    assert free.measure() == 4.0
    machine.is_known = True
    machine.run(1.0, others=4.0)
    assert free.measure() == 4.0  # nothing to compare with
    machine.run(1.0, others=3.0)
    assert free.measure() == pytest.approx(1.0)


def test_a_thread_that_begins_to_compute_starts_a_new_measurement(machine: Machine, free: FreeCores) -> None:
    machine.run(1.0, others=4.0)
    free.count_own(17)
    assert free.measure() is None
    machine.run(1.0, others=1.0)
    free.count_own(17)  # known: goes on measuring
    assert free.measure() == pytest.approx(3.0)
    assert machine.computing == [frozenset(), {17}, {17}]


def test_busy_time_is_that_of_the_own_cores_without_waiting() -> None:
    assert busy_ticks(STAT, [0]) == 1 + 20 + 300 + 600_000 + 7_000_000 + 80_000_000
    assert busy_ticks(STAT, [1]) == 2
    assert busy_ticks(STAT, [1, 12]) == 1002
    assert busy_ticks(STAT, [1, 7]) == 2  # a core that is switched off


@LINUX
def test_own_time_is_that_of_computing_threads() -> None:
    """A thread that does not compute counts among the others, as the event loop of a service."""
    has_worked, may_end = threading.Event(), threading.Event()

    def work() -> None:
        while time.thread_time() < 0.3:
            pass
        has_worked.set()
        may_end.wait(60)

    helper = threading.Thread(target=work)
    main = {threading.get_native_id()}
    before, before_all, own = read_usage(main), read_usage(()), time.thread_time()
    helper.start()
    assert has_worked.wait(60)
    after, after_all, own = read_usage(main), read_usage(()), time.thread_time() - own
    may_end.set()
    helper.join()
    assert before is not None
    assert after is not None
    assert before_all is not None
    assert after_all is not None
    assert after.own - before.own == pytest.approx(own, abs=0.1)
    assert after_all.own - before_all.own >= 0.29 + own
    assert after.everything - before.everything >= 0.25


@pytest.mark.skipif(sys.platform != "linux", reason="binds a process to a core")
def test_only_cores_that_may_be_used_count() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert num_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert num_cores() == len(before)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("max 100000", "150000 100000", 1.5),
        ("200000 100000", "max 100000", 2.0),
        ("200000 100000", "50000 10000", 2.0),
        ("max 100000", "max 100000", float("inf")),
        ("damaged", None, float("inf")),
    ],
)
def test_quota_is_the_smallest_of_the_groups_around(
    tmp_path: Path, outer: str, inner: str | None, expected: float
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "cpu.max").write_text(f"{outer}\n")
    if inner is not None:
        (tmp_path / "a" / "b" / "cpu.max").write_text(f"{inner}\n")
    own = tmp_path / "cgroup"
    own.write_text("4:memory:/elsewhere\n0::/a/b\n")
    assert quota(tmp_path, own) == expected
    assert quota(tmp_path, tmp_path / "nothing") == float("inf")

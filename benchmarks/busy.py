"""What a busy neighbour costs: a training step, a served batch and an evaluation batch, quiet and beside it.

    python benchmarks/busy.py [--seconds 3] [--rounds 2]

The neighbour is one process that counts. Three ways to choose threads take turns, each in a process of its own:

    adaptive    as the commands do it: training measures at its start, the others follow the free cores
    fixed       as the commands do it with `--threads`, here with as many as there are cores
    spinning    the same with the usual OpenMP, whose threads spin longer while they wait

Run it on a machine that has nothing else to do; the first line says how many of its cores are free.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable

import torch
from policy import new_batch, new_policy

from gfn4rec.training.config import OnlineConfig
from gfn4rec.training.cores import FreeCores, num_cores
from gfn4rec.training.learner import Learner
from gfn4rec.training.process import set_up_process
from gfn4rec.training.threads import PATIENCE, Threads

NUM_ITEMS, USERS, REQUESTS = 3043, 128, 16
PARTS = {"training step": "train", "served batch": "serve", "evaluation batch": "evaluate"}
MODES = {"adaptive": "600", "fixed": "600", "spinning": None}  # and how long OpenMP's threads spin while they wait
MOST = 1.6  # times the quiet time


class Worker:
    """Measures the parts with one way to choose threads."""

    def __init__(self, mode: str) -> None:
        self.threads = Threads.of(None if mode == "adaptive" else num_cores())
        policy, batch, asked = new_policy(NUM_ITEMS), new_batch(NUM_ITEMS, USERS), new_batch(NUM_ITEMS, REQUESTS)
        learner, generator = Learner(policy, OnlineConfig()), torch.Generator().manual_seed(0)
        self.actions: dict[str, Callable[[], object]] = {
            "train": lambda: learner.learn(batch),
            "serve": lambda: policy.recommend(asked.request, generator),
            "evaluate": lambda: policy.recommend(batch.request, generator),
        }

    def measure(self, part: str, seconds: float) -> tuple[int, list[float]]:
        """Return the number of threads in the end, and the seconds of each repetition, once the number is chosen."""
        is_training, times = part == "train", list[float]()
        if is_training:  # as at the start of a run
            self.threads.settle()
        self.threads.apply()
        begin = time.perf_counter() + (0.2 if is_training or self.threads.is_fixed else PATIENCE + 1.5)
        while (start := time.perf_counter()) < begin + seconds or len(times) < 5:
            if not is_training:
                self.threads.follow()
            self.actions[part]()
            if start > begin:
                times.append(time.perf_counter() - start)
        return self.threads.number, times


def work(mode: str) -> None:
    """Measure what is asked for on standard input."""
    set_up_process()
    worker = Worker(mode)
    for action in worker.actions.values():
        action()
    print("ready", flush=True)
    for line in sys.stdin:
        part, seconds = line.split()
        print(json.dumps(worker.measure(part, float(seconds))), flush=True)


def start(mode: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    spins = MODES[mode]
    environment |= {} if spins is None else {"GOMP_SPINCOUNT": spins}
    command = [sys.executable, __file__, "--mode", mode]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(worker: subprocess.Popen[str], part: str, seconds: float) -> tuple[int, list[float]]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{part} {seconds}\n")
    worker.stdin.flush()
    number, times = json.loads(worker.stdout.readline())
    return number, times


def compare(seconds: float, rounds: int) -> None:
    workers = {mode: start(mode) for mode in MODES}
    for worker in workers.values():
        assert worker.stdout is not None
        worker.stdout.readline()
    free = FreeCores(num_cores())
    time.sleep(1.0)
    print(f"{free.measure():.2f} of {num_cores()} cores are free; {NUM_ITEMS:,} items, {USERS} users, slates of 6")
    times: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    numbers: dict[tuple[str, str, bool], int] = {}
    for _ in range(rounds):
        for is_busy in (False, True):
            neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if is_busy else None
            for mode, worker in workers.items():
                for part in PARTS.values():
                    numbers[part, mode, is_busy], measured = ask(worker, part, seconds)
                    times[part, mode, is_busy] += measured
            if neighbour is not None:
                neighbour.kill()
                neighbour.wait()
    for worker in workers.values():
        worker.kill()
        worker.wait()
    report(times, numbers)


def report(times: dict[tuple[str, str, bool], list[float]], numbers: dict[tuple[str, str, bool], int]) -> None:
    medians = {key: 1e3 * sorted(values)[len(values) // 2] for key, values in times.items()}
    print(f"{'':<18}{'threads':<10}{'quiet':>22}{'beside a neighbour':>24}{'ratio':>8}")
    for title, part in PARTS.items():
        for mode in MODES:
            quiet, busy = (part, mode, False), (part, mode, True)
            ratio = medians[busy] / medians[quiet]
            verdict = "" if mode != "adaptive" else "  at most 1.6" if ratio <= MOST else "  MORE THAN 1.6"
            cells = [f"{medians[key]:.1f} ms with {numbers[key]}" for key in (quiet, busy)]
            print(f"{title:<18}{mode:<10}{cells[0]:>22}{cells[1]:>24}{ratio:>8.2f}{verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.mode:
        work(arguments.mode)
    else:
        compare(arguments.seconds, arguments.rounds)


if __name__ == "__main__":
    main()

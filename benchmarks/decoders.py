"""The time of decoders over a trained policy, beside that of its greedy slates.

    python benchmarks/decoders.py RUN [--data DATA] [--users 128] [--rounds 5]

Times are the best of several rounds, in one thread. Local search starts from greedy slates.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from gfn4rec import OpenedRun, Sampling, UserError, build_decoder

DECODERS: dict[str, tuple[str, dict[str, object]]] = {
    "mmr by vectors": ("mmr", {"similarity": "vectors"}),
    "mmr by features": ("mmr", {"similarity": "features"}),
    "dpp by vectors": ("dpp", {"similarity": "vectors"}),
    "dpp by features": ("dpp", {"similarity": "features"}),
    "best of 16": ("best-of-n", {"num_slates": 16}),
    "local search": ("local-search", {}),
}


def best_time(work: Callable[[], object], rounds: int) -> float:
    """Return the shortest time of several calls, after one that is not measured."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--users", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    opened = OpenedRun.open(arguments.run, arguments.data)
    policy, generator, greedy = opened.policy, torch.Generator(), Sampling(greedy=True)
    users = torch.linspace(1, opened.data.num_users, arguments.users).long()
    request = opened.data.latest(users)
    print(f"{opened.settings.policy}: {arguments.users} users, {opened.data.num_items:,} items")
    seconds = best_time(lambda: policy.recommend(request, sampling=greedy), arguments.rounds)
    print(f"{'greedy':16} {1e3 * seconds:8.1f} ms")
    for title, (name, settings) in DECODERS.items():
        decoder = build_decoder(name, settings)
        sampling = greedy if name == "local-search" else Sampling()
        try:
            work = partial(decoder.recommend, policy, request, generator, sampling)
            seconds = best_time(work, arguments.rounds)
        except UserError:
            continue  # the policy does not have what it needs
        print(f"{title:16} {1e3 * seconds:8.1f} ms")


if __name__ == "__main__":
    main()

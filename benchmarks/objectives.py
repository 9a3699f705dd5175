"""What a learning step costs with each objective, as a ratio to trajectory balance at the same batch.

    python benchmarks/objectives.py [--items 3043] [--batch 512] [--rounds 15]

The objectives take turns, so that all see the same machine.
"""

import argparse
import time

import torch

from gfn4rec.objectives import OBJECTIVES
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import FeatureTensors, Request, SlateBatch
from gfn4rec.training.config import OnlineConfig
from gfn4rec.training.group import Group
from gfn4rec.training.learner import Learner

NO_FEATURES = FeatureTensors({}, {}, {}, {})


def make_batch(num_items: int, size: int) -> SlateBatch:
    generator = torch.Generator().manual_seed(0)
    history_BH = torch.randint(1, num_items + 1, (size, 50), generator=generator)
    request = Request(torch.arange(size) % 1000 + 1, history_BH, torch.zeros(size, 50, 3))
    slate_BK = torch.rand(size, num_items, generator=generator).topk(6, dim=1).indices + 1
    response_BKR = torch.randint(0, 2, (size, 6, 3), generator=generator).float()
    item_reward_BK = response_BKR.sum(dim=2)
    return SlateBatch(request, slate_BK, response_BKR, item_reward_BK, item_reward_BK.mean(dim=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=3043)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    count_N = torch.ones(arguments.items + 1, dtype=torch.int64)
    catalogue = Catalogue(1000, arguments.items, 6, torch.ones(3), NO_FEATURES, NO_FEATURES, count_N)
    batch = make_batch(arguments.items, arguments.batch)
    settings: dict[str, tuple[str, dict[str, object]]] = {"the paper's tb": ("gfn", {})}
    settings |= {name: ("gfn-energy", {"objective": name}) for name in OBJECTIVES}
    learners = {
        label: Learner(build_policy(policy, catalogue, values), OnlineConfig(), 100, 0, Group())
        for label, (policy, values) in settings.items()
    }
    times: dict[str, list[float]] = {label: [] for label in learners}
    for _ in range(arguments.rounds):
        for label, learner in learners.items():
            start = time.perf_counter()
            learner.learn(batch)
            times[label].append(time.perf_counter() - start)
    medians = {label: sorted(each)[len(each) // 2] for label, each in times.items()}
    print(f"{arguments.items:,} items, batch {arguments.batch}, {torch.get_num_threads()} threads")
    for label, median in medians.items():
        best = min(times[label]) / min(times["the paper's tb"])
        print(
            f"{label:<16} {1e3 * median:7.1f} ms   {median / medians[next(iter(medians))]:.2f} of tb ({best:.2f} best)"
        )


if __name__ == "__main__":
    main()

"""The time of a learning step and of recommending, policy beside policy, in alternation.

    python benchmarks/learning_step.py --data DATA [--policies gfn-energy,gfn-prior] [--rounds 20]

Batches are logged slates that count as shown ones, so the prior of `gfn-prior` is not trained, as in online learning.
"""

import argparse
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.training.learner import Learner, LearnerConfig

BATCH, USERS = 512, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--policies", default="gfn-energy,gfn-prior")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    data = SlateData.open(arguments.data)
    catalogue, slates = Catalogue.of(data), data.split("train")
    learners = {name: Learner(build_policy(name, catalogue), LearnerConfig()) for name in arguments.policies.split(",")}
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    generator = torch.Generator().manual_seed(0)
    for number in range(arguments.rounds):
        batch = replace(data.slates(slates[number * BATCH : (number + 1) * BATCH]), is_logged=False)
        for name, learner in learners.items():
            moments = [time.perf_counter()]
            learner.learn(batch)
            moments.append(time.perf_counter())
            learner.policy.recommend(batch.request[:USERS], generator)
            moments.append(time.perf_counter())
            times[name, "learning"].append(moments[1] - moments[0])
            times[name, "recommending"].append(moments[2] - moments[1])
    medians = {key: sorted(values)[len(values) // 2] for key, values in times.items()}
    print(
        f"{torch.get_num_threads()} threads, {data.num_items:,} items; learning from {BATCH}, recommending to {USERS}"
    )
    first = next(iter(learners))
    for (name, part), median in medians.items():
        print(f"{name}: {part} {1e3 * median:.0f} ms, {median / medians[first, part]:.2f} times that of {first}")


if __name__ == "__main__":
    main()

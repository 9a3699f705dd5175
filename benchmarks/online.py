"""How many online steps a second: one inference step, one environment step, one learning step.

    python benchmarks/online.py [--data DATA --simulator SIM] [--steps 60]

With DATA and SIM (a prepared ML-1M and its simulator) at their size; always at KuaiRand-1K's size, 1,000 users and
69,219 items, with generated features and an untrained response model, whose speed is that of a trained one.
"""

import argparse
import time
from collections import defaultdict
from pathlib import Path

import torch
from policy import product_speed

from gfn4rec.data.dataset import SlateData
from gfn4rec.nn.request_encoder import RequestEncoderConfig
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import FeatureTensors, Request
from gfn4rec.simulator.checkpoint import load_simulator
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.response_model import ResponseModel, ResponseModelConfig
from gfn4rec.training.config import OnlineConfig
from gfn4rec.training.learner import Learner
from gfn4rec.training.replay import ReplayBuffer

NUM_USERS, NUM_ITEMS, HISTORY, NUM_TAGS = 1000, 69_219, 50, 48


class GeneratedData:
    """A log of KuaiRand-1K's size in memory: as much of `SlateData` as an environment asks for."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.num_users, self.num_items, self.slate_size, self.num_rows = NUM_USERS, NUM_ITEMS, 6, 1_000_000
        self.behaviours = ("click", "view", "like", "comment", "forward", "follow", "hate")
        self.weight_R = torch.tensor([1.0] * 6 + [-1.0])
        self.device, self.history_length = torch.device("cpu"), HISTORY
        self._item_row = torch.randint(1, NUM_ITEMS + 1, (self.num_rows,), generator=generator)
        self._response_row = torch.randint(0, 2, (self.num_rows, 7), generator=generator).float()
        tags = torch.randint(0, NUM_TAGS, (NUM_ITEMS + 1, 3), generator=generator)
        kinds = torch.randint(1, 8, (NUM_ITEMS + 1,), generator=generator)
        self.item_features = FeatureTensors({"kind": kinds}, {"tag": tags}, {}, {"kind": 8, "tag": NUM_TAGS})
        levels = {f"level{n}": torch.randint(1, 9, (NUM_USERS + 1,), generator=generator) for n in range(8)}
        self.user_features = FeatureTensors(levels, {}, {}, dict.fromkeys(levels, 9))

    def requests(self, row_B: torch.Tensor) -> Request:
        index_BH = (row_B[:, None] + torch.arange(HISTORY)) % self.num_rows
        return Request(row_B % NUM_USERS + 1, self._item_row[index_BH], self._response_row[index_BH])


def measure(name: str, catalogue: Catalogue, environment: UserEnvironment, num_steps: int) -> None:
    policy, config = build_policy("gfn", catalogue), OnlineConfig()
    replay = ReplayBuffer(config.buffer_size, catalogue.weight_R, environment.config.num_users)
    learner = Learner(policy, config, 0, num_steps)
    generator, request = torch.Generator().manual_seed(0), environment.request
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(num_steps):
        moments = [time.perf_counter()]
        proposal = policy.recommend(request, generator)
        moments.append(time.perf_counter())
        feedback = environment.step(proposal.slate_BK)
        replay.add(request, proposal.slate_BK, feedback.response_BKR)
        moments.append(time.perf_counter())
        learner.learn(replay.sample(config.learning_batch, config.newest_share, generator))
        moments.append(time.perf_counter())
        request = feedback.next_request
        for part, start, end in zip(("inference", "environment", "learning"), moments, moments[1:], strict=False):
            times[part].append(end - start)
        times["step"].append(moments[-1] - moments[0])
    medians = {part: sorted(values)[len(values) // 2] for part, values in times.items()}
    parts = ", ".join(f"{part} {1e3 * medians[part]:.0f} ms" for part in ("inference", "environment", "learning"))
    print(
        f"{name}: {1 / medians['step']:.2f} steps a second by the median ({1 / min(times['step']):.2f} best): {parts}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--simulator", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, 128 users, slates of 6, batches of 128")
    print(f"matrix products on this machine: {product_speed() / 1e9:.0f} GFLOP/s")
    if arguments.data:
        data = SlateData.open(arguments.data)
        model, manifest = load_simulator(arguments.simulator, data)
        environment = UserEnvironment(data, model, EnvironmentConfig(rho=manifest.rho), seed=0)
        measure(f"{data.num_items:,} items", Catalogue.of(data), environment, arguments.steps)
    generated = GeneratedData()
    sizes = (generated.num_users, generated.num_items, len(generated.behaviours))
    features = (generated.user_features, generated.item_features)
    model = ResponseModel(*sizes, *features, ResponseModelConfig(**RequestEncoderConfig().model_dump())).freeze()
    environment = UserEnvironment(generated, model, EnvironmentConfig(rho=0.1), seed=0)  # type: ignore[arg-type]
    catalogue = Catalogue(
        NUM_USERS, NUM_ITEMS, 6, generated.weight_R, *features, torch.ones(NUM_ITEMS + 1, dtype=torch.int64)
    )
    measure(f"{NUM_ITEMS:,} items", catalogue, environment, max(10, arguments.steps // 3))


if __name__ == "__main__":
    main()

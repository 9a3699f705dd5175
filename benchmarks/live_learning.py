"""Whether a live service learns from its users, and as much as the loop that trains in one process.

    python benchmarks/live_learning.py [--seconds 600] [--dir build/live-learning]

It prepares the demo, serves it with the demo's settings, lets the demo's simulated users come for N seconds, and prints
the mean reward per slate of the first and of the last minute with 95 % intervals, and the number of versions that were
promoted. Beside it, the loop of `gfn4rec train online` begins with the same weights, data and simulator, and learns
with the same settings from as many slates of as many users, who stay as in the service. Its reward is that of its last
slates, as many as in the service's last minute. At the end come the expected rewards of all weights in an environment
that neither has learned in: users who come with the history of the log and leave after five slates.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_harness import free_port

from gfn4rec.api import train
from gfn4rec.cli.compute import choose_device
from gfn4rec.client import Client
from gfn4rec.live.config import LearnerSettings
from gfn4rec.live.demo import CHANGES, LEARNER, POLICY, SERVICE, TRAFFIC, Demo
from gfn4rec.live.growth import untrained_policy
from gfn4rec.live.learning import learner_config
from gfn4rec.live.supervisor import this_command
from gfn4rec.live.versions import Versions
from gfn4rec.policies.base import Policy
from gfn4rec.simulator.checkpoint import SimulatorFiles
from gfn4rec.training.config import OnlineConfig, UsersConfig, resolve_settings
from gfn4rec.training.evaluator import Evaluator
from gfn4rec.training.opened_run import OpenedRun, Users
from gfn4rec.training.run import Run

EVALUATED, SHARE = 20, 0.05  # batches of an evaluation; what both may differ by
USERS = int(TRAFFIC[TRAFFIC.index("--users") + 1])


@dataclass(frozen=True)
class Served:
    """What became of the service."""

    traffic: dict[str, Any]
    version: int
    num_promoted: int
    samples: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--dir", type=Path, default=Path("build/live-learning"))
    options = parser.parse_args()
    choose_device("cpu", 1)
    demo = Demo(options.dir)
    began = time.monotonic()
    if not demo.prepare(print, progress=False):
        return 1
    print(f"prepared in {time.monotonic() - began:.0f} s", flush=True)
    live, loop = (options.dir / f"{name}-{time.strftime('%H%M%S')}" for name in ("live", "loop"))
    served = serve(demo, live, options.seconds)
    has_risen = print_traffic(served)
    learn_in_loop(demo, loop, served.samples)
    return 0 if print_comparison(demo, live, loop, served) and has_risen else 1


def serve(demo: Demo, live: Path, seconds: float) -> Served:
    """Serve the demo's run to simulated users, each side in processes of their own."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**SERVICE, **LEARNER}.items()]
    command = this_command("serve", str(demo.run), "--live", str(live), f"--port={port}", *options)
    with process(command), Client(url, patience=300) as client:
        client.wait_until_ready()
        users = this_command("live", "simulate", url, "--simulator", str(demo.simulator), *TRAFFIC)
        answer = subprocess.run([*users, f"--seconds={seconds}", "--json"], stdout=subprocess.PIPE, check=True)
        status = client.status()
    versions = [version for version in status.versions.versions if version.promoted is not None]
    assert status.versions.promoted is not None
    return Served(json.loads(answer.stdout), status.versions.promoted, len(versions), status.samples)


@contextmanager
def process(command: list[str]) -> Iterator[None]:
    """Run a program, and ask it to end afterwards."""
    running = subprocess.Popen(command)
    try:
        yield
    finally:
        running.terminate()
        running.wait()


def learn_in_loop(demo: Demo, out: Path, slates: int) -> None:
    """Train online in one process from the demo's weights: as many users, slates and learning steps as in the service.

    All users are shown a slate at once, and then come the learning steps that as many slates bring in the service.
    """
    settings = LearnerSettings(**LEARNER)  # type: ignore[arg-type]
    learner, num_steps = learner_config(POLICY, settings), max(1, round(slates / USERS))
    changes = {name: value for name, value in learner.model_dump().items() if name in OnlineConfig.model_fields}
    changes |= {
        **CHANGES,
        "num_users": USERS,
        "episode_length": num_steps,
        "num_steps": num_steps,
        "learning_steps": round(USERS / settings.samples_per_step),
        "newest_window": learner.learning_batch,
        "warmup_steps": 0,
        "evaluate_every": num_steps + 1,
        "evaluation_batches": 1,
        "final_batches": 1,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    train(resolve_settings("online", POLICY, changes=changes), demo.data, demo.simulator, out, start=demo.run)


def print_traffic(served: Served) -> bool:
    """Print how the reward has changed, and return whether it has risen beyond chance."""
    summary = served.traffic["summary"]
    for name in ("first_minute", "last_minute", "whole"):
        period = summary[name]
        interval = f"{period['low']:.4f} to {period['high']:.4f}"
        print(f"{name.replace('_', ' ')}: reward {period['reward']:.4f} ({interval}), {period['slates']:,} slates")
    print(f"{served.num_promoted} versions promoted; {served.samples:,} samples", flush=True)
    return bool(summary["last_minute"]["low"] > summary["first_minute"]["high"])


def print_comparison(demo: Demo, live: Path, loop: Path, served: Served) -> bool:
    """Print how far both have come, and return whether the service has come as far as the loop."""
    minute = served.traffic["summary"]["last_minute"]
    rewards = [value for line in Run.open(loop).metrics() if isinstance(value := line.get("reward"), float)]
    last = rewards[-max(1, round(minute["slates"] / USERS)) :]
    at_end = sum(last) / len(last)
    print(f"loop in one process, last {len(last) * USERS:,} slates: reward {at_end:.4f}", end="; ")
    print(f"the service's last minute is {minute['reward'] / at_end:.3f} of it")
    opened = OpenedRun.open(demo.run)
    users = Users.load(SimulatorFiles.open(demo.simulator), opened.data, UsersConfig())
    _, policy = Versions(live / "versions").load(
        served.version, lambda manifest: untrained_policy(opened.new_policy(), opened.data, manifest.num_items)
    )
    policies = {"start": opened.policy, "service": policy, "loop": OpenedRun.open(loop).policy}
    print("for new users:", ", ".join(f"{name} {reward(policy, users):.4f}" for name, policy in policies.items()))
    return bool(minute["reward"] >= (1 - SHARE) * at_end)


def reward(policy: Policy, users: Users) -> float:
    """Return the mean expected reward of sampled slates."""
    return Evaluator(policy, users, "online", 0).evaluate(EVALUATED, 0)["sampled"]["expected_reward"]


if __name__ == "__main__":
    sys.exit(main())

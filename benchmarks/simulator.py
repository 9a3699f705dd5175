"""Measure how fast the response model trains, beside a simple implementation, and how fast the environment steps.

    python benchmarks/simulator.py DATA [--reference WEIGHTS]

DATA is a prepared data set. The simple implementation encodes one history of 50 items per log row, in batches. Both
train the same model for the same number of seconds.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from gfn4rec.data.dataset import SlateData
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.oracle import random_slates
from gfn4rec.simulator.protocol import UserModel
from gfn4rec.simulator.reference import read_reference
from gfn4rec.simulator.response_model import ResponseModel
from gfn4rec.training.response_loop import (
    ResponseTrainingConfig,
    TrainingLog,
    window_logits,
    window_targets,
)

CONFIG = ResponseTrainingConfig()
BATCH_WINDOWS = 128


def new_model(data: SlateData) -> ResponseModel:
    torch.manual_seed(0)
    sizes = (data.num_users, data.num_items, len(data.behaviours), data.user_features, data.item_features)
    return ResponseModel(*sizes, CONFIG.model)


def whole_sequences(data: SlateData, seconds: float) -> float:
    """Return the rows per second of the training loop's own step."""
    model, log = new_model(data), TrainingLog.of(data, CONFIG)
    log = replace(log, is_train_row=torch.ones(data.num_rows, dtype=torch.bool))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)

    def step() -> int:
        chosen = torch.randint(len(log.windows), (BATCH_WINDOWS,), generator=generator)
        targets = window_targets(log, chosen, generator)
        assert targets is not None
        logit, _ = window_logits(model, targets)
        loss = F.binary_cross_entropy_with_logits(logit, targets.label_XR)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return len(targets.label_XR)

    return rows_per_second(step, seconds)


def one_history_per_row(data: SlateData, seconds: float, batch_size: int = 256) -> float:
    """Return the rows per second of the simple implementation."""
    model = new_model(data)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)

    def step() -> int:
        rows = torch.randint(data.num_rows, (batch_size,), generator=generator)
        states = model.encoder.prefixes(data.requests(rows))[:, -1]
        logit = model.logits(model.state_vectors(states), model.encoder.items(data.item_at(rows)))
        loss = F.binary_cross_entropy_with_logits(logit, data.response_at(rows))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return batch_size

    return rows_per_second(step, seconds)


def rows_per_second(step: Callable[[], int], seconds: float) -> float:
    """Return how many rows per second `step` trains on, which returns the rows of one step."""
    for _ in range(3):
        step()
    num_rows, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        num_rows += step()
    return num_rows / (time.perf_counter() - start)


def time_steps(data: SlateData, model: UserModel, name: str) -> None:
    """Print the milliseconds of a step with 128 users and slates of six items."""
    environment = UserEnvironment(data, model, EnvironmentConfig(slate_size=6))
    generator = torch.Generator().manual_seed(0)
    request, times = environment.request, []
    for _ in range(60):
        slate_BK = random_slates(environment, request, generator)
        start = time.perf_counter()
        request = environment.step(slate_BK).next_request
        times.append(time.perf_counter() - start)
    times.sort()
    print(f"env.step, {name:20s} {times[30] * 1e3:6.2f} ms median, {times[55] * 1e3:6.2f} ms for the slowest in ten")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--reference", type=Path, help="the published weights")
    parser.add_argument("--seconds", type=float, default=20.0, help="the seconds of each measurement")
    options = parser.parse_args()
    data = SlateData.open(options.data)
    plain = one_history_per_row(data, options.seconds)
    whole = whole_sequences(data, options.seconds)
    print(f"one history per record {plain:10,.0f} records per second")
    print(f"whole sequences        {whole:10,.0f} records per second, {whole / plain:.1f} times as many")
    print(f"ten passes over {data.num_rows:,} records: {10 * data.num_rows / whole / 60:.1f} minutes")
    time_steps(data, new_model(data).freeze(), "response model")
    if options.reference:
        time_steps(data, read_reference(options.reference, data), "published model")


if __name__ == "__main__":
    main()

"""What a live service attains: latency and rate, feedback, the cost of version swaps, memory, time to a version.

    python benchmarks/live.py RUN [--data DIR] [--rate 100] [--seconds 600] [--search-seconds 30] [--json FILE]

RUN is a trained run. `gfn4rec serve` and its learner run as processes of their own. Requests arrive at random times
that do not wait for answers (a Poisson process), and a latency counts from the moment at which its request was due,
so that a service that falls behind cannot hide it. The generator is one process with raw sockets; how late it was
itself is printed. A fifth of the requests exclude what the user has seen. Each shown item gets feedback with a
probability of 0.1, after a second on average, so that the learner learns and publishes meanwhile.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

import sqlalchemy as sa
from fault_harness import Service
from load_harness import Json, Load, Phase, feedback_rate, growth_per_hour, sample_memory

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.tables import samples
from gfn4rec.training.run import Run

OPTIONS: Final = {"--wait": 5.0, "--warmup-samples": 0, "--publish-seconds": 20.0}
GOAL_P99: Final = 80.0  # milliseconds, of a rate that counts as sustained
_WARM_UP: Final = 5.0
_STEP: Final = 1.25  # between the rates that are tried
_PROBE_PAUSE: Final = 10.0  # seconds between events whose way to a version is timed
_POLL: Final = 0.5


def main() -> int:
    options = _parser().parse_args()
    data = options.data or Path(Run.open(options.run).manifest.data_path)
    with tempfile.TemporaryDirectory() as name:
        live = Path(name) / "live"
        live.mkdir()
        service = Service(options.run, live, str(live / "store.db"), options={**OPTIONS, "--data": data})
        try:
            service.start()
            result = asyncio.run(measure(service, SlateData.open(data, 1), live / "store.db", options))
            service.stop()
        finally:
            service.remove()
    for key, value in result.items():
        print(f"{key:28} {value}")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2))
    return 0


async def measure(service: Service, data: SlateData, store: Path, options: argparse.Namespace) -> dict[str, Json]:
    """Return all figures."""
    load = Load(service.url, [str(user) for user in data.users["id"].to_list()], data.behaviours[0], options.seed)
    await load.run(options.rate, _WARM_UP)
    memory: list[tuple[float, float]] = []
    ways: list[float] = []
    cpu = service.cpu_seconds()
    beside = [
        asyncio.create_task(sample_memory(service.memory, memory)),
        asyncio.create_task(time_to_versions(service, store, load, ways)),
    ]
    fixed = await load.run(options.rate, options.seconds)
    cpu = service.cpu_seconds() - cpu
    for task in beside:
        task.cancel()
    figures = describe(fixed) | {
        "API processor seconds/s": round(cpu / fixed.seconds, 2),
        "feedback errors": load.feedback_errors,
        "memory MB": round(memory[-1][1], 1),
        "memory growth MB/h": _rounded(growth_per_hour(memory)),
        "feedback to version s": _rounded(median(ways) if ways else None),
        "timed events": len(ways),
    }
    figures["sustained /s"], figures["tried"] = await largest_rate(load, options)
    rate, errors = await feedback_rate(load, options.feedback_seconds)
    load.connections.close()
    return figures | {"feedback events/s": round(rate), "feedback batch errors": errors}


def describe(phase: Phase) -> dict[str, Json]:
    """Return what happened at a fixed rate."""
    near, others = phase.near_swaps()
    return {
        "rate /s": phase.rate,
        "answered /s": round(len(phase.latency) / phase.seconds, 1),
        "errors": phase.errors,
        "p50 ms": _rounded(phase.percentile(0.5)),
        "p99 ms": _rounded(phase.percentile(0.99)),
        "generator late p99 ms": _rounded(phase.percentile(0.99, phase.lateness)),
        "version swaps": phase.num_swaps,
        "p99 near swaps ms": _rounded(phase.percentile(0.99, near)),
        "p99 elsewhere ms": _rounded(phase.percentile(0.99, others)),
    }


async def largest_rate(load: Load, options: argparse.Namespace) -> tuple[float | None, list[Json]]:
    """Return the largest of growing rates that is answered without errors and with a p99 within the goal."""
    rate, best, tried = options.rate / _STEP**2, None, []
    while True:
        phase = await load.run(rate, options.search_seconds)
        p99 = phase.percentile(0.99)
        tried.append({"rate": round(rate), "p50 ms": _rounded(phase.percentile(0.5)), "p99 ms": _rounded(p99)})
        if phase.errors or p99 is None or p99 > GOAL_P99:
            return best, tried
        best, rate = round(rate), rate * _STEP


async def time_to_versions(service: Service, store: Path, load: Load, ways: list[float]) -> None:
    """Time events from their acknowledgement to a promoted version that has learned from them, until cancelled."""
    opened = Store(str(store), read_only=True)
    waiting: dict[str, float] = {}
    began = -_PROBE_PAUSE
    try:
        while True:
            if time.perf_counter() - began > _PROBE_PAUSE and load.slates:
                began = time.perf_counter()
                (event,) = load.events(1)
                decision, items = load.slates[-1]
                event |= {"decision_id": decision, "item": items[0]}
                status, _ = await load.connections.post("/v1/feedback", {"events": [event]})
                if status == 200:
                    waiting[decision] = time.perf_counter()
            for decision in await asyncio.to_thread(_known_to_version, service, opened, list(waiting)):
                ways.append(time.perf_counter() - waiting.pop(decision))
            await asyncio.sleep(_POLL)
    finally:
        opened.close()


def _known_to_version(service: Service, store: Store, decisions: list[str]) -> list[str]:
    """Return those of some decisions that the promoted version has learned from."""
    versions = service.get("/v1/versions")
    promoted = versions["promoted"]
    learned = next(row["trained_to_seq"] for row in versions["versions"] if row["version"] == promoted)
    query = sa.select(samples.c.decision_id).where(samples.c.decision_id.in_(decisions), samples.c.seq <= learned)
    with store.read() as connection:
        return list(connection.scalars(query))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, help="the data set, if it was moved")
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second")
    parser.add_argument("--seconds", type=float, default=600.0, help="at the fixed rate")
    parser.add_argument("--search-seconds", type=float, default=30.0, help="at each rate that is tried")
    parser.add_argument("--feedback-seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Times the data layer: against a plain first draft, at KuaiRand-1K's size, and per batch of requests.

    python benchmarks/data.py [--raw ml-1m/] [--skip-kuairand]

Without --raw the ratings come from a synthetic log of MovieLens 1M's size, written in its layout. Each part runs in a
process of its own, so that peak memory is its own, too.
"""

import argparse
import collections
import json
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

import pandas as pd
import polars as pl
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.kuairand_files import write_kuairand
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.read import ReadOptions, read_data
from gfn4rec.data.synthetic import PRESETS, generate

CORE, SLATE_SIZE, HISTORY_LENGTH = 20, 6, 50


Row: TypeAlias = tuple[int, int, int, int]


def plain_filter(rows: list[Row]) -> list[Row]:
    """Apply the k-core filter with dictionaries of counts, row by row."""
    while True:
        user_count: dict[int, int] = collections.defaultdict(int)
        item_count: dict[int, int] = collections.defaultdict(int)
        for user, item, _, _ in rows:
            user_count[user] += 1
            item_count[item] += 1
        kept = [row for row in rows if user_count[row[0]] >= CORE and item_count[row[1]] >= CORE]
        if len(kept) == len(rows):
            return kept
        rows = kept


def plain_prepare(raw: Path, out: Path) -> dict[str, int]:
    """Prepare MovieLens as a competent first draft would, with a pandas loop over users."""
    names = ["user", "item", "rating", "time"]
    ratings = pd.read_csv(raw / "ratings.dat", sep="::", engine="python", names=names)
    log = pd.DataFrame(plain_filter(list(ratings.itertuples(index=False, name=None))), columns=names)
    for name, threshold in (("click", 3), ("like", 4), ("star", 5)):
        log[name] = (log["rating"] >= threshold).astype(int)
    item_number: dict[int, int] = {}
    samples: dict[str, list[dict[str, object]]] = {"train": [], "val": [], "test": []}
    for number, (_, group) in enumerate(log.groupby("user"), start=1):
        group = group.sort_values("time", kind="stable")
        items = [item_number.setdefault(item, len(item_number) + 1) for item in group["item"]]
        responses = group[["click", "like", "star"]].values.tolist()
        starts = range(len(items) % SLATE_SIZE, len(items), SLATE_SIZE)
        for position, start in enumerate(starts):
            before = max(0, start - HISTORY_LENGTH)
            split = {1: "test", 2: "val"}.get(len(starts) - position, "train")
            samples[split].append(
                {
                    "user": number,
                    "history": items[before:start],
                    "history_responses": responses[before:start],
                    "slate": items[start : start + SLATE_SIZE],
                    "responses": responses[start : start + SLATE_SIZE],
                }
            )
    out.mkdir(parents=True)
    for split, of_split in samples.items():
        pd.DataFrame(of_split).to_pickle(out / f"{split}.pkl")
    return {"records": len(log), "users": log["user"].nunique(), "items": log["item"].nunique()} | {
        f"{split}_slates": len(of_split) for split, of_split in samples.items()
    }


def our_prepare(name: str, raw: Path, out: Path) -> dict[str, int]:
    config = PrepareConfig(core=CORE, slate_size=SLATE_SIZE)
    counts = prepare(read_data(name, ReadOptions(raw=raw)), config, out, name).statistics.model_dump()
    wanted = ("records", "users", "items", "train_slates", "val_slates", "test_slates")
    return {key: counts[key] for key in wanted}


@dataclass(frozen=True)
class Measurement:
    """What a function returned, how long its repetitions took, and the peak memory of its process."""

    result: dict[str, int]
    seconds: list[float]
    peak_gib: float


def measure(connection: Connection, work: Callable[[Path], dict[str, int]], out: Path, repeats: int) -> None:
    times = []
    for number in range(repeats):
        start = time.perf_counter()
        result = work(Path(f"{out}-{number}"))
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    connection.send(Measurement(result, times, peak))


def alone(work: Callable[[Path], dict[str, int]], out: Path, repeats: int = 1) -> Measurement:
    """Run `work` in a new process; its path is `out` with the number of the repetition."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(send, work, out, repeats))
    process.start()
    send.close()
    measurement: Measurement = receive.recv()
    process.join()
    return measurement


def write_movielens(raw: Path) -> None:
    """Write a synthetic log of MovieLens 1M's size as ratings.dat, movies.dat and users.dat."""
    log = generate(PRESETS["ml1m"])[1].log
    raw.mkdir(parents=True)
    rating = log.select(2 + pl.sum_horizontal("click", "like", "star")).to_series()
    lines = zip(log["user"], log["item"], rating, log["time"], strict=True)
    (raw / "ratings.dat").write_text("".join(f"{u}::{i}::{r}::{t}\n" for u, i, r, t in lines))
    movies = sorted(set(log["item"].to_list()))
    (raw / "movies.dat").write_text("".join(f"{movie}::Movie {movie}::Drama\n" for movie in movies))
    users = sorted(set(log["user"].to_list()))
    (raw / "users.dat").write_text("".join(f"{user}::F::25::1::0\n" for user in users))


def compare_with_plain(raw: Path, folder: Path) -> SlateData:
    plain = alone(partial(plain_prepare, raw), folder / "plain", repeats=3)
    ours = alone(partial(our_prepare, "ml-1m", raw), folder / "ours", repeats=15)
    for name, run in (("plain first draft", plain), ("gfn4rec", ours)):
        times = run.seconds
        print(f"{name:20s} {min(times):8.2f} s best, {statistics.median(times):.2f} s median of {len(times)}")
        print(f"{'':20s} {run.result}")
    best, median = (average(plain.seconds) / average(ours.seconds) for average in (min, statistics.median))
    print(f"{'ratio':20s} {best:8.1f} of the best, {median:.1f} of the medians")
    return SlateData.open(folder / "ours-0", history_length=HISTORY_LENGTH)


def time_requests(data: SlateData) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(data.num_rows, (128,), generator=generator) for _ in range(1000)]
    for work, name in ((data.requests, "128 requests"), (data.slates, "128 slates with requests")):
        times = []
        for row in rows:
            batch = row if work == data.requests else row % data.num_slates
            start = time.perf_counter()
            work(batch)
            times.append(time.perf_counter() - start)
        times.sort()
        print(f"{name:25s} {times[500] * 1e3:6.3f} ms median, {times[990] * 1e3:6.3f} ms for the slowest in a hundred")


def kuairand_at_full_size(folder: Path) -> None:
    start = time.perf_counter()
    write_kuairand(generate(PRESETS["kr1k"])[1], folder / "raw")
    size = sum(path.stat().st_size for path in (folder / "raw").iterdir()) / 2**20
    print(f"\nKuaiRand-1K-sized files written in {time.perf_counter() - start:.0f} s, {size:,.0f} MiB")
    ours = alone(partial(our_prepare, "kuairand-1k", folder / "raw"), folder / "kuairand")
    print(f"prepared in          {ours.seconds[0]:8.1f} s, peak memory {ours.peak_gib:.2f} GiB   {ours.result}")
    counts = json.loads((folder / "kuairand-0" / "manifest.json").read_text())["statistics"]
    print(f"before the filter    { ({key: counts[f'raw_{key}'] for key in ('records', 'users', 'items')}) }")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, help="the folder with ratings.dat, movies.dat and users.dat")
    parser.add_argument("--skip-kuairand", action="store_true", help="leave out the part at KuaiRand-1K's size")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.raw is None:
            write_movielens(folder / "movielens")
        time_requests(compare_with_plain(options.raw or folder / "movielens", folder))
        if not options.skip_kuairand:
            kuairand_at_full_size(folder)


if __name__ == "__main__":
    main()

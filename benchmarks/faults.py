"""Kills a live service and its learner again and again under traffic, and compares what is left with what was answered.

    python benchmarks/faults.py RUN [--kills 50] [--store postgresql+psycopg://USER@HOST/DATABASE]

RUN is a trained run; the database is an empty one, and an SQLite file by default. Each round kills the API process
and the learner in any order and at random moments. In the end the store is compared with what clients were answered,
and the learner's weights with those of a learner that was never killed. A fault is a line, and makes the exit code 1.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from fault_audit import Audit, compare
from fault_harness import Kills, kill_often, learned_again

from gfn4rec.cli.compute import choose_device

LONGEST_PAUSE = 2.0  # seconds before a kill


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--store", help="address of an empty PostgreSQL database; default: an SQLite file")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    choose_device("cpu", 1)  # as the service's processes
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "live"
        directory.mkdir()
        store = options.store or str(directory / "store.db")
        kills, book = kill_often(options.run, directory, store, options.kills, options.seed, LONGEST_PAUSE, report)
        audit = compare(book, store)
        audit.faults += learned_again(options.run, directory, store, Path(name) / "again")
    print_result(kills, audit, "PostgreSQL" if options.store else "SQLite")
    return 1 if audit.faults else 0


def report(line: str) -> None:
    """Print how far it is."""
    print(line, file=sys.stderr, flush=True)


def print_result(kills: Kills, audit: Audit, store: str) -> None:
    """Print the counts, then the faults."""
    ready, cpu = sorted(kills.ready), sorted(kills.cpu)
    print(f"{store}: {len(ready)} kills of the API, {kills.num_learner} of the learner")
    print(f"  {audit.num_decisions:,} decisions, {audit.num_events:,} events, {audit.num_samples:,} samples")
    print(f"  {audit.num_unanswered} answers were lost after their decisions were stored; retries got the same ones")
    print(f"  ready again after {median(ready):.1f} s (median), {ready[-1]:.1f} s (longest)")
    print(f"  of which the service's own processor time is {median(cpu):.1f} s (median), {cpu[-1]:.1f} s (longest)")
    print(f"  faults (lost, doubled, changed, learned otherwise): {len(audit.faults)}")
    for fault in audit.faults[:20]:
        print(f"    {fault}")


if __name__ == "__main__":
    sys.exit(main())

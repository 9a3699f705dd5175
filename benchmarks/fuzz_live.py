"""Requests generated from /openapi.json, right and wrong, to a live service: none may make it fail.

    python benchmarks/fuzz_live.py RUN [--requests 20000] [--seed 0]

RUN is a trained run. The service runs in this process, without sockets, with a store of its own. An answer of 500 or
more, a status or a body that the description does not have, is printed with its request and makes the exit code 1.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

from fuzz_harness import Generator, Json, Report, fuzz

from gfn4rec.cli.compute import choose_device
from gfn4rec.live.config import ServiceConfig
from gfn4rec.live.host import Host, Place
from gfn4rec.live.http.app import create_app
from gfn4rec.live.records import Ask

URL = "http://127.0.0.1:8000"
_SHOWN_FAULTS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, help="the data set, if it was moved")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    choose_device("cpu", 1)
    with tempfile.TemporaryDirectory() as name:
        host = Host(Place.of(options.run, Path(name) / "live", None), ServiceConfig(wait=5.0), data=options.data)
        host.start()
        try:
            report = fuzzed(host, options.requests, options.seed)
        finally:
            host.stop()
    print_report(report)
    return 1 if report.faults else 0


def fuzzed(host: Host, count: int, seed: int) -> Report:
    """Return what became of so many generated requests to a service that runs."""
    app = create_app(host)
    return asyncio.run(fuzz(app, Generator(app.openapi(), known_values(host), seed), count, URL))


def known_values(host: Host) -> dict[str, list[Json]]:
    """Return values of fields that mean something to the service, with decisions that it makes for this."""
    data, service = host.data, host.service
    items = [service.items.at(number).id for number in range(1, min(len(service.items), 200) + 1)]
    users = [str(user) for user in data.users["id"].to_list()[:50]] + ["stranger", "another"]
    shown = items[: data.slate_size]  # the items of all these slates, so that most feedback is about one that was shown
    asks = [
        Ask(f"known-{number}", "", users[number], candidates=tuple(shown), is_shown_at_once=number % 2 == 0)
        for number in range(20)
    ]
    decision_ids = [service.recommend(ask).result(60)[0].decision_id for ask in asks]
    names = list(data.behaviours)
    return {
        "request_id": [ask.request_id for ask in asks] + [f"new-{number}" for number in range(3000)],
        "event_id": [f"event-{number}" for number in range(3000)],
        **dict.fromkeys(("decision_id", "decision_ids"), decision_ids),
        **dict.fromkeys(("exclude", "candidates", "history", "item_id", "search"), items),
        "item": shown,
        "user": users,
        **dict.fromkeys(("behaviour", "behaviours"), names),
        "version": [0, 1, 2, 3],
        "feature": [entry.name for entry in data.manifest.item_features],
    }


def print_report(report: Report) -> None:
    """Print the statuses of each operation, and what went wrong."""
    operations: dict[tuple[str, str], Counter[int]] = {}
    for (method, path, status), count in report.statuses.items():
        operations.setdefault((method, path), Counter())[status] += count
    for (method, path), counts in sorted(operations.items(), key=lambda entry: entry[0][1]):
        print(f"{method:6} {path:32}", ", ".join(f"{status}: {count:,}" for status, count in sorted(counts.items())))
    print(f"{report.total:,} requests, {len(report.faults):,} faults")
    for fault in report.faults[:_SHOWN_FAULTS]:
        print(fault)


if __name__ == "__main__":
    sys.exit(main())

"""`gfn4rec live status` and `gfn4rec live export`."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.output import JsonOption, out, print_json, table, working
from gfn4rec.cli.serve import LiveOption, StoreOption, require_live
from gfn4rec.errors import UserError

if TYPE_CHECKING:
    from gfn4rec.client import Status

_SHOWN_VERSIONS = 10


def status_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the service.")] = "http://127.0.0.1:8000",
    json: JsonOption = False,
) -> None:
    """Print how a service is: version, requests, rewards, feedback, learner, problems."""
    from gfn4rec.client import Client

    with Client(url, patience=0) as client:
        status = client.status()
    if json:
        print_json(asdict(status))
        return
    rows = table("", "")
    for name, text in _lines(status):
        rows.add_row(name, text)
    out().print(rows)
    out().print(_rewards(status))


def export_command(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="Directory of the run that is served.")] = None,
    live: LiveOption = None,
    store: StoreOption = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The directory to write the files to.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an export that is there.")] = False,
    json: JsonOption = False,
) -> None:
    """Write decisions, events and samples of a service as Parquet files; the service may run meanwhile.

    The decisions hold the log-probability of each step of their slates, as they were really drawn.
    """
    require_live()
    from gfn4rec.live.export import export
    from gfn4rec.live.host import Place

    if (run is None) == (store is None):
        raise UserError("export: name either the RUN that is served, or its --store")
    if target is None:
        raise UserError("export: name the directory to write to with --out DIR")
    url = store if store is not None else Place.of(run or Path(), live, None).store
    with working("reading the store") as progress:
        counts = export(url, target, force, lambda name, done, total: progress.advance(name, done, total))
    if json:
        print_json({"out": str(target), "rows": counts})
        return
    for name, count in counts.items():
        out().print(f"{target / name}.parquet: {count:,} rows")


def _lines(status: "Status") -> list[tuple[str, str]]:
    requests, events, learner = status.requests, status.events, status.learner
    latency = "-" if requests.p50_ms is None else f"p50 {requests.p50_ms:.1f} ms, p99 {requests.p99_ms:.1f} ms"
    refused = f"{requests.refused:,} refused, {requests.failed:,} failed"
    shown = f"{status.open:,} open, {status.waiting:,} not shown, {status.samples:,} closed"
    feedback = f"{events.stored:,} stored, {events.late:,} late, {events.duplicate:,} duplicate"
    lines = [
        ("service", f"{status.policy} on {status.name}, {status.num_items:,} items, store in {status.store}"),
        ("ready", "yes" if status.is_ready else "no"),
        ("running", f"{(status.now - status.started) / 60:.1f} min"),
        ("version", f"{status.versions.promoted}{'' if status.versions.automatic_promotion else ' (fixed)'}"),
        ("requests", f"{requests.total:,}, {requests.per_second:.1f}/s, {refused}"),
        ("latency", latency),
        ("decisions", f"{status.decisions:,}, {shown}"),
        ("feedback", f"{feedback}, {events.unknown:,} of unknown decisions"),
    ]
    if learner is None:
        lines.append(("learner", "none"))
    else:
        report = "no report yet"
        if learner.updated is not None:
            report = f"step {learner.step}, reported {max(0.0, time.time() - learner.updated):.0f} s ago"
        lines.append(("learner", f"{learner.state}, {learner.lag:,} samples behind, {report}"))
    return lines + [("problem", text) for text in status.problems]


def _rewards(status: "Status") -> object:
    rows = table("Version", "Slates", "Reward", "95 % interval")
    for version in status.by_version[-_SHOWN_VERSIONS:]:
        interval = "-" if version.low is None else f"{version.low:.4f} to {version.high:.4f}"
        rows.add_row(str(version.version), f"{version.slates:,}", f"{version.mean:.4f}", interval)
    return rows if status.by_version else "no slate has been closed yet"

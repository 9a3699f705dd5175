"""`gfn4rec live simulate`: simulated users of a running service."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.compute import choose_device
from gfn4rec.cli.output import JsonOption, out, print_json, tell
from gfn4rec.errors import UserError

if TYPE_CHECKING:
    from gfn4rec.live.traffic.running import TrafficResult
    from gfn4rec.live.traffic.tally import Period, Tally

_COLUMNS = ("Seconds", "Slates", "Reward", "95 % interval", "Slates/s", "p50 ms", "p99 ms")
_WIDTHS = (12, 8, 8, 18, 9, 8, 8)


def simulate_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the service.")],
    simulator: Annotated[Path, typer.Option(metavar="SIM", help="Directory of a simulator of the service's data set.")],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The data set; default: where the service has it.")
    ] = None,
    users: Annotated[int, typer.Option(min=1, help="Users of the data set who take part.")] = 500,
    rate: Annotated[float, typer.Option(help="Requests per second, at random times.")] = 50.0,
    requests: Annotated[int | None, typer.Option(min=1, help="Requests after which to end.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Seconds after which to end; default: until Ctrl-C.")] = None,
    delay: Annotated[float, typer.Option(help="Mean seconds between a slate and its feedback.")] = 1.0,
    duplicate: Annotated[float, typer.Option(help="Probability that an event is sent twice.")] = 0.0,
    lose: Annotated[float, typer.Option(help="Probability that an event is never sent.")] = 0.0,
    greediness: Annotated[float | None, typer.Option(help="That of the requests; default: the service's.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests that may wait for answers.")] = 64,
    seed: Annotated[int, typer.Option(help="Seed of users, times, responses and lost feedback.")] = 0,
    json: JsonOption = False,
) -> None:
    """Play simulated users who ask a service for slates, respond to them, and send feedback.

    Each user keeps a history of what it was shown, and responds with the probabilities of the simulator. Prints a line
    every ten seconds, and a summary at the end; Ctrl-C ends it, too.
    """
    from gfn4rec.live.traffic.config import TrafficConfig
    from gfn4rec.live.traffic.running import simulate

    if requests is not None and seconds is not None:
        raise UserError("--requests and --seconds both end the traffic; give one of them")
    values = {"users": users, "rate": rate, "requests": requests, "seconds": seconds, "delay": delay, "seed": seed}
    values |= {"duplicate": duplicate, "lose": lose, "greediness": greediness, "concurrency": concurrency}
    config = TrafficConfig.parse(values, "simulate")
    choose_device("cpu", 1)
    if json:
        print_json(simulate(url, simulator, data, config).as_dict())
        return
    table = _Table()
    result = simulate(url, simulator, data, config, table.print_window)
    table.print_head()
    _print_result(result)


class _Table:
    """Prints a line per window, and before the first one what the columns are; nothing if there is nothing to show."""

    def __init__(self) -> None:
        self._has_head = False

    def print_head(self) -> None:
        if not self._has_head:
            out().print(_row(*_COLUMNS))
            self._has_head = True

    def print_window(self, period: "Period", tally: "Tally") -> None:
        self.print_head()
        errors = tally.counts["errors"]
        out().print(_line(f"{period.start:.0f} to {period.end:.0f}", period) + (f"  {errors} errors" if errors else ""))


def _print_result(result: "TrafficResult") -> None:
    summary = result.summary
    out().print()
    for name, period in (
        ("whole", summary.whole),
        ("first minute", summary.first_minute),
        ("last minute", summary.last_minute),
    ):
        out().print(_line(name, period))
    out().print()
    names = ("events", "lost on purpose", "stored", "duplicate", "late", "unknown decision", "errors")
    counts = [f"{name} {summary.counts.get(name, 0):,}" for name in names]
    out().print(", ".join([*counts, f"retries {result.retries:,}"]))
    versions = list(summary.versions)
    if versions:
        out().print(f"answered by {len(versions)} versions, from {versions[0]} to {versions[-1]}")
    for note in result.notes:
        tell(note)


def _line(name: str, period: "Period") -> str:
    reward = "-" if period.reward is None else f"{period.reward:.4f}"
    interval = "-" if period.low is None else f"{period.low:.4f} to {period.high:.4f}"
    latencies = ["-" if value is None else f"{value:.1f}" for value in (period.p50_ms, period.p99_ms)]
    return _row(name, f"{period.slates:,}", reward, interval, f"{period.requests_per_second:.1f}", *latencies)


def _row(*values: str) -> str:
    return " ".join(f"{value:>{width}}" for value, width in zip(values, _WIDTHS, strict=True))

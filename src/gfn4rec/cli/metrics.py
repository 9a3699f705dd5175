"""Tables of metrics: a row per way of choosing slates."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from gfn4rec.cli.output import out, table
from gfn4rec.metrics import METRICS, Metric, authors_keys, metrics_of

if TYPE_CHECKING:
    from gfn4rec.evaluation.frontier import FrontierPoint
    from gfn4rec.evaluation.held_out_protocol import HeldOutResults

Row: TypeAlias = Mapping[str, float | None]
"""Metrics by key."""
Rows: TypeAlias = Mapping[str, Row]
Columns: TypeAlias = Sequence[tuple[str, str, Metric]]
"""Key, heading, metric."""
_OF_POINTS = ("expected_reward", "coverage", "ild", "ild_reference")


def print_metrics(rows: Rows) -> None:
    """Print the metrics of rows; then the rates of the behaviours, beside diversity by the authors' rule."""
    of_authors = authors_keys()
    single = [metric for metric in METRICS.values() if not metric.is_per_behaviour]
    _print_columns("", rows, [(metric.key, metric.label, metric) for metric in single if metric.key not in of_authors])
    beside = [(metric.key, metric.label, metric) for metric in metrics_of("slates") if metric.key in of_authors]
    for metric in METRICS.values():
        columns = _by_behaviour(metric, rows) if metric.is_per_behaviour else []
        if columns:
            out().print()
            _print_columns(f"{metric.label} of", rows, [*columns, *beside])
            beside = []


def print_oracle(title: str, points: Sequence["FrontierPoint"]) -> None:
    """Print what oracles attain, and random slates."""
    metrics = [METRICS[key] for key in _OF_POINTS]
    printed = table(title, "Temperature", *(metric.label for metric in metrics), "Clipped share")
    for point in points:
        temperature = "" if point.temperature is None else f"{point.temperature:g}"
        values = (point.reward, point.coverage, point.ild, point.ild_reference)
        texts = (metric.write(value) for metric, value in zip(metrics, values, strict=True))
        printed.add_row(point.label, temperature, *texts, f"{point.clipped_share:.2%}")
    out().print(printed)
    _print_convergence(points)


def _print_convergence(points: Sequence["FrontierPoint"]) -> None:
    """Print how far the list oracle's chains from different starts agree, if it was measured."""
    from gfn4rec.evaluation.list_frontier import ListPoint

    lists = [point for point in points if isinstance(point, ListPoint)]
    if not lists:
        return
    gaps = (f"{point.reward_gap:+.4f} ± {point.gap_error:.4f} at {point.temperature:g}" for point in lists)
    out().print(f"list oracle: reward of chains from greedy slates less that from random slates: {', '.join(gaps)}")
    if apart := [f"{point.temperature:g}" for point in lists if not point.has_converged]:
        out().print(f"list oracle: not converged at {', '.join(apart)}; its rewards there are no bound")


def print_held_out(results: "HeldOutResults", rows: Rows) -> None:
    """Print held-out metrics of policies that were measured on the same test slates, and those of references."""
    liked = f"{results.num_relevant:,} with a new item of a reward of at least {results.liked:g}"
    left = f"; {results.num_left_out:,} left out, whose users have met nearly all items" if results.num_left_out else ""
    out().print(f"held-out: {results.num_slates:,} test slates, {liked}{left}")
    columns = [
        (metric.key, metric.label.replace("@K", f"@{results.slate_size}"), metric) for metric in metrics_of("held_out")
    ]
    _print_columns("", {**rows, **results.references}, columns)


def write_metrics(row: Mapping[str, float]) -> str:
    """Return the metrics of a row as one line of text, without those of the authors' rule."""
    metrics = [METRICS[key] for key in row if key not in authors_keys()]
    return ", ".join(f"{metric.label} {metric.write(row[metric.key])}" for metric in metrics)


def _by_behaviour(metric: Metric, rows: Rows) -> list[tuple[str, str, Metric]]:
    prefix = f"{metric.key}_"
    keys = sorted({key for row in rows.values() for key in row if key.startswith(prefix) and key not in METRICS})
    return [(key, key.removeprefix(prefix), metric) for key in keys]


def _print_columns(title: str, rows: Rows, columns: Columns) -> None:
    measured = [column for column in columns if any(column[0] in row for row in rows.values())]
    printed = table(title, *(heading for _, heading, _ in measured))
    for name, row in rows.items():
        if any(key in row for key, _, _ in measured):
            printed.add_row(name, *(_write(metric, row.get(key)) for key, _, metric in measured))
    out().print(printed)


def _write(metric: Metric, value: float | None) -> str:
    return "-" if value is None else metric.write(value)

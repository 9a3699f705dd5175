"""Plots of frontiers: reward against diversity, of oracles alone and of policies beside them."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gfn4rec.evaluation.frontier import LIST, POINTWISE, FrontierPoint
from gfn4rec.evaluation.oracle import frontier_line
from gfn4rec.metrics import METRICS
from gfn4rec.simulator.plots import figure_bytes

Rows: TypeAlias = Mapping[str, Mapping[str, float | None]]
"""Metrics by how slates were chosen."""


def plot_frontier(points: Sequence[FrontierPoint]) -> bytes:
    """Return a PNG of the oracles' expected reward against coverage and against ILD."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axis, key in zip(figure.subplots(1, 2), ("coverage", "ild"), strict=True):
        _draw_frontier(axis, points, key)
    return figure_bytes(figure)


def plot_policies(policies: Mapping[str, Rows], oracles: Mapping[str, Sequence[FrontierPoint]]) -> bytes:
    """Return a PNG of expected reward against coverage; each point is labelled with how its slates were chosen."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axis = figure.subplots()
    for number, (title, points) in enumerate(oracles.items()):
        grey = str(0.6 - 0.4 * number / len(oracles))
        axis.plot(*zip(*frontier_line(points), strict=True), marker="o", color=grey, label=title)
    for name, rows in policies.items():
        line = sorted((row["coverage"] or 0.0, row["expected_reward"] or 0.0, way) for way, row in rows.items())
        axis.plot([point[0] for point in line], [point[1] for point in line], marker="s", label=name)
        for coverage, reward, way in line:
            axis.annotate(way, (coverage, reward), textcoords="offset points", xytext=(4, -10), fontsize="small")
    _label(axis, "coverage")
    return figure_bytes(figure)


def _draw_frontier(axis: Axes, points: Sequence[FrontierPoint], key: str) -> None:
    for sampler in (POINTWISE, LIST):
        line = [point for point in points if point.sampler == sampler]
        places = [getattr(point, key) for point in line]
        axis.plot(places, [point.reward for point in line], marker="o", label=line[0].label if line else None)
        for place, point in zip(places, line, strict=True):
            axis.annotate(f"{point.temperature:g}", (place, point.reward), fontsize="small")
    for point in points:
        if point.sampler not in (POINTWISE, LIST):
            axis.plot([getattr(point, key)], [point.reward], marker="s", linestyle="", label=point.label)
    _label(axis, key)


def _label(axis: Axes, key: str) -> None:
    axis.set(xlabel=METRICS[key].label, ylabel=METRICS["expected_reward"].label)
    axis.legend(fontsize="small")

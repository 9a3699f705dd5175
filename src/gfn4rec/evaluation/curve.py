"""Policies' curves of reward against coverage, with the ruler's beside them."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from matplotlib.figure import Figure

from gfn4rec.evaluation.frontier import FrontierPoint
from gfn4rec.simulator.plots import figure_bytes

Rows: TypeAlias = Mapping[str, Mapping[str, float | None]]


def plot_curves(policies: Mapping[str, Rows], rulers: Mapping[str, Sequence[FrontierPoint]]) -> bytes:
    """A PNG; every point carries how its slates were chosen."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axis = figure.subplots()
    for number, (title, ruler) in enumerate(rulers.items()):
        line = sorted((point.coverage, point.reward) for point in ruler if point.sampler != "random")
        axis.plot(*zip(*line, strict=True), marker="o", color=str(0.6 - 0.4 * number / len(rulers)), label=title)
    for name, rows in policies.items():
        points = sorted((row["coverage"] or 0.0, row["expected_reward"] or 0.0, way) for way, row in rows.items())
        axis.plot([point[0] for point in points], [point[1] for point in points], marker="s", label=name)
        for covered, reward, way in points:
            axis.annotate(way, (covered, reward), textcoords="offset points", xytext=(4, -10), fontsize="small")
    axis.set(xlabel="coverage (items shown in a batch)", ylabel="expected reward")
    axis.legend(fontsize="small")
    return figure_bytes(figure)

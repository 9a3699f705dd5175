"""Plots of experiments: learning curves, reward against coverage, and sensitivity to a setting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypedDict

from matplotlib.axes import Axes

from gfn4rec.experiments.report.picture import Panel, Picture
from gfn4rec.experiments.report.statistics import mean, standard_deviation
from gfn4rec.metrics import METRICS

Curve: TypeAlias = Sequence[tuple[int, Mapping[str, float]]]
"""The evaluations of one seed during training: steps, each with its metrics by name."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333")
"""The palette of Okabe and Ito, which colour-blind readers can tell apart."""
_MARKERS: Final = "osD^vPX"
_DASHES: Final = ("-", "--", ":")
_GREY: Final = "#8c8c8c"
_MIN_SPAN: Final = 0.1  # smallest range of an axis relative to its centre, so that flat data look flat


class _LineStyle(TypedDict):
    color: str
    linestyle: str


@dataclass(frozen=True)
class Point:
    """A point of a reward-coverage plot, with one value of each per seed."""

    coverage: Sequence[float]
    reward: Sequence[float]


def plot_curves(series: Mapping[str, Sequence[Curve]], metrics: Mapping[str, str]) -> Picture:
    """Draw a panel for each metric (titles by key): the mean by step, and the range over seeds."""
    return Picture([Panel(title, partial(_draw_curves, series=series, key=key)) for key, title in metrics.items()])


def plot_frontier(policies: Mapping[str, Sequence[Point]], oracle: Sequence[Point]) -> Picture:
    """Draw a line for each policy with standard deviations over seeds, and the oracle in grey."""
    return Picture([Panel("reward against coverage", partial(_draw_frontier, policies=policies, oracle=oracle))])


def plot_sensitivity(
    parameter: str,
    values: Sequence[float],
    metrics: Mapping[str, Sequence[Sequence[float]]],
    published: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> Picture:
    """Draw a panel for each metric by value of the parameter, with the paper's (value, metric) points."""
    panels = []
    for title, seeds in metrics.items():
        points = (published or {}).get(title, ())
        draw = partial(_draw_sensitivity, parameter=parameter, values=values, seeds=seeds, published=points)
        panels.append(Panel(title, draw))
    return Picture(panels)


def _draw_curves(axis: Axes, series: Mapping[str, Sequence[Curve]], key: str) -> None:
    for number, (label, curves) in enumerate(series.items()):
        by_step = _join(curves, key)
        if by_step:
            _draw_band(axis, list(by_step), list(by_step.values()), **_style(number), label=label)
    axis.set_xlabel("step")
    axis.ticklabel_format(axis="x", style="plain")


def _join(curves: Sequence[Curve], key: str) -> dict[int, list[float]]:
    """Return the values of all seeds by step, at the steps that all seeds have: every mean is over all seeds."""
    values = [{step: metrics[key] for step, metrics in curve if key in metrics} for curve in curves]
    shared = sorted(set.intersection(*(set(curve) for curve in values))) if values else []
    return {step: [curve[step] for curve in values] for step in shared}


def _draw_band(axis: Axes, positions: Sequence[float], seeds: Sequence[Sequence[float]], **style: Any) -> None:
    axis.plot(positions, [mean(values) for values in seeds], **style)
    if any(len(values) > 1 for values in seeds):
        low, high = [min(values) for values in seeds], [max(values) for values in seeds]
        axis.fill_between(positions, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _draw_frontier(axis: Axes, policies: Mapping[str, Sequence[Point]], oracle: Sequence[Point]) -> None:
    if oracle:
        _draw_points(axis, oracle, color=_GREY, linewidth=1.2, marker=".", label="oracle")
    for number, (label, points) in enumerate(policies.items()):
        marker = _MARKERS[number % len(_MARKERS)]
        _draw_points(axis, points, **_style(number), marker=marker, label=label)
    axis.set(xlabel=METRICS["coverage"].label, ylabel=METRICS["expected_reward"].label)
    axis.margins(0.08)


def _draw_points(axis: Axes, points: Sequence[Point], **style: Any) -> None:
    line = sorted(points, key=lambda point: mean(point.coverage))
    coverage, rewards = [mean(point.coverage) for point in line], [mean(point.reward) for point in line]
    axis.plot(coverage, rewards, **style)
    axis.errorbar(
        coverage,
        rewards,
        xerr=[standard_deviation(point.coverage) or 0.0 for point in line],
        yerr=[standard_deviation(point.reward) or 0.0 for point in line],
        fmt="none",
        ecolor=style["color"],
        elinewidth=0.9,
    )


def _draw_sensitivity(
    axis: Axes,
    parameter: str,
    values: Sequence[float],
    seeds: Sequence[Sequence[float]],
    published: Sequence[tuple[float, float]],
) -> None:
    _draw_band(axis, values, seeds, **_style(0), marker="o", label="ours")
    if published:
        positions, metrics = zip(*published, strict=True)
        axis.plot(positions, metrics, color=_GREY, linewidth=1.2, linestyle="--", marker="s", label="paper")
    axis.set_xlabel(parameter)
    low, high = axis.get_ylim()
    missing = _MIN_SPAN * abs(low + high) / 2 - (high - low)
    if missing > 0:
        axis.set_ylim(low - missing / 2, high + missing / 2)


def _style(number: int) -> _LineStyle:
    """Return a colour and a dash pattern; the pattern changes each time the colours repeat."""
    repetition, colour = divmod(number, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": _DASHES[repetition % len(_DASHES)]}

"""Plots of experiments: learning curves, reward against coverage, and how a setting matters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from matplotlib.axes import Axes

from gfn4rec.experiments.picture import Panel, Picture
from gfn4rec.experiments.statistics import mean, standard_deviation

Curve: TypeAlias = Sequence[tuple[int, Mapping[str, float]]]
"""What one seed measured on the way: a step, and its metrics by name."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333")
"""Okabe and Ito's, which colour-blind readers tell apart."""
_MARKERS: Final = "osD^vPX"
_DASHES: Final = ("-", "--", ":")
_GREY: Final = "#8c8c8c"
_LEAST_SPAN: Final = 0.1  # of its middle is what an axis shows at least, so that what is flat looks flat


@dataclass(frozen=True)
class Point:
    """A place in the plane of coverage and reward; one value of each per seed."""

    coverage: Sequence[float]
    reward: Sequence[float]


def plot_curves(series: Mapping[str, Sequence[Curve]], metrics: Mapping[str, str]) -> Picture:
    """A panel for each metric (by key, with its title): the mean by step, and the range of the seeds."""
    return Picture([Panel(title, partial(_draw_curves, series=series, key=key)) for key, title in metrics.items()])


def plot_frontier(policies: Mapping[str, Sequence[Point]], ruler: Sequence[Point]) -> Picture:
    """A line for each policy with standard deviations over seeds, and what is attainable, in grey."""
    return Picture([Panel("reward against coverage", partial(_draw_frontier, policies=policies, ruler=ruler))])


def plot_sensitivity(
    parameter: str,
    values: Sequence[float],
    metrics: Mapping[str, Sequence[Sequence[float]]],
    published: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> Picture:
    """A panel for each metric: its seeds at each value of the parameter, and the paper's (value, metric) points."""
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
    """The values of all seeds at the steps that all of them reached: a mean is always one of the same seeds."""
    found = [{step: figures[key] for step, figures in curve if key in figures} for curve in curves]
    shared = sorted(set.intersection(*(set(curve) for curve in found))) if found else []
    return {step: [curve[step] for curve in found] for step in shared}


def _draw_band(axis: Axes, places: Sequence[float], seeds: Sequence[Sequence[float]], **style: Any) -> None:
    axis.plot(places, [mean(values) for values in seeds], **style)
    if any(len(values) > 1 for values in seeds):
        least, most = [min(values) for values in seeds], [max(values) for values in seeds]
        axis.fill_between(places, least, most, color=style["color"], alpha=0.18, linewidth=0)


def _draw_frontier(axis: Axes, policies: Mapping[str, Sequence[Point]], ruler: Sequence[Point]) -> None:
    if ruler:
        _draw_points(axis, ruler, color=_GREY, linewidth=1.2, marker=".", label="ruler")
    for number, (label, points) in enumerate(policies.items()):
        marker = _MARKERS[number % len(_MARKERS)]
        _draw_points(axis, points, **_style(number), marker=marker, label=label)
    axis.set(xlabel="coverage (items shown in a batch)", ylabel="reward")
    axis.margins(0.08)


def _draw_points(axis: Axes, points: Sequence[Point], **style: Any) -> None:
    line = sorted(points, key=lambda point: mean(point.coverage))
    covered, rewards = [mean(point.coverage) for point in line], [mean(point.reward) for point in line]
    axis.plot(covered, rewards, **style)
    axis.errorbar(
        covered,
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
        places, figures = zip(*published, strict=True)
        axis.plot(places, figures, color=_GREY, linewidth=1.2, linestyle="--", marker="s", label="paper")
    axis.set_xlabel(parameter)
    low, high = axis.get_ylim()
    missing = _LEAST_SPAN * abs(low + high) / 2 - (high - low)
    if missing > 0:
        axis.set_ylim(low - missing / 2, high + missing / 2)


def _style(number: int) -> dict[str, Any]:
    """A colour for each series; the dashes change where colours begin anew."""
    again, colour = divmod(number, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": _DASHES[again % len(_DASHES)]}

"""Figures of an experiment: learning curves, reward against coverage, sensitivity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gfn4rec.evaluation.oracle import frontier_line
from gfn4rec.experiments.jobs.result import GREEDY, JobResult
from gfn4rec.experiments.paper.comparisons import (
    CURVE_ROWS,
    ONLINE_MODELS,
    PUBLISHED_AS,
    basic_metrics,
    compared_metrics,
    needs_of_rows,
)
from gfn4rec.experiments.paper.models import SENSITIVITY
from gfn4rec.experiments.paper.protocol import Need
from gfn4rec.experiments.paper.results import Results
from gfn4rec.experiments.report.picture import Picture
from gfn4rec.experiments.report.plots import Curve, Point, plot_curves, plot_frontier, plot_sensitivity
from gfn4rec.metrics import METRICS

ORACLE_NOTE = (
    "The oracle samples by the simulator's true reward of each item alone, so that a policy which accounts for the "
    "other items of a slate can exceed it."
)


@dataclass(frozen=True)
class CaptionedPicture:
    """A picture with its title and caption; `name` is its file name."""

    name: str
    title: str
    caption: str
    picture: Picture


def curves_figure(results: Results) -> CaptionedPicture:
    """Return Figure 4 of the paper."""
    series = {
        label: [_curve(run, row.sampling == GREEDY) for run in results.runs["online", row.model]]
        for label, row in CURVE_ROWS.items()
    }
    measured = {key for curves in series.values() for curve in curves for _, metrics in curve for key in metrics}
    labels = {metric: METRICS[metric].label for metric in compared_metrics("slates") if metric in measured}
    where = results.caption(*needs_of_rows("online", CURVE_ROWS))
    caption = f"Evaluations during training: means over seeds as lines, the range over seeds as bands. {where}"
    return CaptionedPicture("curves", "Learning curves, greedy and Explore", caption, plot_curves(series, labels))


def _curve(run: JobResult, is_greedy: bool) -> Curve:
    return [(point.step, point.greedy if is_greedy else point.sampled) for point in run.curve]


def frontier_figure(results: Results) -> CaptionedPicture:
    """Return the frontiers of the models in the online table."""
    return draw_frontier(results, {model: model for model in ONLINE_MODELS}, "frontier", "Reward against coverage")


def draw_frontier(results: Results, models: Mapping[str, str], name: str, title: str) -> CaptionedPicture:
    """Draw expected reward against coverage at all temperatures: models by label, and the oracle."""
    policies = {label: _frontier(results.runs["online", model]) for label, model in models.items()}
    oracle = [Point([coverage], [reward]) for coverage, reward in frontier_line(results.oracle)]
    needs: list[Need] = [("online", model) for model in models.values()]
    caption = (
        f"Expected reward at each temperature, from greedy (left) to 1 (right). {ORACLE_NOTE} {results.caption(*needs)}"
    )
    return CaptionedPicture(name, title, caption, plot_frontier(policies, oracle))


def _frontier(runs: Sequence[JobResult]) -> list[Point]:
    """Return a point for greedy slates and for each temperature."""
    return [
        Point(
            [run.metrics[sampling]["coverage"] for run in runs],
            [run.metrics[sampling]["expected_reward"] for run in runs],
        )
        for sampling in runs[0].metrics
    ]


def sensitivity_figure(results: Results, parameter: str) -> CaptionedPicture:
    """Draw Table 6 or 7 of the paper, or the same for b_z."""
    values = SENSITIVITY[parameter].values
    needs: list[Need] = [("online", f"{parameter} = {value}") for value in values]
    metrics = [metric for metric in basic_metrics() if metric in PUBLISHED_AS]
    ours = {METRICS[metric].label: [results.values(need, metric) for need in needs] for metric in metrics}
    rows = results.paper.sensitivity.get(parameter, {})
    published = {
        METRICS[metric].label: [(float(value), row[PUBLISHED_AS[metric]]) for value, row in rows.items()]
        for metric in metrics
        if rows
    }
    picture = plot_sensitivity(parameter, values, ours, published)
    caption = results.caption(*needs) + (f" {results.describe_published()}" if published else "")
    return CaptionedPicture(f"{parameter}-plot", f"Sensitivity to {parameter}", caption, picture)

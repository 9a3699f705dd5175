"""The plots of an experiment: learning curves, frontiers, sensitivity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gfn4rec.experiments.comparisons import (
    BASIC,
    BASIC_BY_BOTH_RULES,
    COLUMNS,
    CURVE_LINES,
    ONLINE_MODELS,
    PUBLISHED_AS,
    needs_of,
)
from gfn4rec.experiments.findings import Findings
from gfn4rec.experiments.models import SENSITIVITY
from gfn4rec.experiments.outcome import GREEDY, Outcome
from gfn4rec.experiments.picture import Picture
from gfn4rec.experiments.plots import Curve, Point, plot_curves, plot_frontier, plot_sensitivity
from gfn4rec.experiments.protocol import Need


@dataclass(frozen=True)
class NamedPicture:
    """A picture with its words."""

    name: str
    title: str
    caption: str
    picture: Picture


def curves_figure(findings: Findings) -> NamedPicture:
    """Figure 4 of the paper."""
    series = {
        label: [_curve(each, line.way == GREEDY) for each in findings.outcomes["online", line.model]]
        for label, line in CURVE_LINES.items()
    }
    metrics = {metric: COLUMNS[metric].label for metric in BASIC}
    told = findings.caption(*needs_of("online", CURVE_LINES))
    caption = f"Looks at the policy on the way; lines are means and bands the range of the seeds. {told}"
    return NamedPicture("curves", "Learning curves, greedy and Explore", caption, plot_curves(series, metrics))


def _curve(outcome: Outcome, is_greedy: bool) -> Curve:
    return [(point.step, point.greedy if is_greedy else point.sampled) for point in outcome.curve]


def frontier_figure(findings: Findings) -> NamedPicture:
    """The models of the online table."""
    return draw_frontier(findings, {model: model for model in ONLINE_MODELS}, "frontier", "Reward against coverage")


def draw_frontier(findings: Findings, models: Mapping[str, str], name: str, title: str) -> NamedPicture:
    """Reward against coverage: each model, by label, from greedy to what it has learned, beside the ruler."""
    policies = {label: _frontier(findings.outcomes["online", model]) for label, model in models.items()}
    ruler = [Point([each["coverage"]], [each["reward"]]) for each in findings.ruler if each["sampler"] != "random"]
    needs: list[Need] = [("online", model) for model in models.values()]
    caption = (
        "Expected reward at each temperature, from greedy (left) to 1 (right). The ruler sees the simulator's own "
        f"probabilities. {findings.caption(*needs)}"
    )
    return NamedPicture(name, title, caption, plot_frontier(policies, ruler))


def _frontier(outcomes: Sequence[Outcome]) -> list[Point]:
    """A point per way of choosing slates."""
    return [
        Point(
            [outcome.figures[way]["coverage"] for outcome in outcomes],
            [outcome.figures[way]["expected_reward"] for outcome in outcomes],
        )
        for way in outcomes[0].figures
    ]


def sensitivity_figure(findings: Findings, parameter: str) -> NamedPicture:
    """Tables 6 and 7 of the paper, drawn."""
    values = SENSITIVITY[parameter].values
    needs: list[Need] = [("online", f"{parameter} = {value}") for value in values]
    metrics = [metric for metric in BASIC_BY_BOTH_RULES if metric in PUBLISHED_AS]
    ours = {COLUMNS[metric].label: [findings.values(need, metric) for need in needs] for metric in metrics}
    rows = findings.published.sensitivity.get(parameter, {}) if findings.published else {}
    published = {
        COLUMNS[metric].label: [(float(value), row[PUBLISHED_AS[metric]]) for value, row in rows.items()]
        for metric in metrics
        if rows
    }
    picture = plot_sensitivity(parameter, values, ours, published)
    caption = findings.caption(*needs) + (f" {findings.beside()}" if published else "")
    return NamedPicture(f"{parameter}-plot", f"Sensitivity to {parameter}", caption, picture)

"""A report with one of everything, for tests that parse it and for those that render it."""

import math

from gfn4rec.experiments.report.plots import Curve, Point, plot_curves, plot_frontier, plot_sensitivity
from gfn4rec.experiments.report.report import Plot, Report, Section, Slates
from gfn4rec.experiments.report.tables import Column, Row, Table

KEYS = ("reward", "max_reward", "coverage", "ild")
PUBLISHED = {
    "CF": (2.073, 2.939, 13.963, 0.529),
    "ListCVAE": (0.940, 2.209, 262.42, 0.796),
    "PRM": (2.156, 2.967, 18.647, 0.559),
    "GFN4Rec (Explore)": (2.047, 2.938, 87.66, 0.617),
    "GFN4Rec": (2.172, 2.972, 15.693, 0.565),
}
METRICS = {"reward": "average reward", "coverage": "coverage"}


def example_report() -> Report:
    """Wide tables, several plots, long and hostile titles."""
    return Report(
        "Measured <again>",
        "The paper's tables & figures",
        ["All values are this project's."],
        [
            Section(
                "online",
                "Online learning",
                ["As in table 2."],
                [online_table(), wide_table()],
                [learning()],
                notes=["CF differs."],
            ),
            Section("diversity", "Reward against diversity", plots=[reaching(), floor()]),
            Section("examples", "Slates", slates=[Slates("GFN4Rec", [("42", "greedy", ("<b>Fargo</b>", "A" * 90))])]),
        ],
        {"Python": "3.11", "commit": "0123456789abcdef" * 4},
        "Quick budget: shorter runs, fewer seeds",
    )


def online_table() -> Table:
    columns = [Column(key, key.replace("_", " ")) for key in KEYS]
    rows = []
    for name, figures in PUBLISHED.items():
        published = dict(zip(KEYS, figures, strict=True))
        seeds = {key: [figure * (1 + n / 100) for n in range(3)] for key, figure in published.items()}
        rows.append(Row(name, seeds, published, is_baseline="GFN" not in name))
    return Table("online-table", "Online", "Means of the last steps.", columns, rows)


def wide_table() -> Table:
    columns = [Column(f"rate{n}", f"behaviour {n}") for n in range(14)]
    return Table("wide", "Wide", "", columns, [Row(name, {"rate3": [0.1, 0.2]}) for name in PUBLISHED])


def learning() -> Plot:
    series = {name: [curve(figures, seed) for seed in range(3)] for name, figures in PUBLISHED.items()}
    return Plot("curves", "Learning", "Mean and range of seeds.", plot_curves(series, METRICS).svg("curves"))


def curve(figures: tuple[float, ...], seed: int) -> Curve:
    learned = {step: (1 - math.exp(-step / 600)) * (1 + seed / 50) for step in range(0, 3001, 250)}
    return [(step, {"reward": share * figures[0], "coverage": share * figures[2]}) for step, share in learned.items()]


def reaching() -> Plot:
    policies = {"CF": [Point([14, 15], [2.0, 2.1]), Point([40, 42], [1.9, 1.8])], "GFN4Rec": [Point([60], [2.1])]}
    svg = plot_frontier(policies, [Point([12], [2.6]), Point([380], [1.2])]).svg("frontier")
    return Plot("frontier", "What is reached", "", svg)


def floor() -> Plot:
    svg = plot_sensitivity("floor", [0.1, 0.4, 1.6], {"reward": [[2, 2.1], [2.2, 2.3], [2, 1.9]]}).svg("floor")
    return Plot("floor", "The reward's floor", "", svg)

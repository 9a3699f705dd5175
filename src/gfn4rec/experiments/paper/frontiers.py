"""This project's own studies: reward at equal coverage, models trained on the same terms, and ablations."""

from collections.abc import Mapping, Sequence

from gfn4rec.evaluation.oracle import frontier_line, reward_at
from gfn4rec.experiments.jobs.result import GREEDY, JobResult
from gfn4rec.experiments.paper.comparisons import ONLINE_MODELS, held_out_table
from gfn4rec.experiments.paper.figures import ORACLE_NOTE, CaptionedPicture, draw_frontier
from gfn4rec.experiments.paper.models import ABLATIONS, ALTERNATIVES, FAIR, RATES
from gfn4rec.experiments.paper.protocol import Need
from gfn4rec.experiments.paper.results import SAMPLED, Results
from gfn4rec.experiments.report.statistics import mean
from gfn4rec.experiments.report.tables import Column, Row, Table

LEVELS = (50, 100, 150, 200, 250, 300)
FAIR_NEEDS: tuple[Need, ...] = tuple(("online", model) for model in FAIR.values())
RIVALS = ("CF", "Boltzmann CF")
OBJECTIVE_MODELS = ("GFN4Rec", "GFN4Rec (DB)", "Energy GFN")
VARIANTS: Mapping[str, tuple[str, Sequence[str]]] = {
    "ablations": (FAIR["Energy GFN"], tuple(ABLATIONS)),
    "alternatives": (FAIR["Energy GFN"], tuple(ALTERNATIVES)),
    "rates": ("Energy GFN", tuple(RATES)),
}
"""By study: the model that is the energy GFN there, and the variants that are compared with it."""
_COLUMNS = [
    Column("sampled", "Sampled"),
    Column("coverage", "Coverage sampled", 1, "none"),
    *(Column(str(level), f"At coverage {level}") for level in LEVELS),
    Column("greedy", "Greedy"),
    Column("greedy_coverage", "Coverage greedy", 1, "none"),
]
_EXPLANATION = (
    "Expected reward of sampled slates, at equal coverage, and of greedy slates. Rewards at equal coverage are "
    "interpolated linearly between temperatures, seed by seed; a cell is empty if a seed does not reach the coverage."
)


def frontier_points(run: JobResult) -> list[tuple[float, float]]:
    """Return coverage and expected reward of greedy slates and at each temperature; of a decoder only its own."""
    prefix = "" if run.job.decoder is None else run.job.decoder.name
    rows = (metrics for way, metrics in run.metrics.items() if way.startswith(prefix))
    return [(metrics["coverage"], metrics["expected_reward"]) for metrics in rows]


def _row(label: str, runs: Sequence[JobResult], is_baseline: bool) -> Row:
    values: dict[str, Sequence[float]] = {
        "sampled": [run.metrics[SAMPLED]["expected_reward"] for run in runs],
        "coverage": [run.metrics[SAMPLED]["coverage"] for run in runs],
        "greedy": [run.metrics[GREEDY]["expected_reward"] for run in runs],
        "greedy_coverage": [run.metrics[GREEDY]["coverage"] for run in runs],
    }
    for level in LEVELS:
        rewards = [reward for run in runs if (reward := reward_at(frontier_points(run), level)) is not None]
        if len(rewards) == len(runs):
            values[str(level)] = rewards
    return Row(label, values, is_baseline=is_baseline)


def fair_table(results: Results) -> Table:
    """Compare all models on the same terms."""
    return _at_equal_coverage(results, FAIR, "fair", "Reward at equal coverage, on the same terms")


def fair_held_out_table(results: Results) -> Table:
    """Return the held-out metrics of all models on the same terms."""
    return held_out_table(results, "online", FAIR, "fair-held-out", "The same models on the log")


def equal_coverage_table(results: Results) -> Table:
    """Compare the models of the online table, each with its own training settings."""
    models = {name: name for name in ONLINE_MODELS}
    return _at_equal_coverage(results, models, "equal-coverage", "Reward at equal coverage")


def _at_equal_coverage(results: Results, models: Mapping[str, str], name: str, title: str) -> Table:
    """Return a row for each model, the gains of the energy GFN over the strongest simple models, and the oracle."""
    rows = {
        label: _row(label, results.runs["online", model], is_baseline=label not in OBJECTIVE_MODELS)
        for label, model in models.items()
    }
    gains = [row for rival in RIVALS for row in _gain_rows(rows["Energy GFN"], rows[rival])]
    oracle = []
    if results.oracle:
        rewards = {str(level): reward_at(frontier_line(results.oracle), level) for level in LEVELS}
        oracle.append(Row("Oracle", texts={key: f"{value:.3f}" for key, value in rewards.items() if value is not None}))
    note = f"{_EXPLANATION} {ORACLE_NOTE}" if oracle else _EXPLANATION
    caption = f"{note} {results.caption(*(('online', model) for model in models.values()))}"
    return Table(name, title, caption, *_with_columns([*rows.values(), *gains, *oracle]))


def _gain_rows(ours: Row, rival: Row) -> list[Row]:
    """Return the mean gain and its range over seeds, as texts: differences are not ranked among rewards."""
    means, ranges = {}, {}
    for key in ("greedy", *map(str, LEVELS)):
        if key in ours.values and key in rival.values:
            gains = [one - other for one, other in zip(ours.values[key], rival.values[key], strict=True)]
            means[key], ranges[key] = f"{mean(gains):+.3f}", f"{min(gains):+.3f} to {max(gains):+.3f}"
    label = f"{ours.label} over {rival.label}"
    has_seeds = any(len(values) > 1 for values in ours.values.values())
    return [Row(label, texts=means), *([Row(f"{label}, range", texts=ranges)] if has_seeds else [])]


def _with_columns(rows: Sequence[Row]) -> tuple[list[Column], Sequence[Row]]:
    """Return rows with their columns, without coverages that no row reaches."""
    return [column for column in _COLUMNS if any(column.key in {**row.values, **row.texts} for row in rows)], rows


def objectives_table(results: Results) -> Table:
    """Compare the energy GFN with the paper's two objectives, on the same terms."""
    rows = [_row(name, results.runs["online", FAIR[name]], name != "Energy GFN") for name in OBJECTIVE_MODELS]
    caption = f"{_EXPLANATION} {results.caption(*(('online', FAIR[name]) for name in OBJECTIVE_MODELS))}"
    return Table("objectives", "The energy GFN and the paper's objectives", caption, *_with_columns(rows))


def variant_needs(study: str) -> tuple[Need, ...]:
    """Return the energy GFN and its variants."""
    whole, variants = VARIANTS[study]
    return tuple(("online", name) for name in (whole, *variants))


def variants_table(results: Results, study: str, title: str) -> Table:
    """Compare the energy GFN with variants that differ in one setting or idea."""
    whole, variants = VARIANTS[study]
    models = {"Energy GFN": whole, **{name: name for name in variants}}
    rows = [_row(label, results.runs["online", model], is_baseline=False) for label, model in models.items()]
    return Table(study, title, f"{_EXPLANATION} {results.caption(*variant_needs(study))}", *_with_columns(rows))


def fair_figure(results: Results) -> CaptionedPicture:
    """Draw the frontiers of all models on the same terms."""
    return draw_frontier(results, FAIR, "fair-frontier", "Reward against coverage, on the same terms")

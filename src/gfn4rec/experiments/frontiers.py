"""This project's own studies: reward at equal coverage, all models on the same terms, and what each idea is worth."""

from collections.abc import Mapping, Sequence

from gfn4rec.evaluation.ruler import reward_at
from gfn4rec.experiments.comparisons import ONLINE_MODELS
from gfn4rec.experiments.figures import NamedPicture, draw_frontier
from gfn4rec.experiments.findings import SAMPLED, Findings
from gfn4rec.experiments.models import ABLATIONS, ALTERNATIVES, FAIR, RATES
from gfn4rec.experiments.outcome import GREEDY, Outcome
from gfn4rec.experiments.protocol import Need
from gfn4rec.experiments.statistics import mean
from gfn4rec.experiments.tables import Column, Row, Table

LEVELS = (50, 100, 150, 200, 250, 300)
FAIR_NEEDS: tuple[Need, ...] = tuple(("online", model) for model in FAIR.values())
RIVALS = ("CF", "Boltzmann CF")
OBJECTIVE_MODELS = ("GFN4Rec", "GFN4Rec (DB)", "Energy flow")
VARIANTS: Mapping[str, tuple[str, Sequence[str]]] = {
    "ablations": (FAIR["Energy flow"], tuple(ABLATIONS)),
    "alternatives": (FAIR["Energy flow"], tuple(ALTERNATIVES)),
    "rates": ("Energy flow", tuple(RATES)),
}
"""Of the energy flow, by the study that compares them with it."""
_COLUMNS = [
    Column("sampled", "Sampled"),
    Column("coverage", "at coverage", 1, "none"),
    *(Column(str(level), f"At coverage {level}") for level in LEVELS),
    Column("greedy", "Greedy"),
    Column("greedy_coverage", "at coverage", 1, "none"),
]
_EXPLAINED = (
    "Expected reward: of slates as they are learned, at each coverage (between temperatures by linear interpolation, "
    "seed by seed; empty where a seed does not reach it), and greedy."
)


def frontier_points(outcome: Outcome) -> list[tuple[float, float]]:
    """Coverage and expected reward, from greedy to what was learned."""
    return [(row["coverage"], row["expected_reward"]) for row in outcome.figures.values()]


def _row(label: str, outcomes: Sequence[Outcome], is_baseline: bool) -> Row:
    values: dict[str, Sequence[float]] = {
        "sampled": [each.figures[SAMPLED]["expected_reward"] for each in outcomes],
        "coverage": [each.figures[SAMPLED]["coverage"] for each in outcomes],
        "greedy": [each.figures[GREEDY]["expected_reward"] for each in outcomes],
        "greedy_coverage": [each.figures[GREEDY]["coverage"] for each in outcomes],
    }
    for level in LEVELS:
        found = [reward_at(frontier_points(each), level) for each in outcomes]
        if None not in found:
            values[str(level)] = [value for value in found if value is not None]
    return Row(label, values, is_baseline=is_baseline)


def fair_table(findings: Findings) -> Table:
    """All models on the same terms."""
    return _at_equal_coverage(findings, FAIR, "fair", "Reward at equal coverage, on the same terms")


def equal_coverage_table(findings: Findings) -> Table:
    """The models of the online table, each on its own terms."""
    return _at_equal_coverage(
        findings, {name: name for name in ONLINE_MODELS}, "equal-coverage", "Reward at equal coverage"
    )


def _at_equal_coverage(findings: Findings, names: Mapping[str, str], table: str, title: str) -> Table:
    """A row per model, what the energy flow gains over the strongest simple rivals, and the ruler."""
    by_name = {
        label: _row(label, findings.outcomes["online", name], is_baseline=label not in OBJECTIVE_MODELS)
        for label, name in names.items()
    }
    rows = [*by_name.values(), *(_gain(by_name["Energy flow"], by_name[each]) for each in RIVALS)]
    if findings.ruler:
        points = [(each["coverage"], each["reward"]) for each in findings.ruler if each["sampler"] != "random"]
        known = {str(level): reward_at(points, level) for level in LEVELS}
        rows.append(Row("Ruler", texts={key: f"{value:.3f}" for key, value in known.items() if value is not None}))
    caption = f"{_EXPLAINED} {findings.caption(*(('online', name) for name in names.values()))}"
    return Table(table, title, caption, _COLUMNS, rows)


def _gain(ours: Row, rival: Row) -> Row:
    """Seed by seed, in words: a difference is not to be ranked among rewards."""
    texts = {}
    for key in ("greedy", *map(str, LEVELS)):
        if key in ours.values and key in rival.values:
            gains = [one - other for one, other in zip(ours.values[key], rival.values[key], strict=True)]
            spread = f" ({min(gains):+.3f} to {max(gains):+.3f})" if len(gains) > 1 else ""
            texts[key] = f"{mean(gains):+.3f}{spread}"
    return Row(f"{ours.label} over {rival.label}", texts=texts)


def objectives_table(findings: Findings) -> Table:
    """The energy flow against the paper's two objectives, on the same terms."""
    rows = [_row(name, findings.outcomes["online", FAIR[name]], name != "Energy flow") for name in OBJECTIVE_MODELS]
    caption = f"{_EXPLAINED} {findings.caption(*(('online', FAIR[name]) for name in OBJECTIVE_MODELS))}"
    return Table("objectives", "The energy flow and the paper's objectives", caption, _COLUMNS, rows)


def variant_needs(study: str) -> tuple[Need, ...]:
    """The energy flow and its variants."""
    whole, variants = VARIANTS[study]
    return tuple(("online", name) for name in (whole, *variants))


def variants_table(findings: Findings, study: str, title: str) -> Table:
    """The energy flow, and with one thing changed."""
    whole, variants = VARIANTS[study]
    names = {"Energy flow": whole, **{name: name for name in variants}}
    rows = [_row(label, findings.outcomes["online", name], is_baseline=False) for label, name in names.items()]
    return Table(study, title, f"{_EXPLAINED} {findings.caption(*variant_needs(study))}", _COLUMNS, rows)


def fair_figure(findings: Findings) -> NamedPicture:
    """The frontiers of all models on the same terms."""
    return draw_frontier(findings, FAIR, "fair-frontier", "Reward against coverage, on the same terms")

"""The tables that compare models: the data set, online, offline, ranking, trajectory against detailed balance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gfn4rec.experiments.findings import LAST_STEPS, SAMPLED, Findings
from gfn4rec.experiments.models import AUTHORS
from gfn4rec.experiments.outcome import GREEDY
from gfn4rec.experiments.protocol import Need
from gfn4rec.experiments.tables import Column, Row, Table
from gfn4rec.training.config import Kind

REWARD = Column("reward", "Average reward")
RANKING = ("r_ndcg", "r_mrr", "test_r_ndcg", "test_r_mrr")
AUTHORS_RULE: Mapping[str, str] = {"ild": "ild_reference", **{metric: f"{metric}_unsorted" for metric in RANKING}}
"""Metrics that the authors' code does not compute as the paper's equations say, and the same by that code's rule."""
_OWN = {
    column.key: column
    for column in (
        REWARD,
        Column("max_reward", "Maximum reward"),
        Column("r_ndcg", "R-NDCG"),
        Column("r_mrr", "R-MRR", decimals=4),
        Column("coverage", "Coverage", decimals=1),
        Column("ild", "ILD"),
        Column("test_r_ndcg", "R-NDCG (test)"),
        Column("test_r_mrr", "R-MRR (test)", decimals=4),
    )
}
COLUMNS = _OWN | {
    theirs: Column(theirs, f"{_OWN[own].label}, authors' rule", _OWN[own].decimals, "none")
    for own, theirs in AUTHORS_RULE.items()
}
PUBLISHED_AS = {key: key for key in _OWN if key not in AUTHORS_RULE} | {
    theirs: own for own, theirs in AUTHORS_RULE.items()
}
"""The paper's names of the metrics that its figures can be set beside: by the authors' rule, where the rules differ."""
BASIC = ("reward", "max_reward", "coverage", "ild")
BASIC_BY_BOTH_RULES = (*BASIC, AUTHORS_RULE["ild"])


@dataclass(frozen=True)
class Line:
    """A row of a table: whose figures, and how its slates were chosen."""

    model: str
    way: str = GREEDY
    is_baseline: bool = True
    published: str | None = None  # its name in the paper, if it is there


ONLINE_LINES: Mapping[str, Line] = {
    "CF": Line("CF", published="CF"),
    "ListCVAE": Line("ListCVAE", SAMPLED, published="ListCVAE"),
    "PRM": Line("PRM", published="PRM"),
    "GFN4Rec (Explore)": Line("GFN4Rec", SAMPLED, False, "GFN4Rec (Explore)"),
    "GFN4Rec": Line("GFN4Rec", GREEDY, False, "GFN4Rec"),
    "CF, top K": Line("CF, top K"),
    "Boltzmann CF, sampled": Line("Boltzmann CF", SAMPLED),
    "Boltzmann CF, greedy": Line("Boltzmann CF", GREEDY),
    "Energy flow, sampled": Line("Energy flow", SAMPLED, False),
    "Energy flow, greedy": Line("Energy flow", GREEDY, False),
}
ONLINE_MODELS = tuple(dict.fromkeys(line.model for line in ONLINE_LINES.values()))
AUTHORS_LINES: Mapping[str, Line] = {
    label: replace(line, model=AUTHORS[line.model]) for label, line in ONLINE_LINES.items() if line.published
}
LAST_LINES: Mapping[str, Line] = {
    "CF": Line("CF", LAST_STEPS, published="CF"),
    "ListCVAE": Line("ListCVAE", LAST_STEPS, published="ListCVAE"),
    "PRM": Line("PRM", LAST_STEPS, published="PRM"),
    "GFN4Rec (Explore)": Line("GFN4Rec", LAST_STEPS, False, "GFN4Rec (Explore)"),
    "CF, top K": Line("CF, top K", LAST_STEPS),
    "Boltzmann CF": Line("Boltzmann CF", LAST_STEPS),
    "Energy flow": Line("Energy flow", LAST_STEPS, False),
}
OFFLINE_LINES: Mapping[str, Line] = {
    "CF": Line("CF", published="CF"),
    "ListCVAE": Line("ListCVAE", SAMPLED, published="ListCVAE"),
    "RerankCF": Line("RerankCF", published="RerankCF"),
    "PRM": Line("PRM", published="PRM"),
    "GFN4Rec": Line("GFN4Rec", GREEDY, False, "GFN4Rec"),
}
BALANCE_LINES: Mapping[str, Line] = {
    "DB": Line("GFN4Rec (DB)", is_baseline=False, published="DB"),
    "TB": Line("GFN4Rec", is_baseline=False, published="TB"),
}
CURVE_LINES: Mapping[str, Line] = {
    f"{label}, {how}": replace(line, way=way, published=None)
    for label, line in BALANCE_LINES.items()
    for how, way in (("greedy", GREEDY), ("Explore", SAMPLED))
}


def needs_of(kind: Kind, lines: Mapping[str, Line]) -> tuple[Need, ...]:
    """The models of a table's rows."""
    return tuple(dict.fromkeys((kind, line.model) for line in lines.values()))


@dataclass(frozen=True)
class Comparison:
    """What a table compares: models that learn in one way, a row each."""

    name: str
    title: str
    kind: Kind
    lines: Mapping[str, Line]


def data_table(findings: Findings) -> Table:
    """Table 1 of the paper."""
    counts, data = findings.world.data.statistics, findings.world.data
    low, high = data.reward_range
    ours = {"users": counts.users, "items": counts.items, "records": counts.records, "behaviours": len(data.behaviours)}
    columns = [Column(key, key.capitalize(), decimals=0, is_better="none") for key in ours]
    columns.append(Column("range", "Range of the reward", is_better="none"))
    of_paper, values = findings.published, {key: [value] for key, value in ours.items()}
    ranges = {"range": f"[{low:g}, {high:g}]"}
    if of_paper is not None and data.name in of_paper.data_sets:
        rows = [Row(data.name, values, of_paper.summary, ranges)]
    else:
        rows = [Row(data.name, values, texts=ranges)]
        if of_paper is not None:  # one of the same kind
            summary = {key: [value] for key, value in of_paper.summary.items()}
            rows.append(Row(f"{of_paper.name} (paper)", summary, texts={"range": of_paper.reward_range}))
    settings = data.settings
    caption = f"After a {settings.core}-core filter; slates of {settings.slate_size}."
    return Table("data", "Data set", caption, columns, rows)


def compare(
    findings: Findings, what: Comparison, metrics: Sequence[str], published: Mapping[str, Mapping[str, float]]
) -> Table:
    """A row per line, a column per metric, the paper's figures beside ours where it has them."""
    rows = []
    for label, line in what.lines.items():
        need: Need = (what.kind, line.model)
        values = {metric: findings.values(need, metric, line.way) for metric in metrics}
        of_paper = published.get(line.published or "", {})
        beside = {metric: of_paper[PUBLISHED_AS[metric]] for metric in metrics if PUBLISHED_AS.get(metric) in of_paper}
        known = {metric: each for metric, each in values.items() if each}
        rows.append(Row(label, known, beside, is_baseline=line.is_baseline))
    columns = [COLUMNS[metric] for metric in metrics]
    caption = findings.caption(*needs_of(what.kind, what.lines))
    if any(row.published for row in rows):
        caption += f" {findings.beside()}"
    return Table(what.name, what.title, caption, columns, rows)


def online_table(findings: Findings) -> Table:
    """Table 2 of the paper, with this project's own method and the strongest simple rival."""
    beside = findings.published.online if findings.published else {}
    what = Comparison("online", "Online learning", "online", ONLINE_LINES)
    return compare(findings, what, BASIC_BY_BOTH_RULES, beside)


def authors_table(findings: Findings) -> Table:
    """The paper's models with the settings of its authors' scripts."""
    beside = findings.published.online if findings.published else {}
    what = Comparison("authors", "Online learning with the authors' settings", "online", AUTHORS_LINES)
    return compare(findings, what, BASIC_BY_BOTH_RULES, beside)


def last_steps_table(findings: Findings) -> Table:
    """Table 2 by the paper's own protocol: means of the last 100 steps, of slates as they are shown while learning."""
    beside = findings.published.online if findings.published else {}
    what = Comparison("last-steps", "The last 100 steps of online learning", "online", LAST_LINES)
    return compare(findings, what, BASIC_BY_BOTH_RULES, beside)


def offline_table(findings: Findings) -> Table:
    """Table 3 of the paper; its ranking metrics are in the next."""
    beside = findings.published.offline if findings.published else {}
    metrics = ("reward", "max_reward", "r_ndcg", "r_mrr", "coverage", "ild", AUTHORS_RULE["ild"])
    what = Comparison("offline", "Offline models in the simulator", "offline", OFFLINE_LINES)
    return compare(findings, what, metrics, beside)


def ranking_table(findings: Findings) -> Table:
    """Table 4 of the paper."""
    beside = findings.published.offline if findings.published else {}
    what = Comparison("ranking", "Ranking metrics, online and test", "offline", OFFLINE_LINES)
    return compare(findings, what, (*RANKING, *(AUTHORS_RULE[metric] for metric in RANKING)), beside)


def balance_table(findings: Findings) -> Table:
    """Table 5 of the paper."""
    beside = findings.published.balance if findings.published else {}
    what = Comparison("balance", "Trajectory against detailed balance, offline", "offline", BALANCE_LINES)
    return compare(findings, what, tuple(COLUMNS), beside)


def curve_ends_table(findings: Findings) -> Table:
    """What the curves of the paper's Figure 4 end with."""
    what = Comparison("curves", "Trajectory against detailed balance, online", "online", CURVE_LINES)
    return compare(findings, what, BASIC_BY_BOTH_RULES, {})

"""Tables that compare models: the data set, online, offline, ranking, trajectory against detailed balance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gfn4rec.evaluation.held_out_protocol import POPULARITY, RANDOM
from gfn4rec.experiments.jobs.result import GREEDY
from gfn4rec.experiments.paper.models import AUTHORS
from gfn4rec.experiments.paper.protocol import Need
from gfn4rec.experiments.paper.published import Rows
from gfn4rec.experiments.paper.results import LAST_STEPS, SAMPLED, Results
from gfn4rec.experiments.report.tables import Column, Row, Table
from gfn4rec.metrics import METRICS, Group, metrics_of
from gfn4rec.training.config import Mode

TEST = "test_"
"""Prefix of metrics of the logged test slates."""
IN_PAPER = ("reward", "max_reward", "r_ndcg", "r_mrr", "coverage", "ild", "test_r_ndcg", "test_r_mrr")
"""Metrics that the paper reports, in its order."""


def column(metric: str) -> Column:
    """Return the column of a metric."""
    row = METRICS[metric.removeprefix(TEST)]
    name, comma, rule = row.label.partition(",")
    label = f"{name} (test){comma}{rule}" if metric.startswith(TEST) else row.label
    return Column(metric, label, row.decimals + 2 if row.is_share else row.decimals, row.better)


def compared_metrics(*groups: Group) -> tuple[str, ...]:
    """Return the metrics of groups that models are compared by: the paper's in its order, then others."""
    keys = [row.key for group in groups for row in metrics_of(group) if row.is_compared]
    return tuple(sorted(keys, key=lambda key: IN_PAPER.index(key) if key in IN_PAPER else len(IN_PAPER)))


def authors_metrics(metrics: Sequence[str]) -> tuple[str, ...]:
    """Return those metrics that the authors' code computes by a rule of its own, by that rule."""
    return tuple(
        prefix + row.authors_rule
        for prefix in ("", TEST)
        for row in METRICS.values()
        if row.authors_rule is not None and prefix + row.key in metrics
    )


def basic_metrics() -> tuple[str, ...]:
    """Return the metrics of most tables: of shown slates, by both rules."""
    metrics = compared_metrics("slates")
    return (*metrics, *authors_metrics(metrics))


PUBLISHED_AS = {(*authors_metrics([metric]), metric)[0]: metric for metric in IN_PAPER}
"""The paper's metrics, by the metrics they stand beside: by the authors' rule, where the rules differ."""


_HELD_OUT_NOTE = (
    "Before each test slate, the greedy slate of all items that the user has not met; relevant are the items that the "
    "user liked in the test slate. No simulator plays a part."
)


@dataclass(frozen=True)
class RowSpec:
    """A row of a table: the model, and how its slates were chosen."""

    model: str
    sampling: str = GREEDY
    is_baseline: bool = True
    published: str | None = None
    """The model's name in the paper, if the paper has it."""


ONLINE_ROWS: Mapping[str, RowSpec] = {
    "CF": RowSpec("CF", published="CF"),
    "ListCVAE": RowSpec("ListCVAE", SAMPLED, published="ListCVAE"),
    "PRM": RowSpec("PRM", published="PRM"),
    "GFN4Rec (Explore)": RowSpec("GFN4Rec", SAMPLED, False, "GFN4Rec (Explore)"),
    "GFN4Rec": RowSpec("GFN4Rec", GREEDY, False, "GFN4Rec"),
    "CF, top K": RowSpec("CF, top K"),
    "Boltzmann CF, sampled": RowSpec("Boltzmann CF", SAMPLED),
    "Boltzmann CF, greedy": RowSpec("Boltzmann CF", GREEDY),
    "Energy GFN, sampled": RowSpec("Energy GFN", SAMPLED, False),
    "Energy GFN, greedy": RowSpec("Energy GFN", GREEDY, False),
}
ONLINE_MODELS = tuple(dict.fromkeys(row.model for row in ONLINE_ROWS.values()))
AUTHORS_ROWS: Mapping[str, RowSpec] = {
    label: replace(row, model=AUTHORS[row.model]) for label, row in ONLINE_ROWS.items() if row.published
}
LAST_ROWS: Mapping[str, RowSpec] = {
    "CF": RowSpec("CF", LAST_STEPS, published="CF"),
    "ListCVAE": RowSpec("ListCVAE", LAST_STEPS, published="ListCVAE"),
    "PRM": RowSpec("PRM", LAST_STEPS, published="PRM"),
    "GFN4Rec (Explore)": RowSpec("GFN4Rec", LAST_STEPS, False, "GFN4Rec (Explore)"),
    "CF, top K": RowSpec("CF, top K", LAST_STEPS),
    "Boltzmann CF": RowSpec("Boltzmann CF", LAST_STEPS),
    "Energy GFN": RowSpec("Energy GFN", LAST_STEPS, False),
}
OFFLINE_ROWS: Mapping[str, RowSpec] = {
    "CF": RowSpec("CF", published="CF"),
    "ListCVAE": RowSpec("ListCVAE", SAMPLED, published="ListCVAE"),
    "RerankCF": RowSpec("RerankCF", published="RerankCF"),
    "PRM": RowSpec("PRM", published="PRM"),
    "GFN4Rec": RowSpec("GFN4Rec", GREEDY, False, "GFN4Rec"),
}
BALANCE_ROWS: Mapping[str, RowSpec] = {
    "DB": RowSpec("GFN4Rec (DB)", is_baseline=False, published="DB"),
    "TB": RowSpec("GFN4Rec", is_baseline=False, published="TB"),
}
CURVE_ROWS: Mapping[str, RowSpec] = {
    f"{label}, {name}": replace(row, sampling=sampling, published=None)
    for label, row in BALANCE_ROWS.items()
    for name, sampling in (("greedy", GREEDY), ("Explore", SAMPLED))
}


def needs_of_rows(mode: Mode, rows: Mapping[str, RowSpec]) -> tuple[Need, ...]:
    """Return the models of a table's rows."""
    return tuple(dict.fromkeys((mode, row.model) for row in rows.values()))


@dataclass(frozen=True)
class Comparison:
    """A table that compares models of one mode of training, with a row for each."""

    name: str
    title: str
    mode: Mode
    rows: Mapping[str, RowSpec]


def compare(results: Results, comparison: Comparison, metrics: Sequence[str], published: Rows) -> Table:
    """Return a table with a column for each metric, and the paper's values where it has them.

    A metric that neither the runs nor the paper have is left out.
    """
    rows = []
    for label, row in comparison.rows.items():
        need: Need = (comparison.mode, row.model)
        values = {metric: results.values(need, metric, row.sampling) for metric in metrics}
        of_paper = published.get(row.published or "", {})
        rows.append(
            Row(
                label,
                {metric: by_seed for metric, by_seed in values.items() if by_seed},
                {key: of_paper[name] for key in values if (name := PUBLISHED_AS.get(key)) in of_paper},
                is_baseline=row.is_baseline,
            )
        )
    caption = results.caption(*needs_of_rows(comparison.mode, comparison.rows))
    if any(row.published for row in rows):
        caption += f" {results.describe_published()}"
    columns = [column(metric) for metric in metrics if any(metric in {**row.values, **row.published} for row in rows)]
    return Table(comparison.name, comparison.title, caption, columns, rows)


def held_out_table(results: Results, mode: Mode, models: Mapping[str, str], name: str, title: str) -> Table:
    """Return the held-out metrics of models by label, and of references.

    A column stays even if no run has its metric, as in results that are older than it.
    """
    rows = {label: RowSpec(model) for label, model in models.items()}
    first = next(iter(models.values()))
    rows |= {reference.capitalize(): RowSpec(first, reference) for reference in (POPULARITY, RANDOM)}
    metrics = compared_metrics("held_out")
    table = compare(results, Comparison(name, title, mode, rows), metrics, {})
    caption = f"{_HELD_OUT_NOTE} {table.caption}"
    return replace(table, caption=caption, columns=[column(metric) for metric in metrics])


def online_held_out_table(results: Results) -> Table:
    """Return the held-out metrics of the models of Table 2."""
    models = {model: model for model in ONLINE_MODELS}
    return held_out_table(results, "online", models, "online-held-out", "Online models on the log")


def offline_held_out_table(results: Results) -> Table:
    """Return the held-out metrics of the models of Table 3."""
    models = {row.model: row.model for row in OFFLINE_ROWS.values()}
    return held_out_table(results, "offline", models, "offline-held-out", "Offline models on the log")


def data_table(results: Results) -> Table:
    """Return Table 1 of the paper."""
    data, published = results.benchmark.data, results.published
    counts, (low, high) = data.statistics, data.reward_range
    ours = {"users": counts.users, "items": counts.items, "records": counts.records, "behaviours": len(data.behaviours)}
    columns = [Column(key, key.capitalize(), decimals=0, is_better="none") for key in ours]
    columns.append(Column("range", "Reward range", is_better="none"))
    row = Row(data.name, {key: [value] for key, value in ours.items()}, texts={"range": f"[{low:g}, {high:g}]"})
    rows = [row]
    if published is not None and data.name in published.data_sets:
        rows = [replace(row, published=published.summary)]
    elif published is not None:  # a similar data set
        summary = {key: [value] for key, value in published.summary.items()}
        rows.append(Row(f"{published.name} (paper)", summary, texts={"range": published.reward_range}))
    caption = f"After a {data.settings.core}-core filter, with slates of {data.settings.slate_size} items."
    return Table("data", "Data set", caption, columns, rows)


def online_table(results: Results) -> Table:
    """Return Table 2 of the paper, with the energy GFN and the strongest simple baseline."""
    comparison = Comparison("online", "Online learning", "online", ONLINE_ROWS)
    return compare(results, comparison, basic_metrics(), results.paper.online)


def authors_table(results: Results) -> Table:
    """Return Table 2 with the settings of the authors' scripts."""
    comparison = Comparison("authors", "Online learning with the authors' settings", "online", AUTHORS_ROWS)
    return compare(results, comparison, basic_metrics(), results.paper.online)


def last_steps_table(results: Results) -> Table:
    """Return Table 2 by the paper's own protocol: means over the last 100 training steps, of slates as sampled then."""
    comparison = Comparison("last-steps", "The last 100 steps of online learning", "online", LAST_ROWS)
    return compare(results, comparison, basic_metrics(), results.paper.online)


def offline_table(results: Results) -> Table:
    """Return Table 3 of the paper."""
    comparison = Comparison("offline", "Offline models in the simulator", "offline", OFFLINE_ROWS)
    metrics = (*compared_metrics("slates", "ranking"), *authors_metrics(compared_metrics("slates")))
    return compare(results, comparison, metrics, results.paper.offline)


def ranking_table(results: Results) -> Table:
    """Return Table 4 of the paper."""
    comparison = Comparison("ranking", "Ranking metrics, online and test", "offline", OFFLINE_ROWS)
    metrics = _with_test(compared_metrics("ranking"))
    return compare(results, comparison, (*metrics, *authors_metrics(metrics)), results.paper.offline)


def balance_table(results: Results) -> Table:
    """Return Table 5 of the paper."""
    comparison = Comparison("balance", "Trajectory against detailed balance, offline", "offline", BALANCE_ROWS)
    metrics = _with_test(compared_metrics("slates", "ranking"))
    return compare(results, comparison, (*metrics, *authors_metrics(metrics)), results.paper.balance)


def curve_ends_table(results: Results) -> Table:
    """Return the final values of the curves in Figure 4 of the paper."""
    comparison = Comparison("curves", "Trajectory against detailed balance, online", "online", CURVE_ROWS)
    return compare(results, comparison, basic_metrics(), {})


def _with_test(metrics: Sequence[str]) -> tuple[str, ...]:
    """Return metrics, then the ranking metrics among them of the logged test slates."""
    return (*metrics, *(TEST + metric for metric in compared_metrics("ranking") if metric in metrics))

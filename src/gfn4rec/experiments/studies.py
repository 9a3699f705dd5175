"""The tables and figures that look closer: sensitivity, time, offline against online, feasibility of the simulator."""

from collections.abc import Mapping, Sequence

from gfn4rec.evaluation.scores import rank_correlation
from gfn4rec.experiments.comparisons import BASIC_BY_BOTH_RULES, COLUMNS, ONLINE_MODELS, Comparison, Line, compare
from gfn4rec.experiments.findings import Findings
from gfn4rec.experiments.models import SENSITIVITY
from gfn4rec.experiments.protocol import Need
from gfn4rec.experiments.tables import Column, Row, Table

PAPER_STEPS = 5000
IN_BOTH = ("CF", "ListCVAE", "PRM", "GFN4Rec", "GFN4Rec (DB)")
OFFLINE_MODELS = ("CF", "ListCVAE", "RerankCF", "PRM", "GFN4Rec", "GFN4Rec (DB)")


def sensitivity_lines(parameter: str) -> Mapping[str, Line]:
    """A row per value."""
    return {
        f"{parameter} = {value}": Line(f"{parameter} = {value}", is_baseline=False, published=str(value))
        for value in SENSITIVITY[parameter].values
    }


def sensitivity_table(findings: Findings, parameter: str) -> Table:
    """Tables 6 and 7 of the paper; of b_z it says in words only that 1 suffices."""
    beside = findings.published.sensitivity.get(parameter, {}) if findings.published else {}
    what = Comparison(parameter, f"Sensitivity to {parameter}", "online", sensitivity_lines(parameter))
    return compare(findings, what, BASIC_BY_BOTH_RULES, beside)


def time_table(findings: Findings) -> Table:
    """Section A.3 of the paper: how long showing and learning take."""
    beside = findings.published.time if findings.published else {}
    rows = []
    for model in ONLINE_MODELS:
        per_step = findings.values(("online", model), "seconds_per_step")
        values = {
            "milliseconds": [1000 * each for each in per_step],
            "seconds": [PAPER_STEPS * each for each in per_step],
        }
        rows.append(Row(model, values, beside.get(model, {})))
    columns = [
        Column("milliseconds", "Milliseconds per step", 1, "lower"),
        Column("seconds", f"Seconds for {PAPER_STEPS:,} steps", 0, "lower"),
    ]
    caption = findings.caption(*(("online", model) for model in ONLINE_MODELS))
    note = "On the machines that made the runs, which others may have shared; the paper's figures are of a GPU."
    return Table("time", "Running time", f"{caption} {note}", columns, rows)


def transfer_table(findings: Findings) -> Table:
    """Section 4.3.4 of the paper: what learning online gains over learning from the log."""
    rows = []
    for model in IN_BOTH:
        online, offline = (findings.values((kind, model), "reward") for kind in ("online", "offline"))
        beside = {}
        # ListCVAE is sampled in the paper's table, and greedy here, as all are.
        if findings.published is not None and model != "ListCVAE":
            of_paper = findings.published
            for kind, table in (("online", of_paper.online), ("offline", of_paper.offline)):
                if model in table:
                    beside[kind] = table[model]["reward"]
        values = {"offline": offline, "online": online}
        gain = [100 * (one - other) / abs(other) for one, other in zip(online, offline, strict=True) if other]
        if len(gain) == len(offline):
            values["gain"] = tuple(gain)
        rows.append(Row(model, values, beside))
    columns = [
        Column("offline", "Learned offline"),
        Column("online", "Learned online"),
        Column("gain", "Gain in percent", 1, "none"),
    ]
    caption = findings.caption(*((kind, model) for kind in ("offline", "online") for model in IN_BOTH))
    note = "Average reward of greedy slates; what learned offline meets users as they stood before their test slates."
    if any(row.published for row in rows):
        caption += f" {findings.beside()}"
    return Table("transfer", "Offline against online", f"{note} {caption}", columns, rows)


def feasibility_table(findings: Findings) -> Table:
    """Section 4.3.3 of the paper: do metrics on the log order models as the simulator does?"""
    needs: list[Need] = [("offline", model) for model in OFFLINE_MODELS]
    rows = []
    for rule, ending in (("by the model's order", ""), ("authors' rule", "_unsorted")):
        for metric in ("r_ndcg", "r_mrr"):
            label, on_log = f"{COLUMNS[metric].label}, {rule}", f"test_{metric}{ending}"
            shown, values = f"{metric}{ending}", {}
            pairs = {"reward": (on_log, "reward"), "same": (on_log, shown), "shown": (shown, "reward")}
            for key, pair in pairs.items():
                found = _correlation(findings, needs, *pair)
                if found is not None:
                    values[key] = [found]
            rows.append(Row(label, values, is_baseline=False))
    columns = [
        Column("reward", "On the log, with the average reward", 3, "none"),
        Column("same", "On the log, with the same metric online", 3, "none"),
        Column("shown", "Online, with the average reward", 3, "none"),
    ]
    note = (
        "Rank correlation over all offline models, each by its mean over seeds, between metrics on logged slates and "
        "in the simulator. By the authors' rule no ranking metric uses the model's order: on the log it is the same "
        "for all models, so that nothing correlates with it, and in the simulator it follows the average reward. The "
        "paper's claim of consistency rests on these."
    )
    return Table("feasibility", "Feasibility of the simulator", f"{note} {findings.caption(*needs)}", columns, rows)


def _correlation(findings: Findings, needs: Sequence[Need], one: str, other: str) -> float | None:
    """Over all models that have both metrics; seeds of a model are no points of their own."""
    both = [need for need in needs if findings.values(need, one) and findings.values(need, other)]
    return rank_correlation(*([findings.mean(need, metric) for need in both] for metric in (one, other)))

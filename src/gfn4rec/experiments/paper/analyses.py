"""The paper's further analyses: sensitivity, running time, offline against online, feasibility of the simulator."""

from collections.abc import Mapping, Sequence

from gfn4rec.evaluation.scores import rank_correlation
from gfn4rec.experiments.paper.comparisons import ONLINE_MODELS, Comparison, RowSpec, basic_metrics, compare
from gfn4rec.experiments.paper.models import SENSITIVITY
from gfn4rec.experiments.paper.protocol import Need
from gfn4rec.experiments.paper.results import Results
from gfn4rec.experiments.report.tables import Column, Row, Table
from gfn4rec.metrics import METRICS

PAPER_STEPS = 5000
IN_BOTH = ("CF", "ListCVAE", "PRM", "GFN4Rec", "GFN4Rec (DB)")  # trained online and offline
OFFLINE_MODELS = ("CF", "ListCVAE", "RerankCF", "PRM", "GFN4Rec", "GFN4Rec (DB)")


def sensitivity_rows(parameter: str) -> Mapping[str, RowSpec]:
    """Return a row for each value of a parameter."""
    return {
        f"{parameter} = {value}": RowSpec(f"{parameter} = {value}", is_baseline=False, published=str(value))
        for value in SENSITIVITY[parameter].values
    }


def sensitivity_table(results: Results, parameter: str) -> Table:
    """Return Table 6 or 7 of the paper, or the same for b_z, for which the paper prints no values."""
    comparison = Comparison(parameter, f"Sensitivity to {parameter}", "online", sensitivity_rows(parameter))
    return compare(results, comparison, basic_metrics(), results.paper.sensitivity.get(parameter, {}))


def time_table(results: Results) -> Table:
    """Return the running times of section A.3 of the paper: sampling slates and learning."""
    rows = []
    for model in ONLINE_MODELS:
        per_step = results.values(("online", model), "seconds_per_step")
        values = {
            "milliseconds": [1000 * seconds for seconds in per_step],
            "seconds": [PAPER_STEPS * seconds for seconds in per_step],
        }
        rows.append(Row(model, values, results.paper.time.get(model, {})))
    columns = [
        Column("milliseconds", "Milliseconds per step", 1, "lower"),
        Column("seconds", f"Seconds for {PAPER_STEPS:,} steps", 0, "lower"),
    ]
    caption = results.caption(*(("online", model) for model in ONLINE_MODELS))
    note = "Measured on the machines that made the runs, which may have had other load; the paper used a GPU."
    return Table("time", "Running time", f"{caption} {note}", columns, rows)


def transfer_table(results: Results) -> Table:
    """Return the rewards of section 4.3.4 of the paper: trained online against trained on the log."""
    rows = [_transfer_row(results, model) for model in IN_BOTH]
    columns = [
        Column("offline", "Trained offline"),
        Column("online", "Trained online"),
        Column("gain", "Gain in percent", 1, "none"),
    ]
    caption = results.caption(*((mode, model) for mode in ("offline", "online") for model in IN_BOTH))
    note = (
        "Average reward of greedy slates. Policies trained offline are measured on users in the state before their "
        "test slates."
    )
    if any(row.published for row in rows):
        caption += f" {results.describe_published()}"
    return Table("transfer", "Offline against online", f"{note} {caption}", columns, rows)


def _transfer_row(results: Results, model: str) -> Row:
    online, offline = (results.values((mode, model), "reward") for mode in ("online", "offline"))
    values = {"offline": offline, "online": online}
    gain = [100 * (one - other) / abs(other) for one, other in zip(online, offline, strict=True) if other]
    if len(gain) == len(offline):
        values["gain"] = tuple(gain)
    published = {}
    if model != "ListCVAE":  # sampled in the paper's tables, greedy here
        tables = {"online": results.paper.online, "offline": results.paper.offline}
        published = {mode: rows[model]["reward"] for mode, rows in tables.items() if model in rows}
    return Row(model, values, published)


def feasibility_table(results: Results) -> Table:
    """Return the rank correlations of section 4.3.3 of the paper, between metrics on the log and in the simulator."""
    needs: list[Need] = [("offline", model) for model in OFFLINE_MODELS]
    rows = []
    for rule, suffix in (("by the model's order", ""), ("authors' rule", "_unsorted")):
        for metric in ("r_ndcg", "r_mrr"):
            online = f"{metric}{suffix}"
            on_log = f"test_{online}"
            pairs = {"reward": (on_log, "reward"), "same": (on_log, online), "shown": (online, "reward")}
            correlations = {key: _correlation(results, needs, *pair) for key, pair in pairs.items()}
            values = {key: [value] for key, value in correlations.items() if value is not None}
            rows.append(Row(f"{METRICS[metric].label}, {rule}", values, is_baseline=False))
    columns = [
        Column("reward", "Test metric and average reward", 3, "none"),
        Column("same", "Test metric and the same metric online", 3, "none"),
        Column("shown", "Online metric and average reward", 3, "none"),
    ]
    note = (
        "Rank correlation over all models trained offline, each with its mean over seeds, between metrics on logged "
        "test slates and in the simulator. By the authors' rule no ranking metric depends on the model's order: on the "
        "log it is the same for all models, so that no correlation is defined, and in the simulator it follows the "
        "average reward. The paper's claim of consistency rests on these metrics."
    )
    return Table("feasibility", "Feasibility of the simulator", f"{note} {results.caption(*needs)}", columns, rows)


def _correlation(results: Results, needs: Sequence[Need], one: str, other: str) -> float | None:
    """Return the rank correlation over models that have both metrics; a model is one point, whatever its seeds."""
    both = [need for need in needs if results.values(need, one) and results.values(need, other)]
    return rank_correlation(*([results.mean(need, metric) for need in both] for metric in (one, other)))

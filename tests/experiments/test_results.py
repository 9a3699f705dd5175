"""Tables and figures of given results."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from gfn4rec.experiments.jobs.result import Example
from gfn4rec.experiments.paper import analyses, comparisons, figures
from gfn4rec.experiments.paper.models import MODELS
from gfn4rec.experiments.paper.page import environment, write_report
from gfn4rec.experiments.paper.protocol import BUDGETS, Need, Protocol
from gfn4rec.experiments.paper.published import describe_differences, published
from gfn4rec.experiments.paper.reproductions import REPRODUCTIONS, Reproduction
from gfn4rec.experiments.report.tables import Column, Row, Table
from tests.experiments.book import SEEDS, Book, cell, oracle_point

ORIENTATION = "The paper's values are for its {} in another simulator and serve for orientation only."
TABLES_WITH_REASONS = (comparisons.data_table, comparisons.online_table, comparisons.offline_table)


def test_online_rows_take_greedy_or_sampled_slates(book: Book) -> None:
    book.greedy["online", "GFN4Rec"] = {"reward": 2.2, "coverage": 15}
    book.sampled["online", "GFN4Rec"] = {"reward": 2.0, "coverage": 90}
    book.sampled["online", "ListCVAE"] = {"reward": 0.9}
    table = comparisons.online_table(book.results())
    assert cell(table, "GFN4Rec", "reward") == (2.2, 2.2)
    assert cell(table, "GFN4Rec", "coverage") == (15, 15)
    assert cell(table, "GFN4Rec (Explore)", "reward") == (2.0, 2.0)
    assert cell(table, "GFN4Rec (Explore)", "coverage") == (90, 90)
    assert cell(table, "ListCVAE", "reward") == (0.9, 0.9)
    published = {row.label: row.published.get("reward") for row in table.rows}
    assert published["GFN4Rec (Explore)"] == 2.047
    assert published["PRM"] == 2.156
    assert published["Energy GFN, greedy"] is None
    assert [row.label for row in table.rows if not row.is_baseline] == [
        "GFN4Rec (Explore)",
        "GFN4Rec",
        "Energy GFN, sampled",
        "Energy GFN, greedy",
    ]
    assert ": 5,000 steps online, 2 seeds." in table.caption
    assert table.caption.endswith(ORIENTATION.format("ML1M"))


def test_the_papers_summary_stands_beside_the_same_data_set_and_below_one_of_its_kind(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = book.benchmark.data
    monkeypatch.setitem(book.benchmark.__dict__, "data", data.model_copy(update={"name": "ml-1m"}))
    (row,) = comparisons.data_table(book.results("ml-1m")).rows
    assert row.values["users"] == [data.statistics.users]
    assert row.published == {"users": 6400, "items": 3706, "records": 1000208, "behaviours": 3}
    monkeypatch.setitem(book.benchmark.__dict__, "data", data.model_copy(update={"name": "kuairand-pure"}))
    ours, theirs = comparisons.data_table(book.results("kuairand-pure")).rows
    assert not ours.published
    assert (theirs.label, theirs.values["items"], theirs.texts) == ("KR1K (paper)", [69219], {"range": "[-1, 6]"})
    assert len(comparisons.data_table(book.results("own log")).rows) == 1


def test_every_row_has_the_metrics_of_its_own_model(book: Book) -> None:
    """Each model has a reward of its own, greedy and sampled, in each mode of learning."""
    for number, model in enumerate(MODELS):
        book.greedy["online", model], book.sampled["online", model] = {"reward": number}, {"reward": number + 0.5}
        book.greedy["offline", model], book.last_steps["online", model] = {"reward": -number}, {"reward": number + 0.25}
        book.sampled["offline", model] = {"reward": -number - 0.5}
    names = list(MODELS)
    results = book.results()
    rewards = {row.label: row.values["reward"][0] for row in comparisons.online_table(results).rows}
    assert rewards == {
        "CF": names.index("CF"),
        "ListCVAE": names.index("ListCVAE") + 0.5,
        "PRM": names.index("PRM"),
        "GFN4Rec (Explore)": names.index("GFN4Rec") + 0.5,
        "GFN4Rec": names.index("GFN4Rec"),
        "CF, top K": names.index("CF, top K"),
        "Boltzmann CF, sampled": names.index("Boltzmann CF") + 0.5,
        "Boltzmann CF, greedy": names.index("Boltzmann CF"),
        "Energy GFN, sampled": names.index("Energy GFN") + 0.5,
        "Energy GFN, greedy": names.index("Energy GFN"),
    }
    last = {row.label: row.values["reward"][0] for row in comparisons.last_steps_table(results).rows}
    own = {"GFN4Rec (Explore)": "GFN4Rec"}
    assert last == {label: names.index(own.get(label, label)) + 0.25 for label in last}
    assert len(last) == 7
    offline = comparisons.offline_table(results)
    assert {row.label: row.values["reward"][0] for row in offline.rows} == {
        "ListCVAE": -names.index("ListCVAE") - 0.5,
        **{name: -names.index(name) for name in ("CF", "RerankCF", "PRM", "GFN4Rec")},
    }
    assert {row.label: row.published.get("reward") for row in offline.rows} == {
        "CF": 1.675,
        "ListCVAE": None,
        "RerankCF": 1.901,
        "PRM": 1.914,
        "GFN4Rec": 1.996,
    }


def test_curves_are_of_both_objectives_greedy_and_sampled(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(figures, "plot_curves", lambda series, _: drawn.update(series))
    evaluations = [({"reward": 1.0}, {"reward": 2.0}), ({"reward": 3.0}, {"reward": 4.0})]
    book.curve["online", "GFN4Rec"] = evaluations
    book.curve["online", "GFN4Rec (DB)"] = [({"reward": 5.0}, {"reward": 6.0})]
    figures.curves_figure(book.results())
    rewards = {name: [point["reward"] for _, point in curves[0]] for name, curves in drawn.items()}
    assert rewards == {"TB, greedy": [1, 3], "TB, Explore": [2, 4], "DB, greedy": [5], "DB, Explore": [6]}
    assert all(len(curves) == len(SEEDS) for curves in drawn.values())


def test_curves_end_in_values_of_both_objectives_greedy_and_sampled(book: Book) -> None:
    book.greedy["online", "GFN4Rec (DB)"] = {"reward": 2.3}
    book.sampled["online", "GFN4Rec"] = {"reward": 2.0}
    table = comparisons.curve_ends_table(book.results())
    rewards = {row.label: row.values["reward"] for row in table.rows}
    assert rewards == {"DB, greedy": (2.3, 2.3), "DB, Explore": (1, 1), "TB, greedy": (1, 1), "TB, Explore": (2, 2)}
    assert not any(row.published for row in table.rows)


def test_the_frontier_has_every_temperature_and_the_oracle_without_its_random_point(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "plot_frontier", lambda policies, oracle: drawn.extend([policies, oracle]))
    book.sampled["online", "PRM"] = {"expected_reward": 1.5, "coverage": 70.0}
    book.oracle = [
        oracle_point("random", 700.0, 0.7),
        oracle_point("boltzmann", 300.0, 2.2),
    ]
    figures.frontier_figure(book.results())
    policies, oracle = drawn
    assert [(point.coverage, point.reward) for point in policies["PRM"]] == [
        ([10.0, 10.0], [1.0, 1.0]),
        ([70.0, 70.0], [1.5, 1.5]),
    ]
    assert [(point.coverage, point.reward) for point in oracle] == [([300.0], [2.2])]


def test_differences_from_the_paper_are_listed(book: Book) -> None:
    book.greedy["online", "CF"] = {"reward": 2.073 * 1.04, "max_reward": 2.939 * 1.1, "coverage": 13.963}
    table = comparisons.online_table(book.results())
    (text,) = describe_differences([table], {})
    summary = f"{table.title}: 13 of 15 values differ from the paper's by more than 5%."
    assert text.startswith(f"{summary} CF: maximum reward +10%. ListCVAE: average reward +6%; ")
    assert " GFN4Rec: average reward -54%; maximum reward -33%; coverage -36%." in text
    assert describe_differences([comparisons.online_table(book.results("own log"))], {"online": {"CF": "why"}}) == []


def test_reasons_are_given_for_rows_that_differ(book: Book) -> None:
    book.greedy["online", "CF"] = {"reward": 2.073, "max_reward": 2.939, "coverage": 13.963}
    tables = [comparisons.online_table(book.results()), comparisons.offline_table(book.results())]
    reasons = {"online": {"CF": "as printed", "PRM": "one", "Unknown": "none"}, "time": {"PRM": "other"}}
    assert describe_differences(tables, reasons)[2:] == ["PRM: one"]


def test_values_that_agree_are_not_listed() -> None:
    rows = [Row("CF", {"reward": (1.04,)}, {"reward": 1.0})]
    table = Table("online", "Online learning", "", [Column("reward", "Reward")], rows)
    text = "Online learning: all values are within 5% of the paper's."
    assert describe_differences([table], {"online": {"CF": "why"}}) == [text]


def test_reasons_name_tables_and_rows_that_there_are(book: Book) -> None:
    for each in published():
        tables = {table.name: table for table in (make(book.results()) for make in TABLES_WITH_REASONS)}
        for name, of_table in each.reasons.items():
            labels = each.data_sets if name == "data" else [row.label for row in tables[name].rows]
            assert set(of_table) <= set(labels)


@pytest.mark.parametrize(
    ("budget", "notice"), [("quick", "Not a result"), ("short", "far fewer steps than the paper's")]
)
def test_tables_of_fewer_steps_say_so(book: Book, budget: str, notice: str) -> None:
    book.protocol = Protocol(BUDGETS[budget], num_seeds=2)
    assert notice in comparisons.online_table(book.results()).caption


def test_a_data_set_that_the_paper_does_not_have_is_not_compared(book: Book) -> None:
    table = comparisons.online_table(book.results("own log"))
    assert not any(row.published for row in table.rows)


def test_the_papers_ranking_metrics_stand_beside_the_authors_rule_only(book: Book) -> None:
    book.greedy["offline", "CF"] = {"r_ndcg_unsorted": 0.57, "r_mrr_unsorted": 0.07}
    book.sampled["offline", "ListCVAE"] = {"r_ndcg_unsorted": 0.56}
    book.test["offline", "CF"] = {"r_ndcg_unsorted": 0.5, "r_mrr_unsorted": 0.08}
    results = book.results()
    offline, ranking = comparisons.offline_table(results), comparisons.ranking_table(results)
    assert "r_ndcg" not in offline.rows[0].published
    assert offline.rows[0].published["reward"] == 1.675
    row = ranking.rows[0]
    assert row.values["r_ndcg"] == (0.4, 0.4)
    assert row.values["r_ndcg_unsorted"] == (0.57, 0.57)
    assert row.values["test_r_mrr_unsorted"] == (0.08, 0.08)
    assert cell(ranking, "ListCVAE", "r_ndcg_unsorted") == (0.56, 0.56)
    assert row.published == {
        "r_ndcg_unsorted": 0.563,
        "r_mrr_unsorted": 0.0713,
        "test_r_ndcg_unsorted": 0.533,
        "test_r_mrr_unsorted": 0.0824,
    }


def test_the_papers_diversity_stands_beside_the_authors_rule_only(book: Book) -> None:
    book.greedy["online", "CF"] = {"ild": 0.13, "ild_reference": 0.529 * 1.1}
    table = comparisons.online_table(book.results())
    assert cell(table, "CF", "ild") == (0.13, 0.13)
    assert cell(table, "CF", "ild_reference") == (0.529 * 1.1, 0.529 * 1.1)
    assert table.rows[0].published == {
        "reward": 2.073,
        "max_reward": 2.939,
        "coverage": 13.963,
        "ild_reference": 0.529,
    }
    (text,) = describe_differences([table], {})
    assert "CF: average reward -52%; maximum reward -32%; coverage -28%; ILD, authors' rule +10%." in text


def test_balance_compares_the_two_objectives(book: Book) -> None:
    book.greedy["offline", "GFN4Rec (DB)"] = {"reward": 2.03}
    book.test["offline", "GFN4Rec (DB)"] = {"r_ndcg": 0.36}
    table = comparisons.balance_table(book.results("kuairand-1k"))
    assert cell(table, "DB", "reward") == (2.03, 2.03)
    assert cell(table, "DB", "test_r_ndcg") == (0.36, 0.36)
    assert table.rows[0].published == {
        "reward": 2.034,
        "max_reward": 3.905,
        "ild_reference": 0.582,
        "r_ndcg_unsorted": 0.400,
        "r_mrr_unsorted": 0.0859,
        "test_r_ndcg_unsorted": 0.363,
        "test_r_mrr_unsorted": 0.0423,
    }
    assert cell(table, "TB", "reward") == (1.0, 1.0)


def test_sensitivity_has_a_row_per_value(book: Book) -> None:
    book.greedy["online", "b_f = 0.3"] = {"reward": 2.3}
    table = analyses.sensitivity_table(book.results("kuairand-1k"), "b_f")
    assert [row.label for row in table.rows] == [f"b_f = {value}" for value in (0.1, 0.3, 0.5, 0.7, 0.9)]
    assert cell(table, "b_f = 0.3", "reward") == (2.3, 2.3)
    assert table.rows[1].published["reward"] == 2.359
    assert not analyses.sensitivity_table(book.results("kuairand-1k"), "b_z").rows[0].published


def test_time_is_per_step(book: Book) -> None:
    book.seconds["online", "CF"] = 50.0
    table = analyses.time_table(book.results("kuairand-1k"))
    assert cell(table, "CF", "milliseconds") == pytest.approx([50.0, 51.0])
    assert cell(table, "CF", "seconds") == pytest.approx([250.0, 255.0])
    assert table.rows[0].published == {"seconds": 3341}


def test_transfer_is_the_gain_of_learning_online(book: Book) -> None:
    book.greedy["online", "CF"], book.greedy["offline", "CF"] = {"reward": 2.5}, {"reward": 2.0}
    table = analyses.transfer_table(book.results())
    assert cell(table, "CF", "gain") == pytest.approx([25.0, 25.0])
    assert table.rows[0].published == {"online": 2.073, "offline": 1.675}
    assert [row.published for row in table.rows if row.label == "ListCVAE"] == [{}]  # ours is greedy, theirs is not
    assert ": 5,000 steps online and at most 10,000 steps offline, 2 seeds." in table.caption
    assert table.caption.endswith(ORIENTATION.format("ML1M"))
    assert "orientation" not in analyses.transfer_table(book.results("mine")).caption


def test_the_authors_settings_have_a_table_of_their_own(book: Book) -> None:
    book.greedy["online", "CF, the authors' settings"] = {"reward": 1.7}
    book.sampled["online", "GFN4Rec, the authors' settings"] = {"reward": 1.9}
    table = comparisons.authors_table(book.results())
    assert cell(table, "CF", "reward") == (1.7, 1.7)
    assert cell(table, "GFN4Rec (Explore)", "reward") == (1.9, 1.9)
    assert cell(table, "GFN4Rec", "reward") == (1.0, 1.0)
    assert table.rows[0].published["reward"] == 2.073


def test_in_the_authors_simulator_values_are_compared_and_differences_explained(
    book: Book, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    online = {"online": REPRODUCTIONS["online"]}
    page = write_page(online, book, tmp_path)
    assert "CF: Our CF regresses" not in page
    users = book.benchmark.simulator.model_copy(update={"kind": "reference"})
    monkeypatch.setitem(book.benchmark.__dict__, "simulator", users)
    assert comparisons.online_table(book.results()).caption.endswith(" The paper's values are for its ML1M.")
    assert "CF: Our CF regresses" in write_page(online, book, tmp_path)


def write_page(sections: dict[str, Reproduction], book: Book, out: Path) -> str:
    for folder in ("tables", "plots"):
        (out / folder).mkdir(exist_ok=True)
    write_report(sections, book.results(), out)
    return (out / "README.md").read_text(encoding="utf-8")


def test_sensitivity_is_drawn_beside_the_papers(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "plot_sensitivity", lambda *parts: drawn.append(parts))
    book.greedy["online", "b_f = 0.3"] = {"reward": 2.3}
    picture = figures.sensitivity_figure(book.results("kuairand-1k"), "b_f")
    ((parameter, values, ours, beside),) = drawn
    assert (parameter, values) == ("b_f", (0.1, 0.3, 0.5, 0.7, 0.9))
    assert ours["Average reward"] == [(1, 1), (2.3, 2.3), (1, 1), (1, 1), (1, 1)]
    assert beside["Average reward"][1] == (0.3, 2.359)
    assert set(beside) == set(ours)
    assert picture.caption.endswith(ORIENTATION.format("KR1K"))
    assert "orientation" not in figures.sensitivity_figure(book.results("ml-1m"), "b_f").caption


def test_feasibility_is_a_rank_correlation_over_models(book: Book) -> None:
    for number, model in enumerate(analyses.OFFLINE_MODELS):
        book.test["offline", model] = {"r_ndcg": 0.1 * number, "r_mrr": -0.1 * number, "r_mrr_unsorted": 0.08}
        # Means are in order, single seeds are not.
        book.by_seed["offline", model] = [
            {"reward": 1 + number + shift, "r_ndcg": -number, "r_mrr_unsorted": number} for shift in (-3, 3)
        ]
    table = analyses.feasibility_table(book.results())
    assert cell(table, "R-NDCG, by the model's order", "reward") == pytest.approx([1.0])
    assert cell(table, "R-NDCG, by the model's order", "same") == pytest.approx([-1.0])
    assert cell(table, "R-NDCG, by the model's order", "shown") == pytest.approx([-1.0])
    assert cell(table, "R-MRR, by the model's order", "reward") == pytest.approx([-1.0])
    assert cell(table, "R-MRR, authors' rule", "reward") is None  # the same for all models
    assert cell(table, "R-MRR, authors' rule", "shown") == pytest.approx([1.0])


def test_a_page_shows_the_first_seeds_slates_of_compared_models_online_and_offline(book: Book, tmp_path: Path) -> None:
    results = book.results()
    needs: list[Need] = [("online", "CF"), ("offline", "CF"), ("online", "b_f = 0.1")]
    runs = {
        need: [
            outcome.model_copy(update={"examples": (Example(user="7", way="greedy", titles=(f"{need} {seed}",)),)})
            for seed, outcome in enumerate(results.runs[need])
        ]
        for need in needs
    }
    page = write_report({}, replace(results, runs=runs), tmp_path).page.read_text(encoding="utf-8")
    assert page.index("CF</") < page.index("CF, trained offline</")
    shown = [title for title in (f"{need} {seed}" for need in needs for seed in SEEDS) if escape(title) in page]
    assert shown == ["('online', 'CF') 0", "('offline', 'CF') 0"]


def test_commits_of_runs_are_listed_and_unknown_ones_counted(book: Book) -> None:
    results = book.results()
    assert environment(results)["Commits"] == "unknown"
    one, other = results.runs["online", "CF"]
    known = [one.model_copy(update={"git_hash": "0123456789abcdef"}), other]
    assert environment(replace(results, runs={("online", "CF"): known}))["Commits"] == "0123456789ab, unknown"
    assert environment(replace(results, runs={}))["Commits"] == "none"


def test_a_run_of_two_tables_is_counted_once(book: Book) -> None:
    runs = book.results().runs["online", "CF"]
    of_two = replace(book.results(), runs={("online", "b_z = 1.0"): runs, ("online", "b_r = 0.5"): runs})
    assert environment(of_two)["Runs"] == "2, trained for 0.1 hours in total"

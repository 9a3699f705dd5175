"""Tables and figures of outcomes that are written down."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from gfn4rec.experiments import comparisons, figures, studies
from gfn4rec.experiments.disagreement import disagreements
from gfn4rec.experiments.models import MODELS
from gfn4rec.experiments.outcome import Example
from gfn4rec.experiments.protocol import BUDGETS, Need, Protocol
from gfn4rec.experiments.published import published
from gfn4rec.experiments.reproduce import environment, write_all
from gfn4rec.experiments.reproductions import REPRODUCTIONS, Reproduction
from gfn4rec.experiments.tables import Column, Row, Table
from tests.experiments.book import SEEDS, Book, cell

TABLES_WITH_REASONS = (comparisons.data_table, comparisons.online_table, comparisons.offline_table)


def test_online_rows_take_greedy_or_sampled_slates(book: Book) -> None:
    book.greedy["online", "GFN4Rec"] = {"reward": 2.2, "coverage": 15}
    book.sampled["online", "GFN4Rec"] = {"reward": 2.0, "coverage": 90}
    book.sampled["online", "ListCVAE"] = {"reward": 0.9}
    table = comparisons.online_table(book.findings())
    assert cell(table, "GFN4Rec", "reward") == (2.2, 2.2)
    assert cell(table, "GFN4Rec", "coverage") == (15, 15)
    assert cell(table, "GFN4Rec (Explore)", "reward") == (2.0, 2.0)
    assert cell(table, "GFN4Rec (Explore)", "coverage") == (90, 90)
    assert cell(table, "ListCVAE", "reward") == (0.9, 0.9)
    published = {row.label: row.published.get("reward") for row in table.rows}
    assert published["GFN4Rec (Explore)"] == 2.047
    assert published["PRM"] == 2.156
    assert published["Energy flow, greedy"] is None
    assert [row.label for row in table.rows if not row.is_baseline] == [
        "GFN4Rec (Explore)",
        "GFN4Rec",
        "Energy flow, sampled",
        "Energy flow, greedy",
    ]
    assert "5,000 steps; 2 seeds." in table.caption
    assert table.caption.endswith("The paper's figures are of its ML1M, in another simulator: for orientation only.")


def test_the_papers_summary_stands_beside_the_same_data_set_and_below_one_of_its_kind(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = book.world.data
    monkeypatch.setitem(book.world.__dict__, "data", data.model_copy(update={"name": "ml-1m"}))
    (row,) = comparisons.data_table(book.findings("ml-1m")).rows
    assert row.values["users"] == [data.statistics.users]
    assert row.published == {"users": 6400, "items": 3706, "records": 1000208, "behaviours": 3}
    monkeypatch.setitem(book.world.__dict__, "data", data.model_copy(update={"name": "kuairand-pure"}))
    ours, theirs = comparisons.data_table(book.findings("kuairand-pure")).rows
    assert not ours.published
    assert (theirs.label, theirs.values["items"], theirs.texts) == ("KR1K (paper)", [69219], {"range": "[-1, 6]"})
    assert len(comparisons.data_table(book.findings("own log")).rows) == 1


def test_every_row_has_the_figures_of_its_own_model(book: Book) -> None:
    """Each model has a reward of its own, greedy and sampled, in each kind of learning."""
    for number, model in enumerate(MODELS):
        book.greedy["online", model], book.sampled["online", model] = {"reward": number}, {"reward": number + 0.5}
        book.greedy["offline", model], book.last_steps["online", model] = {"reward": -number}, {"reward": number + 0.25}
        book.sampled["offline", model] = {"reward": -number - 0.5}
    names = list(MODELS)
    findings = book.findings()
    rewards = {row.label: row.values["reward"][0] for row in comparisons.online_table(findings).rows}
    assert rewards == {
        "CF": names.index("CF"),
        "ListCVAE": names.index("ListCVAE") + 0.5,
        "PRM": names.index("PRM"),
        "GFN4Rec (Explore)": names.index("GFN4Rec") + 0.5,
        "GFN4Rec": names.index("GFN4Rec"),
        "CF, top K": names.index("CF, top K"),
        "Boltzmann CF, sampled": names.index("Boltzmann CF") + 0.5,
        "Boltzmann CF, greedy": names.index("Boltzmann CF"),
        "Energy flow, sampled": names.index("Energy flow") + 0.5,
        "Energy flow, greedy": names.index("Energy flow"),
    }
    last = {row.label: row.values["reward"][0] for row in comparisons.last_steps_table(findings).rows}
    own = {"GFN4Rec (Explore)": "GFN4Rec"}
    assert last == {label: names.index(own.get(label, label)) + 0.25 for label in last}
    assert len(last) == 7
    offline = comparisons.offline_table(findings)
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


def test_curves_are_of_both_objectives_and_both_ways(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(figures, "plot_curves", lambda series, _: drawn.update(series))
    looks = [({"reward": 1.0}, {"reward": 2.0}), ({"reward": 3.0}, {"reward": 4.0})]
    book.curve["online", "GFN4Rec"] = looks
    book.curve["online", "GFN4Rec (DB)"] = [({"reward": 5.0}, {"reward": 6.0})]
    figures.curves_figure(book.findings())
    rewards = {name: [figure["reward"] for _, figure in curves[0]] for name, curves in drawn.items()}
    assert rewards == {"TB, greedy": [1, 3], "TB, Explore": [2, 4], "DB, greedy": [5], "DB, Explore": [6]}
    assert all(len(curves) == len(SEEDS) for curves in drawn.values())


def test_curves_end_in_figures_of_both_objectives_and_both_ways(book: Book) -> None:
    book.greedy["online", "GFN4Rec (DB)"] = {"reward": 2.3}
    book.sampled["online", "GFN4Rec"] = {"reward": 2.0}
    table = comparisons.curve_ends_table(book.findings())
    rewards = {row.label: row.values["reward"] for row in table.rows}
    assert rewards == {"DB, greedy": (2.3, 2.3), "DB, Explore": (1, 1), "TB, greedy": (1, 1), "TB, Explore": (2, 2)}
    assert not any(row.published for row in table.rows)


def test_the_frontier_has_every_way_and_the_ruler_without_its_random_point(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "plot_frontier", lambda policies, ruler: drawn.extend([policies, ruler]))
    book.sampled["online", "PRM"] = {"expected_reward": 1.5, "coverage": 70.0}
    book.ruler = [
        {"sampler": "random", "coverage": 700.0, "reward": 0.7},
        {"sampler": "boltzmann", "coverage": 300.0, "reward": 2.2},
    ]
    figures.frontier_figure(book.findings())
    policies, ruler = drawn
    assert [(point.coverage, point.reward) for point in policies["PRM"]] == [
        ([10.0, 10.0], [1.0, 1.0]),
        ([70.0, 70.0], [1.5, 1.5]),
    ]
    assert [(point.coverage, point.reward) for point in ruler] == [([300.0], [2.2])]


def test_differences_from_the_paper_are_told(book: Book) -> None:
    book.greedy["online", "CF"] = {"reward": 2.073 * 1.04, "max_reward": 2.939 * 1.1, "coverage": 13.963}
    table = comparisons.online_table(book.findings())
    (told,) = disagreements([table], {})
    assert told.startswith(f"{table.title}: more than 5% from the paper's are CF, maximum reward +10%; ")
    assert "CF, average reward" not in told
    assert "GFN4Rec, average reward -54%" in told
    assert disagreements([comparisons.online_table(book.findings("own log"))], {"online": {"CF": "why"}}) == []


def test_reasons_are_told_of_rows_that_are_far(book: Book) -> None:
    book.greedy["online", "CF"] = {"reward": 2.073, "max_reward": 2.939, "coverage": 13.963}
    tables = [comparisons.online_table(book.findings()), comparisons.offline_table(book.findings())]
    reasons = {"online": {"CF": "as printed", "PRM": "one", "Unheard of": "none"}, "time": {"PRM": "other"}}
    assert disagreements(tables, reasons)[2:] == ["PRM: one"]


def test_figures_that_agree_are_told_to() -> None:
    rows = [Row("CF", {"reward": (1.04,)}, {"reward": 1.0})]
    table = Table("online", "Online learning", "", [Column("reward", "Reward")], rows)
    told = ["Online learning: all figures are within 5% of the paper's."]
    assert disagreements([table], {"online": {"CF": "why"}}) == told


def test_reasons_name_tables_and_rows_that_there_are(book: Book) -> None:
    for each in published():
        tables = {table.name: table for table in (make(book.findings()) for make in TABLES_WITH_REASONS)}
        for name, of_table in each.reasons.items():
            labels = each.data_sets if name == "data" else [row.label for row in tables[name].rows]
            assert set(of_table) <= set(labels)


@pytest.mark.parametrize(
    ("budget", "words"), [("quick", "not a result"), ("short", "far fewer steps than the paper's")]
)
def test_tables_of_fewer_steps_say_so(book: Book, budget: str, words: str) -> None:
    book.protocol = Protocol(BUDGETS[budget], num_seeds=2)
    assert words in comparisons.online_table(book.findings()).caption


def test_a_data_set_that_the_paper_does_not_have_has_no_figures_beside_it(book: Book) -> None:
    table = comparisons.online_table(book.findings("own log"))
    assert not any(row.published for row in table.rows)


def test_the_papers_ranking_metrics_stand_beside_the_authors_rule_only(book: Book) -> None:
    book.greedy["offline", "CF"] = {"r_ndcg_unsorted": 0.57, "r_mrr_unsorted": 0.07}
    book.sampled["offline", "ListCVAE"] = {"r_ndcg_unsorted": 0.56}
    book.test["offline", "CF"] = {"r_ndcg_unsorted": 0.5, "r_mrr_unsorted": 0.08}
    findings = book.findings()
    offline, ranking = comparisons.offline_table(findings), comparisons.ranking_table(findings)
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
    table = comparisons.online_table(book.findings())
    assert cell(table, "CF", "ild") == (0.13, 0.13)
    assert cell(table, "CF", "ild_reference") == (0.529 * 1.1, 0.529 * 1.1)
    assert table.rows[0].published == {
        "reward": 2.073,
        "max_reward": 2.939,
        "coverage": 13.963,
        "ild_reference": 0.529,
    }
    (told,) = disagreements([table], {})
    assert "CF, ild, authors' rule +10%" in told


def test_balance_compares_the_two_objectives(book: Book) -> None:
    book.greedy["offline", "GFN4Rec (DB)"] = {"reward": 2.03}
    book.test["offline", "GFN4Rec (DB)"] = {"r_ndcg": 0.36}
    table = comparisons.balance_table(book.findings("kuairand-1k"))
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
    table = studies.sensitivity_table(book.findings("kuairand-1k"), "b_f")
    assert [row.label for row in table.rows] == [f"b_f = {value}" for value in (0.1, 0.3, 0.5, 0.7, 0.9)]
    assert cell(table, "b_f = 0.3", "reward") == (2.3, 2.3)
    assert table.rows[1].published["reward"] == 2.359
    assert not studies.sensitivity_table(book.findings("kuairand-1k"), "b_z").rows[0].published


def test_time_is_per_step(book: Book) -> None:
    book.seconds["online", "CF"] = 50.0
    table = studies.time_table(book.findings("kuairand-1k"))
    assert cell(table, "CF", "milliseconds") == pytest.approx([50.0, 51.0])
    assert cell(table, "CF", "seconds") == pytest.approx([250.0, 255.0])
    assert table.rows[0].published == {"seconds": 3341}


def test_transfer_is_the_gain_of_learning_online(book: Book) -> None:
    book.greedy["online", "CF"], book.greedy["offline", "CF"] = {"reward": 2.5}, {"reward": 2.0}
    table = studies.transfer_table(book.findings())
    assert cell(table, "CF", "gain") == pytest.approx([25.0, 25.0])
    assert table.rows[0].published == {"online": 2.073, "offline": 1.675}
    assert [row.published for row in table.rows if row.label == "ListCVAE"] == [{}]  # ours is greedy, theirs is not
    assert "; up to 5,000 or 10,000 steps; 2 seeds." in table.caption
    assert table.caption.endswith("in another simulator: for orientation only.")
    assert "simulator: for" not in studies.transfer_table(book.findings("mine")).caption


def test_the_authors_settings_have_a_table_of_their_own(book: Book) -> None:
    book.greedy["online", "CF, the authors' settings"] = {"reward": 1.7}
    book.sampled["online", "GFN4Rec, the authors' settings"] = {"reward": 1.9}
    table = comparisons.authors_table(book.findings())
    assert cell(table, "CF", "reward") == (1.7, 1.7)
    assert cell(table, "GFN4Rec (Explore)", "reward") == (1.9, 1.9)
    assert cell(table, "GFN4Rec", "reward") == (1.0, 1.0)
    assert table.rows[0].published["reward"] == 2.073


def test_in_the_authors_simulator_figures_are_compared_and_differences_explained(
    book: Book, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    online = {"online": REPRODUCTIONS["online"]}
    page = write_page(online, book, tmp_path)
    assert "CF: here it regresses" not in page
    users = book.world.simulator.model_copy(update={"kind": "reference"})
    monkeypatch.setitem(book.world.__dict__, "simulator", users)
    assert comparisons.online_table(book.findings()).caption.endswith(" The paper's figures are of its ML1M.")
    assert "CF: here it regresses" in write_page(online, book, tmp_path)


def write_page(wanted: dict[str, Reproduction], book: Book, out: Path) -> str:
    for folder in ("tables", "plots"):
        (out / folder).mkdir(exist_ok=True)
    write_all(wanted, book.findings(), out)
    return (out / "README.md").read_text(encoding="utf-8")


def test_sensitivity_is_drawn_beside_the_papers(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "plot_sensitivity", lambda *parts: drawn.append(parts))
    book.greedy["online", "b_f = 0.3"] = {"reward": 2.3}
    picture = figures.sensitivity_figure(book.findings("kuairand-1k"), "b_f")
    ((parameter, values, ours, beside),) = drawn
    assert (parameter, values) == ("b_f", (0.1, 0.3, 0.5, 0.7, 0.9))
    assert ours["Average reward"] == [(1, 1), (2.3, 2.3), (1, 1), (1, 1), (1, 1)]
    assert beside["Average reward"][1] == (0.3, 2.359)
    assert set(beside) == set(ours)
    assert picture.caption.endswith("The paper's figures are of its KR1K, in another simulator: for orientation only.")
    assert "orientation" not in figures.sensitivity_figure(book.findings("ml-1m"), "b_f").caption


def test_feasibility_is_a_rank_correlation_over_models(book: Book) -> None:
    for number, model in enumerate(studies.OFFLINE_MODELS):
        book.test["offline", model] = {"r_ndcg": 0.1 * number, "r_mrr": -0.1 * number, "r_mrr_unsorted": 0.08}
        # Means are in order, single seeds are not.
        book.by_seed["offline", model] = [
            {"reward": 1 + number + shift, "r_ndcg": -number, "r_mrr_unsorted": number} for shift in (-3, 3)
        ]
    table = studies.feasibility_table(book.findings())
    assert cell(table, "R-NDCG, by the model's order", "reward") == pytest.approx([1.0])
    assert cell(table, "R-NDCG, by the model's order", "same") == pytest.approx([-1.0])
    assert cell(table, "R-NDCG, by the model's order", "shown") == pytest.approx([-1.0])
    assert cell(table, "R-MRR, by the model's order", "reward") == pytest.approx([-1.0])
    assert cell(table, "R-MRR, authors' rule", "reward") is None  # the same for all models
    assert cell(table, "R-MRR, authors' rule", "shown") == pytest.approx([1.0])


def test_a_page_shows_the_first_seeds_slates_of_compared_models_online_and_offline(book: Book, tmp_path: Path) -> None:
    findings = book.findings()
    needs: list[Need] = [("online", "CF"), ("offline", "CF"), ("online", "b_f = 0.1")]
    outcomes = {
        need: [
            outcome.model_copy(update={"examples": (Example(user="7", way="greedy", titles=(f"{need} {seed}",)),)})
            for seed, outcome in enumerate(findings.outcomes[need])
        ]
        for need in needs
    }
    page = write_all({}, replace(findings, outcomes=outcomes), tmp_path).page.read_text(encoding="utf-8")
    assert page.index("CF</") < page.index("CF, learned offline</")
    shown = [title for title in (f"{need} {seed}" for need in needs for seed in SEEDS) if escape(title) in page]
    assert shown == ["('online', 'CF') 0", "('offline', 'CF') 0"]


def test_commits_of_runs_are_told_and_so_is_that_one_is_not_known(book: Book) -> None:
    findings = book.findings()
    assert environment(findings)["commits"] == "unknown"
    one, other = findings.outcomes["online", "CF"]
    known = [one.model_copy(update={"git_hash": "0123456789abcdef"}), other]
    assert environment(replace(findings, outcomes={("online", "CF"): known}))["commits"] == "0123456789ab, unknown"
    assert environment(replace(findings, outcomes={}))["commits"] == "none"


def test_a_run_of_two_tables_is_counted_once(book: Book) -> None:
    outcomes = book.findings().outcomes["online", "CF"]
    of_two = replace(book.findings(), outcomes={("online", "b_z = 1.0"): outcomes, ("online", "b_r = 0.5"): outcomes})
    assert environment(of_two)["runs"] == "2, 0.1 hours of learning"

"""Reward at equal coverage, with given results."""

import pytest

from gfn4rec.evaluation.oracle import reward_at
from gfn4rec.experiments.paper import frontiers
from gfn4rec.experiments.paper.models import FAIR
from gfn4rec.experiments.paper.protocol import Need
from tests.experiments.book import Book, cell, oracle_point


def test_reward_at_a_coverage_lies_between_two_points() -> None:
    points = [(100.0, 2.0), (20.0, 2.4), (300.0, 1.0)]
    assert reward_at(points, 20) == 2.4
    assert reward_at(points, 60) == pytest.approx(2.2)
    assert reward_at(points, 250) == pytest.approx(1.25)
    assert reward_at(points, 19) is None
    assert reward_at(points, 301) is None
    assert reward_at([(20.0, 2.4), (20.0, 2.4), (40.0, 2.0)], 20) == 2.4


def test_models_are_compared_at_equal_coverage(book: Book) -> None:
    rewards = {"Energy GFN": (2.3, 2.1), "CF": (2.0, 1.8), "Boltzmann CF": (2.2, 2.0), "GFN4Rec": (2.2, 1.9)}
    for name, (greedy, sampled) in rewards.items():
        need: Need = ("online", FAIR[name])
        book.greedy[need] = {"expected_reward": greedy, "coverage": 20.0}
        book.sampled[need] = {"expected_reward": sampled, "coverage": 220.0 if name != "GFN4Rec" else 90.0}
    book.oracle = [oracle_point("boltzmann", level, 3 - level / 100) for level in (10.0, 160.0)]
    book.oracle.append(oracle_point("random", 700.0, 0.5))  # not on the frontier
    table = frontiers.fair_table(book.results())
    assert cell(table, "Energy GFN", "sampled") == [2.1, 2.1]
    assert cell(table, "Energy GFN", "coverage") == [220.0, 220.0]
    assert cell(table, "Energy GFN", "greedy") == [2.3, 2.3]
    assert cell(table, "Energy GFN", "greedy_coverage") == [20.0, 20.0]
    assert cell(table, "Energy GFN", "150") == pytest.approx([2.17, 2.17])
    assert cell(table, "Energy GFN", "250") is None
    assert cell(table, "GFN4Rec", "50") == pytest.approx([2.2 - 0.3 * 3 / 7] * 2)
    assert cell(table, "GFN4Rec", "100") is None
    assert cell(table, "Energy GFN over Boltzmann CF", "100") == "+0.100"
    assert cell(table, "Energy GFN over Boltzmann CF, range", "100") == "+0.100 to +0.100"
    assert cell(table, "Energy GFN over Boltzmann CF", "300") is None
    assert cell(table, "Energy GFN over CF", "100") == "+0.300"
    assert cell(table, "Oracle", "150") == "1.500"
    assert cell(table, "Oracle", "200") is None
    assert [row.label for row in table.rows if not row.is_baseline] == ["GFN4Rec", "GFN4Rec (DB)", "Energy GFN"]
    assert ": 1,000 steps online, 2 seeds." in table.caption
    objectives = frontiers.objectives_table(book.results())
    assert [row.label for row in objectives.rows] == ["GFN4Rec", "GFN4Rec (DB)", "Energy GFN"]
    assert [row.is_baseline for row in objectives.rows] == [True, True, False]


def test_a_coverage_that_one_seed_does_not_reach_has_no_value(book: Book) -> None:
    need: Need = ("online", FAIR["CF"])
    book.by_seed[need] = [{"coverage": 20.0}, {"coverage": 60.0}]
    book.sampled[need] = {"coverage": 220.0}
    table = frontiers.fair_table(book.results())
    assert cell(table, "CF", "50") is None
    assert cell(table, "CF", "100") == [1.0, 1.0]
    assert [column.key for column in table.columns if column.key.isdigit()] == ["100", "150", "200"]  # others are empty


def test_models_on_their_own_terms_are_compared_at_equal_coverage(book: Book) -> None:
    for name, greedy in (("Energy GFN", 2.3), ("Boltzmann CF", 2.0)):
        book.greedy["online", name] = {"expected_reward": greedy, "coverage": 20.0}
        book.sampled["online", name] = {"expected_reward": greedy - 0.2, "coverage": 220.0}
    table = frontiers.equal_coverage_table(book.results())
    models = ["CF", "ListCVAE", "PRM", "GFN4Rec", "CF, top K", "Boltzmann CF", "Energy GFN"]
    assert [row.label for row in table.rows if " over " not in row.label] == models
    assert cell(table, "Boltzmann CF", "100") == pytest.approx([1.92, 1.92])
    assert cell(table, "Energy GFN over Boltzmann CF", "100") == "+0.300"


@pytest.mark.parametrize(
    ("study", "whole", "variant"),
    [
        ("ablations", FAIR["Energy GFN"], "trajectory balance"),
        ("alternatives", FAIR["Energy GFN"], "Huber penalty"),
        ("rates", "Energy GFN", "learning rate 0.003"),
    ],
)
def test_variants_stand_below_the_whole(book: Book, study: str, whole: str, variant: str) -> None:
    book.sampled["online", whole] = {"expected_reward": 1.9, "coverage": 150.0}
    book.sampled["online", variant] = {"expected_reward": 1.7, "coverage": 150.0}
    table = frontiers.variants_table(book.results(), study, "Title")
    assert [row.label for row in table.rows] == ["Energy GFN", *frontiers.VARIANTS[study][1]]
    assert cell(table, "Energy GFN", "sampled") == [1.9, 1.9]
    assert cell(table, variant, "sampled") == [1.7, 1.7]

"""Verdicts: what is warned of, and in which words."""

import pytest

from gfn4rec.evaluation.held_out_protocol import HeldOutResults, HeldOutRow
from gfn4rec.evaluation.verdict import Verdict, judge, judge_rows

POPULARITY: HeldOutRow = {"recall": 0.035, "same_first_share": 0.45, "rare_share": 0.0}


def row(recall: float | None, same_first: float | None, rare: float | None) -> HeldOutRow:
    return {"recall": recall, "same_first_share": same_first, "rare_share": rare}


def test_all_warnings() -> None:
    assert judge(row(0.003, 0.84, 0.52), POPULARITY, 5000) == Verdict(
        (
            "Recall is below popularity's (0.003 against 0.035).",
            "84 % of users get the same first item.",
            "52 % of the shown items have fewer than 5 training records.",
        ),
        "Do not ship: recall is below popularity's (0.003 against 0.035); 84 % of users get the same first item; "
        "52 % of the shown items have fewer than 5 training records.",
    )


def test_no_warning() -> None:
    verdict = judge(row(0.056, 0.12, 0.1), POPULARITY, 5000)
    assert verdict.warnings == ()
    assert verdict.summary == (
        "No warning: recall is 1.6 times popularity's (0.056 against 0.035); "
        "the most frequent first item goes to 12 % of users."
    )
    assert judge(row(0.0, 0.1, 0.0), row(0.0, 0.5, 0.0), 50).summary.startswith(
        "No warning: recall is 0.000, popularity's is 0;"
    )


@pytest.mark.parametrize(
    ("metrics", "num_warnings"),
    [
        (row(0.035, 1 / 3, 0.49), 0),  # each at its limit
        (row(0.0349, 1 / 3, 0.49), 1),
        (row(0.035, 0.334, 0.49), 1),
        (row(0.035, 1 / 3, 0.5), 1),
    ],
)
def test_limits(metrics: HeldOutRow, num_warnings: int) -> None:
    assert len(judge(metrics, POPULARITY, 50).warnings) == num_warnings


def test_close_values_have_more_decimals() -> None:
    assert "(0.0349 against 0.0350)" in judge(row(0.0349, 0.1, 0.0), POPULARITY, 50).summary


def test_popularity_shows_many_the_same_item() -> None:
    assert judge(POPULARITY, POPULARITY, 5000).warnings == ("45 % of users get the same first item.",)


def test_too_few_slates_to_judge_recall() -> None:
    doubt = "only 49 test slates have a liked item to find, and recall needs 50 of them"
    verdict = judge(row(0.0, 0.1, 0.0), POPULARITY, 49)
    assert verdict.warnings == (f"O{doubt[1:]}.",)
    assert verdict.summary == (
        f"Too few test slates to judge: {doubt}; the most frequent first item goes to 10 % of users."
    )
    assert judge(row(0.0, 0.9, 0.0), POPULARITY, 49).summary == (
        f"Do not ship: 90 % of users get the same first item; {doubt}."
    )
    assert judge(row(None, None, None), row(None, None, None), 0).summary == (
        "Too few test slates to judge: no test slates have a liked item to find, and recall needs 50 of them."
    )


def test_the_prior_is_a_reference() -> None:
    results = HeldOutResults(
        liked=1,
        slate_size=2,
        num_slates=90,
        num_relevant=80,
        num_left_out=0,
        rows={"greedy": row(0.01, 0.1, 0.1), "greedy, w=2": row(0.05, 0.1, 0.1), "prior alone": row(0.05, 0.1, 0.1)},
        references={"popularity": POPULARITY},
    )
    assert {name: bool(verdict.warnings) for name, verdict in judge_rows(results).items()} == {
        "greedy": True,
        "greedy, w=2": False,
    }

"""Verdicts on the paper's claims, with given metrics."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from gfn4rec.experiments.paper import analyses
from gfn4rec.experiments.paper.claims import CLAIM_NEEDS, CLAIMS, claims_table, curves, measurements_table, metrics
from gfn4rec.experiments.paper.claims.claim import BASELINES, Claim
from gfn4rec.experiments.paper.protocol import BUDGETS, Protocol
from gfn4rec.experiments.paper.results import Results
from tests.experiments.book import Book


def verdict(book: Book, judge: Callable[[Results], Claim], published: str = "ml-1m") -> tuple[str, str]:
    claim = judge(book.results(published))
    return claim.verdict, claim.evidence


def test_best_in_reward(book: Book) -> None:
    book.greedy["online", "PRM"], book.greedy["online", "GFN4Rec"] = {"reward": 2.0}, {"reward": 2.2}
    found, evidence = verdict(book, metrics.best_in_reward)
    assert found == "holds"
    assert evidence == "+10.0% relative to PRM, the best baseline"
    assert metrics.best_in_reward(book.results()).measurements == {
        "Average reward of GFN4Rec": "2.200",
        "Gain over PRM, range over seeds": "+10.0% to +10.0%",
    }
    book.by_seed["online", "GFN4Rec"] = [{"reward": 1.9}, {"reward": 2.2}]
    assert verdict(book, metrics.best_in_reward)[0] == "holds in part"
    book.by_seed["online", "GFN4Rec"] = [{"reward": 1.8}, {"reward": 2.1}]  # one lucky seed is not a part
    assert verdict(book, metrics.best_in_reward)[0] == "does not hold"
    book.by_seed["online", "GFN4Rec"] = [{"reward": 1.9}, {"reward": 1.9}]
    assert verdict(book, metrics.best_in_reward)[0] == "does not hold"


def test_the_best_baseline_is_that_of_the_online_table(book: Book) -> None:
    book.greedy["online", "ListCVAE"] = {"reward": 9.0}  # the table has it sampled
    book.sampled["online", "ListCVAE"] = {"reward": 1.5}
    assert verdict(book, metrics.ten_percent)[1] == "Claimed for KR1K only; here -33.3% relative to ListCVAE"


@pytest.mark.parametrize(
    ("reward", "covered", "expected"),
    [(1.0, 40, "holds"), (0.98, 40, "holds"), (0.9, 40, "holds in part"), (0.9, 39, "does not hold")],
)
def test_explores_widely(book: Book, reward: float, covered: float, expected: str) -> None:
    book.sampled["online", "GFN4Rec"] = {"reward": reward, "coverage": covered}
    assert verdict(book, metrics.explores_widely)[0] == expected
    for more in ("PRM", "CF"):
        book.greedy["online", more] = {"coverage": 11.0}
        assert verdict(book, metrics.explores_widely)[0] != "holds"
        book.greedy["online", more] = {"coverage": 5.0}


def test_list_cvae_is_diverse(book: Book) -> None:
    book.sampled["online", "ListCVAE"] = {"reward": 0.9, "coverage": 262.0}
    assert verdict(book, metrics.list_cvae_is_diverse)[0] == "holds"
    book.sampled["online", "ListCVAE"] = {"reward": 0.98, "coverage": 262.0}  # a little less is not low
    assert verdict(book, metrics.list_cvae_is_diverse)[0] == "holds in part"
    book.sampled["online", "ListCVAE"] = {"reward": 0.9, "coverage": 262.0}
    book.greedy["online", "CF"] = {"reward": 2.0}  # low is what is below the lower one
    book.sampled["online", "ListCVAE"] = {"reward": 1.5, "coverage": 262.0}
    assert verdict(book, metrics.list_cvae_is_diverse)[0] == "holds in part"
    book.sampled["online", "ListCVAE"] = {"reward": 0.9, "coverage": 262.0}
    book.greedy["online", "CF"] = {"coverage": 300.0}
    assert verdict(book, metrics.list_cvae_is_diverse)[0] == "holds in part"


@pytest.mark.parametrize(("ours", "expected"), [(2.2, "holds"), (2.1, "holds in part"), (1.9, "does not hold")])
def test_ten_percent(book: Book, ours: float, expected: str) -> None:
    book.greedy["online", "CF"], book.greedy["online", "GFN4Rec"] = {"reward": 2.0}, {"reward": ours}
    found, evidence = verdict(book, metrics.ten_percent, "kuairand-1k")
    assert found == expected
    assert evidence == f"{ours / 2 - 1:+.1%} relative to CF"
    measurements = metrics.ten_percent(book.results("kuairand-1k")).measurements
    assert measurements["Gain in the paper's own table"] == "+7.1%"


def test_ten_percent_in_part_needs_every_seed(book: Book) -> None:
    book.by_seed["online", "GFN4Rec"] = [{"reward": 0.99}, {"reward": 1.05}]
    assert verdict(book, metrics.ten_percent, "kuairand-1k")[0] == "does not hold"


def test_claims_are_judged_on_data_of_the_same_kind_without_the_papers_figures(book: Book) -> None:
    book.greedy["online", "GFN4Rec"] = {"reward": 2.0}
    found, evidence = verdict(book, metrics.ten_percent, "kuairand-pure")
    assert found == "holds"
    assert evidence == "+100.0% relative to CF"
    claim = metrics.ten_percent(book.results("kuairand-pure"))
    assert claim.criterion.endswith("The paper claims it for its KR1K.")
    assert claim.measurements == {"Gain over CF, range over seeds": "+100.0% to +100.0%"}


def test_negative_rewards_can_be_compared(book: Book) -> None:
    book.greedy["online", "GFN4Rec"] = {"reward": -0.1}
    for model in BASELINES:
        book.greedy["online", model] = book.sampled["online", model] = {"reward": -0.2}
    found, evidence = verdict(book, metrics.best_in_reward)
    assert found == "holds"
    assert "+50.0%" in evidence
    for model in BASELINES:
        book.greedy["online", model] = book.sampled["online", model] = {"reward": 0.0}
    assert verdict(book, metrics.best_in_reward)[0] == "does not hold"
    for model in BASELINES:
        book.greedy["online", model] = {"reward": -0.5}
    book.sampled["online", "GFN4Rec"] = {"reward": -0.5, "coverage": 40.0}
    assert verdict(book, metrics.explores_widely)[0] == "holds"
    book.sampled["online", "ListCVAE"] = {"reward": -0.49, "coverage": 40.0}
    assert verdict(book, metrics.list_cvae_is_diverse)[0] == "holds in part"
    book.sampled["online", "ListCVAE"] = {"reward": -0.6, "coverage": 40.0}
    assert verdict(book, metrics.list_cvae_is_diverse)[0] == "holds"
    below = [({"reward": -1.0}, {"reward": -1.0}), ({"reward": -0.5}, {"reward": -0.6})]
    book.curve["online", "GFN4Rec"] = below
    assert verdict(book, curves.greedy_rises_faster)[0] == "does not hold"


def test_detailed_balance_offline(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    book.greedy["offline", "GFN4Rec (DB)"] = {"reward": 1.1}
    items = book.benchmark.data.statistics.items
    monkeypatch.setattr(metrics, "MANY_ITEMS", items + 1)
    found, evidence = verdict(book, metrics.detailed_balance_offline, "kuairand-1k")
    assert found == "not judged"  # too few of them
    assert evidence == "Too few items; average reward +0.100; R-NDCG (test) +0.000"
    claim = metrics.detailed_balance_offline(book.results("kuairand-1k"))
    assert claim.criterion.endswith(f"judged with at least {items + 1:,} items.")
    assert claim.measurements["Number of items"] == f"{items:,}"
    monkeypatch.setattr(metrics, "MANY_ITEMS", items)
    assert verdict(book, metrics.detailed_balance_offline, "kuairand-1k")[0] == "holds in part"
    book.test["offline", "GFN4Rec (DB)"] = {"r_ndcg": 0.35}
    assert verdict(book, metrics.detailed_balance_offline, "kuairand-1k")[0] == "holds"
    book.has_test = False
    assert verdict(book, metrics.detailed_balance_offline, "kuairand-1k")[0] == "holds"
    book.by_seed["offline", "GFN4Rec (DB)"] = [{"reward": 1.1}, {"reward": 0.99}]
    assert verdict(book, metrics.detailed_balance_offline, "kuairand-1k")[0] == "holds in part"


def test_what_is_claimed_of_one_data_set_is_not_judged_on_another(book: Book) -> None:
    for other in ("ml-1m", "mine"):
        found, evidence = verdict(book, metrics.ten_percent, other)
        assert found == "not judged"
        assert evidence.startswith("Claimed for KR1K only; here ")


def test_offline_is_below_online(book: Book) -> None:
    assert verdict(book, metrics.offline_is_below_online)[0] == "does not hold"
    for model in analyses.IN_BOTH:
        book.greedy["offline", model] = {"reward": 0.9}
    assert verdict(book, metrics.offline_is_below_online)[0] == "holds"
    book.by_seed["offline", "PRM"] = [{"reward": 0.5}, {"reward": 1.1}]
    assert verdict(book, metrics.offline_is_below_online)[0] == "holds in part"


def test_rerankers_cover_more_offline(book: Book) -> None:
    book.greedy["offline", "RerankCF"] = book.greedy["offline", "PRM"] = {"coverage": 20.0}
    found, evidence = verdict(book, metrics.rerankers_cover_more_offline)
    assert found == "holds"
    assert evidence == "At least 2.0 times CF's coverage offline; PRM 1.0 times online"
    assert metrics.rerankers_cover_more_offline(book.results()).measurements == {
        "Coverage of RerankCF offline relative to CF": "2.0 times",
        "Coverage of PRM offline relative to CF": "2.0 times",
        "Coverage of PRM online relative to CF": "1.0 times",
    }
    book.greedy["online", "PRM"] = {"coverage": 20.0}
    assert verdict(book, metrics.rerankers_cover_more_offline)[0] == "holds in part"
    book.greedy["offline", "RerankCF"] = book.greedy["offline", "PRM"] = {"coverage": 19.0}
    assert verdict(book, metrics.rerankers_cover_more_offline)[0] == "does not hold"
    book.greedy["online", "PRM"] = {"coverage": 10.0}  # without the offline half, this is nothing
    assert verdict(book, metrics.rerankers_cover_more_offline)[0] == "does not hold"


def test_settings_that_hardly_matter(book: Book) -> None:
    book.greedy["online", "b_z = 0.5"] = {"reward": 1.05}
    book.greedy["online", "b_f = 0.9"] = {"reward": 0.951}
    assert verdict(book, metrics.b_z_of_one)[0] == "holds"
    assert verdict(book, metrics.flat_in_b_f)[0] == "holds"
    book.greedy["online", "b_z = 0.5"] = {"reward": 1.06}
    book.greedy["online", "b_f = 0.9"] = {"reward": 0.94}
    assert verdict(book, metrics.b_z_of_one)[0] == "does not hold"
    found, evidence = verdict(book, metrics.flat_in_b_f)
    assert found == "does not hold"
    assert evidence == "Lowest reward 6.0% below the highest"
    measurements = metrics.flat_in_b_f(book.results()).measurements
    assert list(measurements.values()) == ["1.000", "1.000", "1.000", "1.000", "0.940"]
    assert measurements["Average reward with b_f = 0.9"] == "0.940"


CHANGE = "Change of the expected reward of {}"
GREEDY_CURVE = [
    {"reward": 1.0, "coverage": 100.0},
    {"reward": 2.0, "coverage": 50.0},
    {"reward": 2.1, "coverage": 10.0},
]
SAMPLED_CURVE = [
    {"reward": 1.4, "coverage": 100.0},
    {"reward": 1.8, "coverage": 90.0},
    {"reward": 2.0, "coverage": 80.0},
]


def test_greedy_rises_faster(book: Book) -> None:
    for model in ("GFN4Rec", "GFN4Rec (DB)"):
        book.curve["online", model] = list(zip(GREEDY_CURVE, SAMPLED_CURVE, strict=True))
    found, evidence = verdict(book, curves.greedy_rises_faster)
    assert found == "holds"
    assert evidence == "4 of 4 comparisons agree"
    measurements = curves.greedy_rises_faster(book.results()).measurements
    assert measurements["Reward that GFN4Rec rises to"] == "1.900"
    assert measurements["Steps of GFN4Rec to this reward, greedy and sampled"] == "1 and 2"
    assert measurements["Coverage that GFN4Rec keeps, greedy and sampled"] == "10% and 80%"
    book.curve["online", "GFN4Rec (DB)"] = list(zip(SAMPLED_CURVE, GREEDY_CURVE, strict=True))
    assert verdict(book, curves.greedy_rises_faster)[0] == "holds in part"
    book.curve["online", "GFN4Rec"] = list(zip(SAMPLED_CURVE, GREEDY_CURVE, strict=True))
    assert verdict(book, curves.greedy_rises_faster)[0] == "does not hold"


def test_curves_are_means_over_seeds(book: Book) -> None:
    for model in ("GFN4Rec", "GFN4Rec (DB)"):
        book.curve["online", model] = list(zip(GREEDY_CURVE, SAMPLED_CURVE, strict=True))
    slow = [{**point, "reward": reward} for point, reward in zip(GREEDY_CURVE, (0.0, 0.0, 2.1), strict=True)]
    seeds = [list(zip(each, SAMPLED_CURVE, strict=True)) for each in (GREEDY_CURVE, slow)]
    book.curve_by_seed["online", "GFN4Rec"] = seeds
    found, evidence = verdict(book, curves.greedy_rises_faster)
    assert found == "holds in part"
    assert evidence == "3 of 4 comparisons agree"
    measurements = curves.greedy_rises_faster(book.results()).measurements
    assert measurements["Reward that GFN4Rec rises to"] == "1.900"
    assert measurements["Steps of GFN4Rec to this reward, greedy and sampled"] == "2 and 2"


def test_a_rise_without_an_evaluation_before_training_is_not_judged(book: Book) -> None:
    for model in ("GFN4Rec", "GFN4Rec (DB)"):
        book.curve["online", model] = list(zip(GREEDY_CURVE, SAMPLED_CURVE, strict=True))
        book.steps["online", model] = [300 * (number + 1) for number in range(len(GREEDY_CURVE))]
    found, evidence = verdict(book, curves.greedy_rises_faster)
    assert (found, evidence) == ("not judged", "GFN4Rec was not evaluated before training")


def test_rising_at_the_same_evaluation_is_not_faster(book: Book) -> None:
    for model in ("GFN4Rec", "GFN4Rec (DB)"):
        book.curve["online", model] = [
            ({"reward": 0.50, "coverage": 100.0}, {"reward": 0.50, "coverage": 100.0}),
            ({"reward": 2.10, "coverage": 50.0}, {"reward": 1.03, "coverage": 90.0}),
        ]
    assert verdict(book, curves.greedy_rises_faster)[0] == "holds in part"


def test_a_coverage_that_hardly_falls_does_not(book: Book) -> None:
    for left, expected in ((94.0, "holds in part"), (96.0, "does not hold")):  # nothing rises
        evaluations = [({"coverage": 100.0}, {"coverage": 100.0}), ({"coverage": left}, {"coverage": 99.0})]
        for model in ("GFN4Rec", "GFN4Rec (DB)"):
            book.curve["online", model] = evaluations
        assert verdict(book, curves.greedy_rises_faster)[0] == expected


def test_a_coverage_that_rises_does_not_fall_slower(book: Book) -> None:
    rising = [{"reward": 2.0, "coverage": 10.0}, {"reward": 2.0, "coverage": 20.0}]
    faster = [{"reward": 2.0, "coverage": 10.0}, {"reward": 2.0, "coverage": 30.0}]
    for model in ("GFN4Rec", "GFN4Rec (DB)"):
        book.curve["online", model] = list(zip(rising, faster, strict=True))
    assert verdict(book, curves.greedy_rises_faster)[0] == "does not hold"


def test_maximum_is_unstable(book: Book) -> None:
    evaluations = [
        {"reward": 2.0 if number % 2 else 2.02, "max_reward": 3.0 if number % 2 else 2.7} for number in range(6)
    ]
    book.curve["online", "GFN4Rec"] = [(point, {}) for point in evaluations]
    found, evidence = verdict(book, curves.maximum_is_unstable)
    assert found == "holds"  # 3.0, 2.7, 3.0 are moves of 10 % and of 11.1 %
    assert evidence == "It changes by 10.56% between evaluations, the average reward by 1.00%"
    claim = curves.maximum_is_unstable(book.results())
    assert "at least 2 times that of the average reward" in claim.criterion
    assert claim.measurements == {
        "Maximum reward in the second half of training": "2.90",
        "Largest possible reward": f"{book.benchmark.data.reward_range[1]:g}",
    }
    evaluations = [
        {"reward": 2.0 if number % 2 else 2.02, "max_reward": 3.0 if number % 2 else 2.95} for number in range(6)
    ]
    book.curve["online", "GFN4Rec"] = [(point, {}) for point in evaluations]
    assert verdict(book, curves.maximum_is_unstable)[0] == "does not hold"  # 1.7 % is not twice 1.0 %
    evaluations = [{"reward": 2.0 if number % 2 else 2.5, "max_reward": 3.0} for number in range(6)]
    book.curve["online", "GFN4Rec"] = [(point, {}) for point in evaluations]
    assert verdict(book, curves.maximum_is_unstable)[0] == "does not hold"
    book.curve["online", "GFN4Rec"] = [(evaluations[0], evaluations[0])]
    assert verdict(book, curves.maximum_is_unstable) == ("not judged", "Too few evaluations")


def test_converges(book: Book) -> None:
    models = ("CF", "ListCVAE", "PRM", "GFN4Rec")
    steps = (300, 2400, 3300, 3900, 4200, 5000)

    def learn(model: str, *rewards: float) -> None:
        evaluations = [{"expected_reward": reward} for reward in rewards]
        book.curve["online", model] = [(point, {}) for point in evaluations]
        book.steps["online", model] = steps[: len(evaluations)]

    for model in models:
        learn(model, 1.0, 1.5, 2.0, 2.2, 2.1, 2.12)  # the means of two evaluations each: 2.1 and 2.11
    assert verdict(book, curves.converges)[0] == "holds"
    learn("PRM", 1.0, 1.5, 2.0, 2.0, 2.1, 2.1)
    found, evidence = verdict(book, curves.converges)
    assert found == "holds"  # of most models
    assert evidence == "3 of 4 models have converged"
    measurements = curves.converges(book.results()).measurements
    assert (measurements[CHANGE.format("ListCVAE")], measurements[CHANGE.format("PRM")]) == ("+0.5%", "+5.0%")
    learn("CF", 1.0, 1.5, 2.0, 2.0, 1.0, 1.0)
    found, evidence = verdict(book, curves.converges)
    assert found == "holds in part"  # two of four are not most
    assert evidence == "2 of 4 models have converged"
    assert curves.converges(book.results()).measurements[CHANGE.format("CF")] == "-50.0%"
    for model in ("ListCVAE", "GFN4Rec"):
        learn(model, 1.0, 1.5, 2.0, 2.0, 1.0, 1.0)
    assert verdict(book, curves.converges)[0] == "does not hold"
    learn("PRM", 1.0, 1.5)
    assert verdict(book, curves.converges) == ("not judged", "Too few evaluations")
    book.protocol = Protocol(BUDGETS["short"], num_seeds=2)
    assert verdict(book, curves.converges) == ("not judged", "Too few steps: 1,000")


def test_every_claim_has_what_it_needs(book: Book) -> None:
    results = book.results()
    needed = replace(results, runs={need: results.runs[need] for need in CLAIM_NEEDS})
    assert len(claims_table(needed).rows) == len(CLAIMS) == 12
    assert measurements_table(needed).rows


def test_claims_and_measurements_share_their_numbers(book: Book) -> None:
    results = book.results()
    table = claims_table(results)
    assert table.rows[7].label == "8. b_z = 1 suffices"
    assert table.rows[7].texts == {
        "verdict": "holds",
        "evidence": "Reward 0.0% below that of the best value",
        "criterion": "At most 5% below.",
    }
    values = {row.label: row.texts["value"] for row in measurements_table(results).rows}
    assert values["8. Average reward with b_z = 1"] == "1.000"


def test_evidence_and_values_have_two_numbers_at_most(book: Book) -> None:
    results = book.results()
    texts = [row.texts["evidence"] for row in claims_table(results).rows]
    texts += [row.texts["value"] for row in measurements_table(results).rows]
    for text in texts:
        assert len(re.findall(r"(?<![A-Z])\d[\d,.]*", text)) <= 2, text

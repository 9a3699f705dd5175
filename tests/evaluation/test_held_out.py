"""Held-out metrics: written down by hand, beside an independent implementation, and on a log of three users."""

from pathlib import Path

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.evaluation import held_out
from gfn4rec.evaluation.held_out import ShownBeforeTest
from gfn4rec.evaluation.held_out_protocol import (
    HeldOut,
    default_liked,
    evaluate_held_out,
    measure_held_out,
    measure_references,
    seen_before,
)
from gfn4rec.metrics import metrics_of
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Sampling
from tests.evaluation.held_out_example import JUST_ENOUGH, LOG, NEARLY_ALL, WeighedPrior, make_data


def shown(slates: list[list[int]], relevant: list[list[int]], counts: list[int]) -> ShownBeforeTest:
    """Return slates with the items that were relevant, and the training records of the items 1, 2, ..."""
    is_hit = [[item in liked for item in slate] for slate, liked in zip(slates, relevant, strict=True)]
    num_relevant_B = torch.tensor([len(liked) for liked in relevant])
    return ShownBeforeTest(torch.tensor(slates), torch.tensor(is_hit), num_relevant_B, torch.tensor([0, *counts]))


# Metrics of this ranking by ir_measures 0.4.3 (R@5, nDCG@5, RR@5, Success@5, with pytrec_eval-terrier 0.5.11) and by
# ranx 0.3.21 (recall@5, ndcg@5, mrr@5, hit_rate@5), which agree. The last user has more relevant items than are shown.
RANKING = [[3, 1, 4, 9, 2], [5, 8, 1, 2, 7], [6, 2, 3, 4, 1], [9, 8, 7, 6, 5], [1, 2, 3, 4, 5]]
RELEVANT = [[1, 2, 10], [7], [4, 8], [1, 2, 3], [2, 3, 5, 6, 7, 8, 9]]
IR_MEASURES = {
    "recall": (0.519047619047619, [0.6666666666666666, 1.0, 0.5, 0.0, 0.42857142857142855]),
    "ndcg": (
        0.3286632156388055,
        [0.4776237035032179, 0.38685280723454163, 0.2640681225725909, 0.0, 0.5147714448836774],
    ),
    "mrr": (0.29, [0.5, 0.2, 0.25, 0.0, 0.5]),
    "hit_rate": (0.8, [1.0, 1.0, 1.0, 0.0, 1.0]),
}


@pytest.mark.parametrize("key", IR_MEASURES)
def test_relevance_as_other_libraries_compute_it(key: str) -> None:
    metric, (together, each) = getattr(held_out, key), IR_MEASURES[key]
    assert metric(shown(RANKING, RELEVANT, [1] * 10)) == pytest.approx(together, abs=1e-12)
    for slate, relevant, expected in zip(RANKING, RELEVANT, each, strict=True):
        assert metric(shown([slate], [relevant], [1] * 10)) == pytest.approx(expected, abs=1e-12)


def test_slates_without_a_relevant_item_do_not_count() -> None:
    both = shown([[1, 2], [3, 4]], [[2], []], [1] * 4)
    assert held_out.recall(both) == 1
    assert held_out.ndcg(both) == pytest.approx(0.6309297535714575)  # 1 / log2(3)
    assert held_out.hit_rate(both) == 1
    assert held_out.mrr(both) == 0.5


def test_what_is_shown_written_down() -> None:
    """Items 1 to 5 are shown 2, 2, 1, 1 and 0 times."""
    slates = shown([[1, 2], [1, 3], [2, 4]], [[], [], []], [9, 4, 5, 3, 1])
    assert held_out.distinct(slates) == 4
    assert held_out.gini(slates) == pytest.approx((-4 * 0 - 2 * 1 + 0 * 1 + 2 * 2 + 4 * 2) / (5 * 6))
    assert held_out.records(slates) == 4.5  # the middle of 3 4 4 5 9 9
    assert held_out.rare_share(slates) == pytest.approx(3 / 6)  # 4, 4 and 3, but not 5
    assert held_out.same_first_share(slates) == pytest.approx(2 / 3)
    assert held_out.records(shown([[1, 2, 4]], [[]], [9, 4, 5, 3, 1])) == 4


def test_gini_is_0_for_equal_shares_and_nearly_1_for_one_item() -> None:
    assert held_out.gini(shown([[1, 2], [3, 4]], [[], []], [1] * 4)) == pytest.approx(0)
    assert held_out.gini(shown([[1], [1], [1]], [[], [], []], [1] * 10)) == pytest.approx(0.9)


def test_nothing_relevant_and_nothing_shown_is_none() -> None:
    nothing = shown([[1, 2]], [[]], [1, 1])
    assert [getattr(held_out, key)(nothing) for key in ("recall", "ndcg", "hit_rate", "mrr")] == [None] * 4
    empty = ShownBeforeTest(*(torch.zeros(0, 2, dtype=torch.int64),) * 2, torch.zeros(0).long(), torch.ones(3).long())
    assert [getattr(held_out, metric.key)(empty) for metric in metrics_of("held_out")] == [None] * 9


def held_out_of(data: SlateData, liked: float | None = None, num_slates: int = 10_000) -> HeldOut:
    tests = HeldOut.of(data, liked, num_slates)
    assert tests is not None
    return tests


def test_three_users_by_hand(tmp_path: Path) -> None:
    """Training records: a 1, b 2, c 2, d 1, e 0. Seen: a b by the first user, d c by the second, b c by the third."""
    data = make_data(tmp_path / "data", LOG)
    tests = held_out_of(data)
    assert tests.liked == 1
    assert tests.relevant_BK.tolist() == [[3, 0], [5, 2], [0, 0]]
    assert tests.count_N.tolist() == [0, 1, 2, 2, 1, 0]
    seen_BN = seen_before(data, tests.slate_B)
    assert [row.nonzero()[:, 0].tolist() for row in seen_BN] == [[1, 2], [3, 4], [2, 3]]
    # Popularity shows c d, b a and a d.
    row = measure_references(tests)["popularity"]
    assert row["recall"] == pytest.approx((1 + 1 / 2) / 2)
    assert row["ndcg"] == pytest.approx((1 + 1 / (1 + 0.6309297535714575)) / 2)
    assert (row["hit_rate"], row["mrr"], row["distinct"]) == (1, 1, 4)
    assert row["gini"] == pytest.approx(1 / 3)
    assert (row["records"], row["rare_share"]) == (1, 1)
    assert row["same_first_share"] == pytest.approx(1 / 3)


def test_a_user_without_enough_new_items_is_left_out(tmp_path: Path) -> None:
    tests = held_out_of(make_data(tmp_path / "data", LOG | NEARLY_ALL))
    assert (len(tests.slate_B), tests.num_left_out) == (3, 1)
    results = measure_held_out(build_policy("random", Catalogue.of(tests.data)), tests)
    assert (results.num_slates, results.num_relevant, results.num_left_out) == (3, 2, 1)
    assert list(results.rows) == ["greedy"]
    assert list(results.references) == ["popularity", "random"]
    nobody = held_out_of(make_data(tmp_path / "nobody", NEARLY_ALL))
    assert set(measure_held_out(build_policy("random", Catalogue.of(nobody.data)), nobody).rows["greedy"].values()) == {
        None
    }


def test_a_user_with_just_enough_new_items_is_evaluated(tmp_path: Path) -> None:
    tests = held_out_of(make_data(tmp_path / "data", LOG | JUST_ENOUGH))
    assert (len(tests.slate_B), tests.num_left_out) == (4, 0)
    alone = held_out_of(make_data(tmp_path / "alone", JUST_ENOUGH))
    row = evaluate_held_out(build_policy("popularity", Catalogue.of(alone.data)), alone)
    assert (row["recall"], row["distinct"]) == (1, 2)  # whatever the policy, it shows d and e


def test_an_item_of_an_earlier_test_slate_has_been_met(tmp_path: Path) -> None:
    """The second test slate of the user repeats b, which was in the first one."""
    data = make_data(tmp_path / "data", {1: "a1 c1 b1 d0 e1 b1", 2: "f1 g0 a1 b1"}, test_slates=2)
    tests = held_out_of(data)
    titles = ["", *data.items["id"].to_list()]
    assert [[titles[item] for item in row] for row in tests.relevant_BK.tolist()] == [["b", ""], ["e", ""], ["a", "b"]]


def test_the_threshold_of_liked_items(tmp_path: Path, data: SlateData) -> None:
    rewards = (data.response_at(data.training_rows()) @ data.weight_R).tolist()
    mean = sum(rewards) / len(rewards)
    expected = min(reward for reward in rewards if reward >= mean)
    assert default_liked(data) == pytest.approx(expected)
    tests, strict, everything = (held_out_of(data, liked) for liked in (None, 1e9, -1e9))
    assert tests.liked == default_liked(data)
    batch = data.slates(tests.slate_B)
    for place, (slate, reward, relevant) in enumerate(
        zip(batch.slate_BK.tolist(), batch.item_reward_BK.tolist(), tests.relevant_BK.tolist(), strict=True)
    ):
        row, user = int(data.first_rows(tests.slate_B)[place]), int(batch.request.user_B[place])
        met = set(data.item_at(torch.arange(int(data.first_row_U[user]), row)).tolist())
        liked = [item if worth >= expected - 1e-5 else 0 for item, worth in zip(slate, reward, strict=True)]
        assert relevant == [0 if item in met else item for item in liked]
    assert not bool(strict.relevant_BK.any())
    assert int(everything.count_relevant().sum()) > int(tests.count_relevant().sum())
    assert default_liked(make_data(tmp_path / "bought", {1: "a1 b1 c1 d1", 2: "b1 a1 d1 c1"})) == 1
    with pytest.raises(UserError, match="liked nan: write the smallest reward of a liked item"):
        HeldOut.of(data, float("nan"))


def test_a_part_of_the_test_slates(data: SlateData) -> None:
    every, some, again = (held_out_of(data, num_slates=count) for count in (10_000, 20, 20))
    assert every.slate_B.tolist() == data.split("test").tolist()
    assert len(some.slate_B) == 20
    assert some.slate_B.tolist() == again.slate_B.tolist() != every.slate_B[:20].tolist()
    assert set(some.slate_B.tolist()) < set(every.slate_B.tolist())


def test_nobody_is_shown_what_they_have_met(data: SlateData, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the slates are divided into batches."""
    tests, policy = held_out_of(data), build_policy("popularity", Catalogue.of(data))
    slates, recommend = list[list[int]](), policy.recommend

    def watch(*arguments: object) -> object:
        proposal = recommend(*arguments)  # type: ignore[arg-type]
        slates.extend(proposal.slate_BK.tolist())
        return proposal

    monkeypatch.setattr(policy, "recommend", watch)
    row = evaluate_held_out(policy, tests)
    seen_BN = seen_before(data, tests.slate_B)
    assert not any(seen_BN[place, slate].any() for place, slate in enumerate(slates))
    monkeypatch.setattr("gfn4rec.evaluation.held_out_protocol._BATCH_SLATES", 7)
    assert evaluate_held_out(policy, tests) == row


def test_without_test_slates_there_are_no_metrics(tmp_path: Path) -> None:
    assert HeldOut.of(make_data(tmp_path / "data", LOG, test_slates=0)) is None


def test_random_slates_are_random(data: SlateData) -> None:
    """Greedy, the random policy would show everybody the lowest ids."""
    tests = held_out_of(data)
    row = measure_references(tests)["random"]
    assert row == measure_references(tests)["random"]
    assert row["distinct"] == data.num_items
    assert (row["same_first_share"] or 1) < 0.2


def test_a_policy_with_a_prior_is_measured_with_each_weight_and_without_the_reward(tmp_path: Path) -> None:
    """Popularity is the prior; a heavy reward shows the highest item numbers: e d, e b and e d."""
    data = make_data(tmp_path / "data", LOG)
    tests = held_out_of(data)
    policy = WeighedPrior(Catalogue.of(data), WeighedPrior.Config())
    results = measure_held_out(policy, tests, reward_weights=(1.0, 100.0))
    assert list(results.rows) == ["greedy", "greedy, w=100", "prior alone"]
    assert results.rows["prior alone"] == results.references["popularity"]
    assert results.rows["greedy, w=100"]["recall"] == 0.5
    assert results.rows["greedy, w=100"]["distinct"] == 3
    assert results.rows["greedy"] == evaluate_held_out(policy, tests, Sampling(greedy=True))

"""R-NDCG and R-MRR against numbers worked out by hand."""

import math

import pytest
import torch

from gfn4rec.evaluation.ranking import r_mrr, r_mrr_unsorted, r_ndcg, r_ndcg_unsorted


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values)[:, None]


def test_by_hand() -> None:
    score, reward = column(0.2, 0.9, 0.5), column(3.0, 1.0, 2.0)
    # Ranks 3, 1, 2; discounts 1, 1/2, 1/4.
    assert r_ndcg(score, reward) == pytest.approx((3 / 4 + 1 + 2 / 2) / (3 + 2 / 2 + 1 / 4))
    assert r_mrr(score, reward) == pytest.approx((3 / 3 + 1 / 1 + 2 / 2) / 3)


def test_the_ideal_order_is_one() -> None:
    reward = torch.rand(50, 6, generator=torch.Generator().manual_seed(0))
    assert r_ndcg(reward, reward) == pytest.approx(1)
    assert r_ndcg(-reward, reward) < 0.9


def test_ties_share_the_mean_of_their_discounts() -> None:
    score, reward = column(0.5, 0.5, 0.1), column(4.0, 0.0, 0.0)
    assert r_ndcg(score, reward) == pytest.approx((1 + 0.5) / 2)
    assert r_mrr(score, reward) == pytest.approx(4 * (1 + 0.5) / 2 / 3)
    assert r_ndcg(column(1.0, 1.0, 1.0), column(1.0, 2.0, 3.0)) == pytest.approx(2 * 1.75 / (3 + 1 + 0.25))


def test_positions_are_averaged() -> None:
    score = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    reward = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert r_ndcg(score, reward) == pytest.approx((1 + 0.5) / 2)
    assert r_mrr(score, reward) == pytest.approx((0.5 + 0.25) / 2)


def test_no_reward_gives_nothing() -> None:
    assert r_ndcg(column(0.1, 0.2), column(0.0, 0.0)) == 0
    assert r_ndcg(column(0.1, 0.2), column(-1.0, 0.0)) == 0


def test_unsorted_is_the_authors() -> None:
    """The model's order plays no part: R-MRR is the average reward times H_B / B."""
    generator = torch.Generator().manual_seed(0)
    reward = torch.full((128, 6), 2.0)
    score = torch.rand(128, 6, generator=generator)
    harmonic = sum(1 / rank for rank in range(1, 129))
    assert r_mrr_unsorted(score, reward) == pytest.approx(2 * harmonic / 128)
    assert harmonic / 128 == pytest.approx(0.0424, abs=1e-4)
    by_hand = (0 + math.exp(-1) * 3) / (3 + 0)
    assert r_ndcg_unsorted(column(0.0, 1.0), column(0.0, 3.0)) == pytest.approx(by_hand)

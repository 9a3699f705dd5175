"""Rank correlation against numbers worked out by hand."""

import pytest
import torch

from gfn4rec.evaluation.scores import rank_correlation


def test_rank_correlation_by_hand() -> None:
    one = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert rank_correlation(one, one.exp()) == pytest.approx(1.0)
    assert rank_correlation(one, -one.exp()) == pytest.approx(-1.0)
    # Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * (1 + 1 + 1 + 1) / (4 * 15)
    assert rank_correlation(one, torch.tensor([0.2, 0.1, 9.0, 7.0])) == pytest.approx(0.6)

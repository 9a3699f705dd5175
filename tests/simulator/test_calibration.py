"""AUC and calibration against numbers worked out by hand."""

import math

import pytest
import torch

from gfn4rec.simulator.calibration import auc, fit_scale_and_shift, reliability


def test_auc_by_hand() -> None:
    # Pairs (positive, negative): (0.9, 0.8) won, (0.9, 0.2) won, (0.5, 0.8) lost, (0.5, 0.2) won.
    assert auc(torch.tensor([0.9, 0.8, 0.5, 0.2]), torch.tensor([1.0, 0.0, 1.0, 0.0])) == 0.75
    assert auc(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])) == 0.5  # a tie counts half
    assert auc(torch.tensor([0.1, 0.9, 0.9]), torch.tensor([0.0, 0.0, 1.0])) == 0.75
    assert math.isnan(auc(torch.tensor([0.1, 0.9]), torch.tensor([1.0, 1.0])))


def test_reliability_by_hand() -> None:
    probability = torch.tensor([0.9, 0.1, 0.3, 0.7])
    curve = reliability(probability, torch.tensor([1.0, 0.0, 1.0, 1.0]), num_bins=2)
    assert curve.predicted == pytest.approx((0.2, 0.8))
    assert curve.observed == (0.5, 1.0)
    assert curve.num_rows == (2, 2)
    assert curve.error == pytest.approx((2 * 0.3 + 2 * 0.2) / 4)
    assert reliability(torch.tensor([0.5]), torch.tensor([1.0])).error == pytest.approx(0.5)


def test_scale_and_shift_recover_what_was_done_to_true_logits() -> None:
    generator = torch.Generator().manual_seed(0)
    true = torch.randn(200_000, 2, generator=generator)
    label = (torch.rand(true.shape, generator=generator) < torch.sigmoid(true)).float()
    distorted = torch.stack([true[:, 0] * 2 + 1, true[:, 1] / 3 - 2], dim=1)
    fitted = fit_scale_and_shift(distorted, label)
    torch.testing.assert_close(fitted, torch.tensor([[0.5, 3.0], [-0.5, 6.0]]), atol=0.1, rtol=0)
    calibrated = torch.sigmoid(distorted * fitted[0] + fitted[1])
    assert all(reliability(calibrated[:, b], label[:, b]).error < 0.005 for b in range(2))


def test_a_behaviour_that_never_occurs_is_left_alone() -> None:
    fitted = fit_scale_and_shift(torch.randn(10, 1), torch.zeros(10, 1))
    assert fitted.tolist() == [[1.0], [0.0]]

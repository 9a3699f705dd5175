"""Quality of predicted response probabilities: AUC, calibration error, and calibration by a scale and a shift."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

NUM_BINS = 15


@dataclass(frozen=True)
class Reliability:
    """Mean prediction and share of positives in bins of equal mass, ordered by prediction."""

    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    num_rows: tuple[int, ...]

    @property
    def error(self) -> float:
        """The expected calibration error: the mean gap of the bins, weighted by their rows."""
        gaps = [
            count * abs(predicted - observed)
            for predicted, observed, count in zip(self.predicted, self.observed, self.num_rows, strict=True)
        ]
        return sum(gaps) / sum(self.num_rows)


def auc(score: Tensor, label: Tensor) -> float:
    """Return the probability that a positive scores above a negative; ties count half. NaN without both classes."""
    num_positive = int(label.sum())
    num_negative = len(label) - num_positive
    if not num_positive or not num_negative:
        return float("nan")
    _, inverse, count = torch.unique(score, return_inverse=True, return_counts=True)
    last_rank = count.cumsum(0).double()
    mean_rank = last_rank - (count.double() - 1) / 2  # ties share the mean of their ranks
    rank_sum = mean_rank[inverse][label > 0].sum()
    return float((rank_sum - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative))


def reliability(probability: Tensor, label: Tensor, num_bins: int = NUM_BINS) -> Reliability:
    """Compare predictions with labels, in bins of equal mass."""
    order = torch.argsort(probability, stable=True)
    bins = [rows for rows in torch.tensor_split(order, num_bins) if len(rows)]
    return Reliability(
        tuple(float(probability[rows].double().mean()) for rows in bins),
        tuple(float(label[rows].double().mean()) for rows in bins),
        tuple(len(rows) for rows in bins),
    )


def fit_scale_and_shift(logit_NR: Tensor, label_NR: Tensor) -> Tensor:
    """Return the scale and shift of each behaviour's logits that minimise the cross-entropy, (2, R).

    They are found by Newton's method with step halving. A behaviour with one class only keeps scale 1 and shift 0.
    """
    fitted = torch.tensor([[1.0], [0.0]], dtype=torch.float64).repeat(1, logit_NR.shape[1])
    for behaviour in range(logit_NR.shape[1]):
        x, y = logit_NR[:, behaviour].double(), label_NR[:, behaviour].double()
        if y.min() == y.max():
            continue
        design = torch.stack([x, torch.ones_like(x)], dim=1)
        theta = fitted[:, behaviour]
        for _ in range(25):
            p = torch.sigmoid(design @ theta)
            gradient = design.T @ (p - y)
            curvature = (design * (p * (1 - p))[:, None]).T @ design + 1e-6 * torch.eye(2, dtype=torch.float64)
            step = torch.linalg.solve(curvature, gradient)
            while _loss(design @ (theta - step), y) > _loss(design @ theta, y) + 1e-12 and step.abs().max() > 1e-9:
                step = step / 2
            theta = theta - step
        fitted[:, behaviour] = theta
    return fitted.float()


def _loss(logit: Tensor, label: Tensor) -> float:
    return float(F.binary_cross_entropy_with_logits(logit, label))

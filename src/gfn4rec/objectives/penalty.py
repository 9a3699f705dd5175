"""Penalties of residuals.

Use the square, as the paper does: only its minimum is the mean of a noisy target. Huber is less sensitive to outliers.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor


def square(residual: Tensor) -> Tensor:
    """Return x^2."""
    return residual.square()


def huber(residual: Tensor) -> Tensor:
    """Return x^2 if |x| < 1, else 2 |x| - 1."""
    size = residual.abs()
    return torch.where(size < 1, size.square(), 2 * size - 1)


PENALTIES: Final[dict[str, Callable[[Tensor], Tensor]]] = {"square": square, "huber": huber}

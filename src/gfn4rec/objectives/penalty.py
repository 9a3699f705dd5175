"""How a residual is punished. The square is the paper's, and the only one that keeps the mean of a noisy target."""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor


def square(residual: Tensor) -> Tensor:
    """x^2."""
    return residual.square()


def huber(residual: Tensor) -> Tensor:
    """x^2 for small residuals, 2 |x| - 1 from 1 on."""
    size = residual.abs()
    return torch.where(size < 1, size.square(), 2 * size - 1)


PENALTIES: Final[dict[str, Callable[[Tensor], Tensor]]] = {"square": square, "huber": huber}

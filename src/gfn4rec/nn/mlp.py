"""Multi-layer perceptrons."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn


def mlp(input_dim: int, hidden_dims: Sequence[int], output_dim: int) -> nn.Sequential:
    """Return linear layers of the given widths, with a ReLU after each but the last."""
    widths = [input_dim, *hidden_dims, output_dim]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])

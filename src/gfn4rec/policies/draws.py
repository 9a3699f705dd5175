"""Random numbers of a batch of requests: from one generator for all of them, or from a generator of each request."""

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from gfn4rec.errors import UserError

Generators: TypeAlias = torch.Generator | Sequence[torch.Generator]
"""One generator for a batch, or one for each of its requests, in their order."""


def check_generators(generator: Generators | None, num_requests: int) -> None:
    """Raise a `UserError` if there are generators of requests, but not one for each."""
    if isinstance(generator, Sequence) and len(generator) != num_requests:
        raise UserError(f"{len(generator)} generators for {num_requests} requests: give one for all, or one for each")


def draw_uniforms(num_requests: int, width: int, generator: Generators, device: torch.device) -> Tensor:
    """Return uniform numbers of [0, 1) in double precision, (B, width)."""
    uniform_BX = torch.empty(num_requests, width, dtype=torch.float64, device=device)
    if isinstance(generator, torch.Generator):
        return uniform_BX.uniform_(generator=generator)
    for uniform_X, own in zip(uniform_BX, generator, strict=True):
        uniform_X.uniform_(generator=own)
    return uniform_BX


def draw_normals(
    num_requests: int, width: int, generator: Generators | None, device: torch.device, is_skipped_B: Tensor | None
) -> Tensor:
    """Return standard normal numbers, (B, width); 0 for requests to skip, from whose own generators none is drawn."""
    if not isinstance(generator, Sequence):
        normal_BX = torch.randn(num_requests, width, generator=generator, device=device)
        return normal_BX if is_skipped_B is None else normal_BX.masked_fill_(is_skipped_B[:, None], 0.0)
    normal_BX = torch.zeros(num_requests, width, device=device)
    for row, own in enumerate(generator):
        if is_skipped_B is None or not is_skipped_B[row]:
            normal_BX[row].normal_(generator=own)
    return normal_BX

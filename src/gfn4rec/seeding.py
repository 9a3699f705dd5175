"""Named random generators derived from one seed.

A stream depends on the seed and its own name only, so a new consumer never shifts another's numbers.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def stream_seed(seed: int, name: str) -> int:
    """Return the 63-bit seed of the stream `name`."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def torch_generator(seed: int, name: str, device: "torch.device | str" = "cpu") -> "torch.Generator":
    """Return a torch generator for the stream `name`."""
    import torch  # not at the top: commands on logs start faster without it

    return torch.Generator(device=device).manual_seed(stream_seed(seed, name))


def numpy_generator(seed: int, name: str) -> np.random.Generator:
    """Return a numpy generator for the stream `name`."""
    return np.random.default_rng(stream_seed(seed, name))

"""Tensors that are computed from weights, and kept until the weights change."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class Kept:
    """A tensor that is computed from others. Without gradients it is computed once per change of these."""

    def __init__(self) -> None:
        self._kept: tuple[list[Tensor], Tensor] | None = None

    def of(self, sources: Sequence[Tensor], compute: Callable[[], Tensor], keep: bool = True) -> Tensor:
        """Return what `compute` makes of the sources: weights, or tensors that nobody changes in place.

        Without `keep` it is for this time only, as with some items hidden.
        """
        if torch.is_grad_enabled() or not keep:
            return compute()
        # Compare the weights themselves: a fused optimiser changes them without incrementing their versions.
        if self._kept is None or not all(map(_same, self._kept[0], sources)):
            # A normal tensor in the weights' own precision, whatever the caller's context is.
            with torch.inference_mode(False), torch.no_grad(), torch.autocast(sources[0].device.type, enabled=False):
                self._kept = [tensor.clone() if _is_weight(tensor) else tensor for tensor in sources], compute()
        return self._kept[1]


def _is_weight(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.Parameter)


def _same(kept: Tensor, now: Tensor) -> bool:
    return kept is now or (kept.device == now.device and kept.dtype == now.dtype and torch.equal(kept, now))

"""What all training loops share: the cosine schedule, early stopping, the finite check, the optimiser's state."""

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from gfn4rec.nn.rows import add_rows
from gfn4rec.schema import SlateBatch


class NotFinite(Exception):  # noqa: N818
    """The loss of a batch, or the norm of its gradient, is NaN or infinite."""

    def __init__(self, what: str, value: float, batch: SlateBatch | None = None) -> None:
        super().__init__(f"the {what} is {value}")
        self.batch = batch


def require_finite(what: str, value: float, batch: SlateBatch | None = None) -> None:
    """Raise `NotFinite` for a value that must not reach the weights. Call it before the optimiser's step."""
    if not math.isfinite(value):
        raise NotFinite(what, value, batch)


def cosine_share(done: float, final_share: float, total: float = 1.0) -> float:
    """Return the share of the learning rate that is left after `done` of `total`: a cosine from 1 to `final_share`."""
    return final_share + (1 - final_share) * (1 + math.cos(math.pi * done / total)) / 2


def has_stopped_improving(
    values: Sequence[float], patience: int, best: Callable[[Iterable[float]], float] = max
) -> bool:
    """Return whether the best of the values so far is at least `patience` evaluations old; `best` is max or min."""
    return bool(values) and len(values) - 1 - values.index(best(values)) >= patience


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimiser as named tensors."""
    state = optimizer.state_dict()["state"]
    return {f"optimizer.{number}.{name}": value for number, values in state.items() for name, value in values.items()}


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned; tensors with other names are ignored.

    Tensors are copied: an optimiser keeps those it is given, and would change them with each step.
    """
    state = optimizer.state_dict()
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".")
            state["state"].setdefault(int(number), {})[name] = value.clone()
    optimizer.load_state_dict(state)


def with_rows_of(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the state of an optimiser of smaller weights as that of this one: rows that are missing are 0."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    grown = {}
    for key, value in tensors.items():
        weight = weights[int(key.split(".")[1])]
        grown[key] = add_rows(value, len(weight)) if value.dim() and value.shape != weight.shape else value
    return grown

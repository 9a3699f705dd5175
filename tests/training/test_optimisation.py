"""What all training loops share, against the formulas written out."""

import math

import pytest
import torch

from gfn4rec.training.optimisation import (
    NotFinite,
    cosine_share,
    has_stopped_improving,
    load_optimizer_tensors,
    optimizer_tensors,
    require_finite,
)


@pytest.mark.parametrize("share", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("num_steps", [1, 7, 1000])
def test_the_cosine_is_to_the_last_bit_that_of_either_loop(share: float, num_steps: int) -> None:
    """The loops round differently: pi times a share of the steps, and pi times the step, divided."""
    for step in range(num_steps + 1):
        progress = min(1.0, step / num_steps)
        assert cosine_share(progress, share) == share + (1 - share) * (1 + math.cos(math.pi * progress)) / 2
        by_count = share + (1 - share) * (1 + math.cos(math.pi * step / num_steps)) / 2
        assert cosine_share(step, share, num_steps) == by_count


def test_the_cosine_begins_at_one_and_ends_at_the_final_share() -> None:
    assert cosine_share(0, 0.1) == 1
    assert cosine_share(0.5, 0.1) == pytest.approx(0.55)
    assert cosine_share(1, 0.1) == pytest.approx(0.1)


def test_early_stopping_counts_from_the_first_best_value() -> None:
    assert not has_stopped_improving([], 1)
    assert not has_stopped_improving([0.7, 0.6], 2)
    assert has_stopped_improving([0.7, 0.6, 0.7], 2)  # as good is not better
    assert not has_stopped_improving([0.7, 0.6, 0.71], 2)
    assert has_stopped_improving([3.0, 2.0, 2.5, 2.5], 2, best=min)
    assert not has_stopped_improving([3.0, 2.5, 2.0], 2, best=min)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_nan_or_infinite_are_refused(value: float) -> None:
    require_finite("loss", 1e30)
    with pytest.raises(NotFinite, match=f"the loss is {value}"):
        require_finite("loss", value)


def test_an_optimiser_continues_from_its_tensors() -> None:
    weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizers = [torch.optim.Adam([weight], lr=0.1) for weight in weights]

    def step(number: int) -> None:
        optimizers[number].zero_grad()
        weights[number].square().sum().backward()
        optimizers[number].step()

    step(0)
    with torch.no_grad():
        weights[1].copy_(weights[0])
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizers[0]).items()}
    load_optimizer_tensors(optimizers[1], {**saved, "model.weight": torch.zeros(1)})
    step(0)
    step(1)
    assert torch.equal(*weights)

"""Tensors kept until the weights that they were computed from change."""

import torch
from torch import Tensor, nn

from gfn4rec.nn.kept import Kept


class Doubled:
    """Twice a tensor, with a count of how often it was computed."""

    def __init__(self, source: Tensor) -> None:
        self.kept, self.source, self.count = Kept(), source, 0

    def __call__(self, keep: bool = True) -> Tensor:
        return self.kept.of([self.source], self._compute, keep)

    def _compute(self) -> Tensor:
        self.count += 1
        return 2.0 * self.source


@torch.no_grad()
def test_it_is_computed_once_per_change_of_a_weight() -> None:
    doubled = Doubled(nn.Parameter(torch.tensor([1.0, 2.0])))
    assert doubled() is doubled()
    assert doubled.count == 1
    doubled.source[1] = 3.0
    assert doubled().tolist() == [2.0, 6.0]
    doubled.source.data[0] = 5.0  # as fused optimisers do, without a new version
    assert doubled().tolist() == [10.0, 6.0]
    assert doubled.count == 3


@torch.no_grad()
def test_any_of_several_sources_counts() -> None:
    weights = [nn.Parameter(torch.tensor([value])) for value in (1.0, 2.0)]
    kept = Kept()
    for place in range(2):
        weights[place].add_(1.0)
        assert kept.of(weights, lambda: weights[0] + weights[1]).item() == 4.0 + place


@torch.no_grad()
def test_weights_of_another_size_or_precision_count_as_changed() -> None:
    doubled = Doubled(nn.Parameter(torch.ones(2)))
    doubled()
    doubled.source = nn.Parameter(torch.ones(3))
    assert doubled().shape == (3,)
    doubled.source = nn.Parameter(torch.ones(3, dtype=torch.float64))
    assert doubled().dtype == torch.float64


def test_gradients_flow_through_a_tensor_of_its_own() -> None:
    doubled = Doubled(nn.Parameter(torch.ones(2)))
    with torch.no_grad():
        kept = doubled()
    doubled().sum().backward()
    assert doubled.source.grad is not None
    assert doubled.source.grad.tolist() == [2.0, 2.0]
    with torch.no_grad():
        assert doubled() is kept


@torch.no_grad()
def test_what_is_for_this_time_only_is_neither_kept_nor_taken_from_what_is() -> None:
    doubled = Doubled(nn.Parameter(torch.ones(2)))
    kept = doubled()
    assert doubled(keep=False) is not kept
    assert doubled() is kept
    assert doubled.count == 2


def test_it_serves_learning_and_full_precision_wherever_it_was_first_computed() -> None:
    weight = nn.Parameter(torch.tensor([[0.1, 0.3]]))
    kept = Kept()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        product = kept.of([weight], lambda: weight @ weight.T)
    assert product.dtype == torch.float32
    assert not product.is_inference()
    assert not product.requires_grad

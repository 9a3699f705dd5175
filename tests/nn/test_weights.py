"""Weights that do not fit a model are refused, and the one that does not fit is named."""

from pathlib import Path

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import load_weights
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue


def test_weights_of_another_shape_name_or_value_are_refused(data: SlateData, tmp_path: Path) -> None:
    policy = build_policy("cf", Catalogue.of(data))
    weights = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    name = next(iter(weights))
    spoiled = weights[name].clone()
    spoiled.view(-1)[0] = torch.nan
    for changed, message in (
        ({**weights, name: weights[name][:-1]}, "has shape"),
        ({**weights, "more": torch.zeros(1)}, "has an unknown tensor 'more'"),
        ({key: value for key, value in weights.items() if key != name}, "lacks"),
        ({**weights, name: weights[name].to(torch.complex64)}, "not a plain tensor of real numbers"),
        ({**weights, name: spoiled}, f"{name!r} holds NaN or infinite values"),
    ):
        with pytest.raises(UserError, match=message):
            load_weights(policy, changed, tmp_path)
    assert torch.equal(policy.state_dict()[name], weights[name])

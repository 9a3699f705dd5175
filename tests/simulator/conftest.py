"""Simulated users with known probabilities."""

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.schema import Request


class FixedUsers:
    """A simulator of somebody else's: item i gets each response with probability i / N, whoever the user is."""

    def __init__(self, data: SlateData) -> None:
        generator = torch.Generator().manual_seed(0)
        self.item_embedding_ND = torch.nn.functional.normalize(
            torch.rand(data.num_items + 1, 4, generator=generator), dim=1
        )
        self.base_NR = (torch.arange(data.num_items + 1) / data.num_items)[:, None].repeat(1, len(data.behaviours))

    def encode(self, request: Request) -> Tensor:
        return request.user_B

    def probabilities(self, state: Tensor, item_BC: Tensor) -> Tensor:
        assert len(state) == len(item_BC)
        return self.base_NR[item_BC]


class CautiousUsers(FixedUsers):
    """The same, but of items with small numbers little is believed, whoever the user is."""

    def __init__(self, data: SlateData) -> None:
        super().__init__(data)
        self.trust_N = (torch.arange(data.num_items + 1) / data.num_items) ** 2

    def trust(self, state: Tensor, item_BC: Tensor) -> Tensor:
        assert len(state) == len(item_BC)
        return self.trust_N[item_BC]


@pytest.fixture
def cautious_users(data: SlateData) -> CautiousUsers:
    return CautiousUsers(data)


@pytest.fixture
def users(data: SlateData) -> FixedUsers:
    return FixedUsers(data)

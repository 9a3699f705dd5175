"""A small data set, and simulated users whose probabilities are written down."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.schema import Request


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "tiny"
    prepare(generate(PRESETS["tiny"], seed=1)[1], PrepareConfig(), folder, "synthetic-tiny")
    return folder


@pytest.fixture(scope="session")
def data(data_folder: Path) -> SlateData:
    return SlateData.open(data_folder, history_length=10)


class FixedUsers:
    """Somebody else's simulator, in five lines: item i is answered with probability i / N, whatever the user."""

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


@pytest.fixture
def users(data: SlateData) -> FixedUsers:
    return FixedUsers(data)

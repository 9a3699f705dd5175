"""Tensor access against the log, read off by hand."""

from pathlib import Path

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Behaviour, Interactions
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.errors import UserError
from tests.conftest import make_interactions


@pytest.fixture
def data(tmp_path: Path) -> SlateData:
    """User 1 sees items 1..5, user 2 items 6, 7, 1, 2; responses alternate, hate is the opposite of click."""
    rows = [(1, item, item, item % 2) for item in (1, 2, 3, 4, 5)]
    rows += [(2, item, time, time % 2) for time, item in enumerate((6, 7, 1, 2))]
    plain = make_interactions(list(rows))
    log = plain.log.with_columns(hate=~plain.log["click"])
    interactions = Interactions(log, (Behaviour("click"), Behaviour("hate", -2.0)))
    prepare(interactions, PrepareConfig(core=1, slate_size=2, val_slates=0), tmp_path / "out", "x")
    return SlateData.open(tmp_path / "out", history_length=3)


def test_requests_hold_the_rows_before_and_nothing_of_other_users(data: SlateData) -> None:
    request = data.requests(torch.tensor([0, 1, 4, 5, 8]))
    assert request.user_B.tolist() == [1, 1, 1, 2, 2]
    assert request.history_BH.tolist() == [[0, 0, 0], [0, 0, 1], [2, 3, 4], [0, 0, 0], [6, 7, 1]]
    assert request.response_BHR[2].tolist() == [[0, 1], [1, 0], [0, 1]]
    assert request.response_BHR[1].tolist() == [[0, 0], [0, 0], [1, 0]]  # padding has no responses
    assert request.history_BH.dtype == torch.int64
    assert request.response_BHR.dtype == torch.float32


def test_slates_come_with_their_rewards(data: SlateData) -> None:
    assert data.split("train").tolist() == [0, 2]
    assert data.split("test").tolist() == [1, 3]
    assert data.split("val").tolist() == []
    batch = data.slates(torch.tensor([1, 3]))
    assert batch.slate_BK.tolist() == [[4, 5], [1, 2]]
    assert batch.request.history_BH.tolist() == [[1, 2, 3], [0, 6, 7]]
    assert batch.response_BKR.tolist() == [[[0, 1], [1, 0]], [[0, 1], [1, 0]]]
    assert batch.item_reward_BK.tolist() == [[-2, 1], [-2, 1]]
    assert batch.reward_B.tolist() == [-0.5, -0.5]


def test_sizes(data: SlateData) -> None:
    assert (data.num_users, data.num_items, data.num_rows, data.num_slates, data.slate_size) == (2, 7, 9, 4, 2)
    assert data.behaviours == ("click", "hate")
    assert data.manifest.reward_range == (-2.0, 1.0)
    with pytest.raises(UserError, match="no split 'tset'; did you mean 'test'?"):
        data.split("tset")


def test_histories_are_those_of_the_paper_by_default(tmp_path: Path, data: SlateData) -> None:
    assert data.history_length == 3
    assert SlateData.open(tmp_path / "out").requests(torch.tensor([8])).history_BH.shape == (1, 50)


def test_any_device(tmp_path: Path, data: SlateData) -> None:
    on_meta = SlateData.open(tmp_path / "out", device="meta")
    assert on_meta.requests(torch.zeros(4, dtype=torch.int64, device="meta")).history_BH.shape == (4, 50)
    assert on_meta.weight_R.device.type == "meta"
    assert data.weight_R.device.type == "cpu"

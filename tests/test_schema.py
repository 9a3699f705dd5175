import pytest
import torch

from gfn4rec.schema import FeatureTensors, Request, SlateBatch


def request_of(num_requests: int) -> Request:
    return Request(
        torch.ones(num_requests, dtype=torch.int64),
        torch.zeros(num_requests, 5, dtype=torch.int64),
        torch.zeros(num_requests, 5, 3),
    )


def test_shapes_are_checked_where_an_object_is_built() -> None:
    with pytest.raises(ValueError, match="history_BH has shape"):
        Request(torch.ones(2), torch.zeros(3, 5), torch.zeros(3, 5, 1))
    with pytest.raises(ValueError, match="response_BHR has shape"):
        Request(torch.ones(2), torch.zeros(2, 5), torch.zeros(2, 4, 1))
    with pytest.raises(ValueError, match="reward_B has shape"):
        SlateBatch(request_of(2), torch.zeros(2, 6), torch.zeros(2, 6, 3), torch.zeros(2, 6), torch.zeros(3))
    with pytest.raises(ValueError, match="slate_BK has shape"):
        SlateBatch(request_of(2), torch.zeros(3, 6), torch.zeros(3, 6, 3), torch.zeros(3, 6), torch.zeros(3))


def test_everything_moves_to_a_device() -> None:
    batch = SlateBatch(request_of(2), torch.zeros(2, 6), torch.zeros(2, 6, 3), torch.zeros(2, 6), torch.zeros(2))
    moved = batch.to("meta")
    assert {moved.request.user_B.device.type, moved.slate_BK.device.type, moved.reward_B.device.type} == {"meta"}
    features = FeatureTensors({"a": torch.zeros(3)}, {"b": torch.zeros(3, 2)}, {"c": torch.zeros(3)}, {"a": 2, "b": 2})
    moved_features = features.to("meta")
    assert moved_features.multi["b"].device.type == "meta"
    assert moved_features.num_values == {"a": 2, "b": 2}

"""Values that cross packages: their shapes are checked, and slates and samplings that make no sense are refused."""

import math
from typing import Any

import pytest
import torch

from gfn4rec.errors import UserError
from gfn4rec.schema import MIN_TEMPERATURE, FeatureTensors, Request, Sampling, SlateBatch, check_slates, rewards


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
    parts = torch.zeros(2, 6), torch.zeros(2, 6, 3), torch.zeros(2, 6), torch.zeros(2)
    with pytest.raises(ValueError, match="is_sampled_BK has shape"):
        SlateBatch(request_of(2), *parts, is_sampled_BK=torch.zeros(2, 5, dtype=torch.bool))


def test_sampled_items_are_left_out_in_the_order_of_the_slates() -> None:
    slate_BK, response_BKR = torch.tensor([[7, 8, 9], [4, 5, 6]]), torch.zeros(2, 3, 3)
    batch = SlateBatch.of(request_of(2), slate_BK, response_BKR, torch.ones(3))
    assert batch.is_sampled_BK is None
    assert batch.without_sampled(slate_BK).tolist() == slate_BK.tolist()
    is_sampled_BK = torch.tensor([[False, True, False], [True, False, False]])
    batch = SlateBatch.of(request_of(2), slate_BK, response_BKR, torch.ones(3), is_sampled_BK=is_sampled_BK)
    assert batch.to("cpu").without_sampled(slate_BK).tolist() == [[7, 9], [5, 6]]


def test_everything_moves_to_a_device() -> None:
    batch = SlateBatch(request_of(2), torch.zeros(2, 6), torch.zeros(2, 6, 3), torch.zeros(2, 6), torch.zeros(2))
    moved = batch.to("meta")
    assert {moved.request.user_B.device.type, moved.slate_BK.device.type, moved.reward_B.device.type} == {"meta"}
    features = FeatureTensors({"a": torch.zeros(3)}, {"b": torch.zeros(3, 2)}, {"c": torch.zeros(3)}, {"a": 2, "b": 2})
    moved_features = features.to("meta")
    assert moved_features.multi["b"].device.type == "meta"
    assert moved_features.num_values == {"a": 2, "b": 2}


def numbered(num_requests: int) -> Request:
    """Requests whose row number stands in every part."""
    row_B = torch.arange(num_requests)
    return Request(row_B, row_B[:, None].expand(-1, 5), row_B[:, None, None].expand(-1, 5, 3).float())


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        (slice(1, 3), [1, 2]),
        (slice(0, 0), []),
        (torch.tensor([3, 0, 3]), [3, 0, 3]),
        (torch.tensor([True, False, False, True]), [0, 3]),
    ],
)
def test_some_requests_by_their_rows(rows: slice | torch.Tensor, numbers: list[int]) -> None:
    some = numbered(4)[rows]
    assert some.user_B.tolist() == numbers
    assert some.history_BH.tolist() == [[number] * 5 for number in numbers]
    assert some.response_BHR.tolist() == [[[number] * 3] * 5 for number in numbers]


def test_rewards_are_weighted_sums_of_responses_and_their_means() -> None:
    response_BKR = torch.tensor([[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]], [[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]])
    weight_R = torch.tensor([1.0, 0.5, -2.0])
    item_reward_BK, reward_B = rewards(response_BKR, weight_R)
    assert item_reward_BK.tolist() == [[-1.0, 0.0], [0.5, -0.5]]
    assert reward_B.tolist() == [-0.5, 0.0]
    assert rewards(torch.full((1, 2, 3), 0.5), weight_R)[1].tolist() == [-0.25]  # of probabilities, the expected one
    slate_BK = torch.tensor([[3, 1], [2, 4]])
    batch = SlateBatch.of(request_of(2), slate_BK, response_BKR, weight_R)
    assert batch.slate_BK is slate_BK
    assert torch.equal(batch.item_reward_BK, item_reward_BK)
    assert torch.equal(batch.reward_B, reward_B)


@pytest.mark.parametrize(
    ("slates", "message"),
    [
        ([[1, 2, 3]], r"slates of shape \(1, 3\), but \(2, 3\) is expected: a row for each request"),
        ([[1, 2], [3, 4]], r"slates of shape \(2, 2\), but \(2, 3\) is expected"),
        ([1, 2, 3], r"slates of shape \(3,\), but \(2, 3\) is expected"),
        ([[1, 2, 3], [9, 0, 4]], r"^slate 1 shows padding \(item 0\) at position 1$"),
        ([[1, 2, 3], [4, 5, 10]], r"^slate 1 shows item 10, which is not in the catalogue; ids run from 1 to 9$"),
        ([[-1, 2, 3], [4, 5, 6]], r"^slate 0 shows item -1, which is not in the catalogue; ids run from 1 to 9$"),
        ([[1, 2, 3], [7, 4, 7]], r"^slate 1 shows item 7 twice$"),
        ([[9, 5, 5], [7, 7, 7]], r"^slate 0 shows item 5 twice$"),
    ],
)
def test_slates_that_cannot_be_shown(slates: list[object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_slates(torch.tensor(slates), num_requests=2, slate_size=3, num_items=9)


def test_slates_that_can_be_shown() -> None:
    check_slates(torch.tensor([[1, 9, 5], [9, 8, 7]]), num_requests=2, slate_size=3, num_items=9)
    check_slates(torch.empty(0, 3, dtype=torch.int64), num_requests=0, slate_size=3, num_items=9)


def test_greediness_becomes_a_temperature_or_greedy() -> None:
    given = Sampling(0.5, epsilon=0.1)
    assert given.resolved() is given
    assert Sampling(greediness=0.0, epsilon=0.1).resolved() == Sampling(1.0, epsilon=0.1)
    assert Sampling(greediness=0.75, epsilon=0.1).resolved() == Sampling(0.25, epsilon=0.1)
    assert Sampling(greediness=1.0, epsilon=0.1).resolved() == Sampling(greedy=True, epsilon=0.1)
    assert Sampling(greediness=torch.ones(3), epsilon=0.1).resolved() == Sampling(greedy=True, epsilon=0.1)
    almost = 1 - 2.0**-24
    assert Sampling(greediness=almost).resolved() == Sampling(MIN_TEMPERATURE)
    mixed = Sampling(greediness=torch.tensor([0.0, 0.75, almost, 1.0]), epsilon=0.1).resolved()
    assert isinstance(mixed.temperature, torch.Tensor)
    assert isinstance(mixed.greedy, torch.Tensor)
    assert mixed.temperature[:3].tolist() == pytest.approx([1.0, 0.25, MIN_TEMPERATURE])
    assert mixed.greedy.tolist() == [False, False, False, True]
    assert (mixed.greediness, mixed.epsilon) == (None, 0.1)


@pytest.mark.parametrize(
    ("sampling", "is_deterministic"),
    [
        (Sampling(), False),
        (Sampling(MIN_TEMPERATURE), False),
        (Sampling(greedy=True), True),
        (Sampling(greedy=True, epsilon=0.1), False),
        (Sampling(greediness=1.0), True),
        (Sampling(greediness=1), True),
        (Sampling(greediness=torch.ones(2)), True),
        (Sampling(greediness=1.0, epsilon=0.1), False),
        (Sampling(greediness=0.9), False),
        (Sampling(greediness=torch.tensor([1.0, 0.5])), False),
    ],
)
def test_only_greedy_slates_without_exploration_are_always_the_same(sampling: Sampling, is_deterministic: bool) -> None:
    assert sampling.is_deterministic == is_deterministic


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": 0.0}, "temperature 0.0: must lie between 1e-06 and 1e.06; for lower ones use greedy"),
        ({"temperature": 1e7}, "temperature 10000000.0: must lie between"),
        ({"temperature": math.nan}, "temperature nan: must lie between"),
        ({"temperature": torch.tensor([1.0, -1.0])}, r"temperature \[1.0, -1.0\]: must lie between"),
        ({"epsilon": -0.1}, "epsilon -0.1: must lie between 0 and 1"),
        ({"epsilon": 1.1}, "epsilon 1.1: must lie between 0 and 1"),
        ({"epsilon": math.nan}, "epsilon nan: must lie between 0 and 1"),
        ({"greediness": torch.tensor([0.5, -0.25])}, "greediness -0.25: must lie between 0"),
        ({"greediness": 0.5, "temperature": torch.ones(2)}, "greediness replaces greedy and temperature"),
        ({"greediness": 0.5, "greedy": torch.tensor([True])}, "greediness replaces greedy and temperature"),
        ({"greedy": 1}, "greedy 1: must be true or false"),
        ({"greedy": torch.tensor([1, 0])}, "must be true or false, for all requests or for each"),
    ],
)
def test_samplings_that_make_no_sense(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        Sampling(**values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("weight", [-0.1, 1001.0, float("nan"), torch.tensor([1.0, -1.0])])
def test_a_reward_weight_that_cannot_be(weight: float | torch.Tensor) -> None:
    with pytest.raises(UserError, match=r"reward_weight .*: must lie between 0 \(the prior alone\) and 1000"):
        Sampling(reward_weight=weight)


def test_greediness_keeps_the_reward_weight_and_epsilon() -> None:
    for greediness in (1.0, 0.5, torch.tensor([0.5, 1.0])):
        resolved = Sampling(greediness=greediness, epsilon=0.25, reward_weight=3.0).resolved()
        assert (resolved.epsilon, resolved.reward_weight, resolved.greediness) == (0.25, 3.0, None)

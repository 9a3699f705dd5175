"""The replay buffer keeps the newest slates, and samples as it is told to."""

import pytest
import torch

from gfn4rec.errors import UserError
from gfn4rec.schema import Request
from gfn4rec.training.replay import ReplayBuffer


def add(buffer: ReplayBuffer, numbers: list[int]) -> None:
    """Slates that carry a number, by which they are recognised."""
    count = len(numbers)
    user_B = torch.tensor(numbers)
    request = Request(user_B, user_B[:, None].expand(-1, 4), torch.ones(count, 4, 2))
    response_BKR = torch.zeros(count, 3, 2)
    response_BKR[:, 0, 0] = 1
    response_BKR[:, 1, 1] = 1
    buffer.add(request, torch.arange(1, 4).expand(count, -1) + user_B[:, None], response_BKR)


def new_buffer(capacity: int = 8, window: int = 2) -> ReplayBuffer:
    return ReplayBuffer(capacity, torch.tensor([1.0, -0.5]), window)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_a_batch_is_what_was_added() -> None:
    buffer = new_buffer()
    add(buffer, [5, 7])
    batch = buffer.sample(20, 0.0, generator())
    assert set(batch.request.user_B.tolist()) == {5, 7}
    assert torch.equal(batch.slate_BK, torch.arange(1, 4) + batch.request.user_B[:, None])
    assert torch.equal(batch.request.history_BH, batch.request.user_B[:, None].expand(-1, 4))
    assert batch.request.response_BHR.min() == 1
    assert batch.item_reward_BK[0].tolist() == [1.0, -0.5, 0.0]
    assert batch.reward_B[0].item() == pytest.approx(0.5 / 3)
    assert batch.slate_BK.dtype == torch.int64


def test_the_oldest_slates_are_overwritten_first() -> None:
    buffer = new_buffer(8)
    for first in (0, 3, 6, 9):
        add(buffer, [first, first + 1, first + 2])
    assert len(buffer) == 8
    assert set(buffer.sample(500, 0.0, generator()).request.user_B.tolist()) == set(range(4, 12))


def test_the_newest_slates_are_found_where_the_buffer_begins_anew() -> None:
    buffer = new_buffer(5, window=3)
    add(buffer, [1, 2, 3])
    add(buffer, [4, 5, 6])  # 6 takes the place of 1
    users = buffer.sample(6, 0.5, generator()).request.user_B
    assert sorted(users[:3].tolist()) == [4, 5, 6]


def test_a_buffer_can_be_filled_at_once() -> None:
    buffer = new_buffer(3, window=3)
    for numbers in ([1, 2, 3], [4, 5, 6]):
        add(buffer, numbers)
        assert len(buffer) == 3
        assert sorted(buffer.sample(3, 1.0, generator()).request.user_B.tolist()) == numbers


def test_half_of_a_batch_is_new_and_each_new_slate_comes_once() -> None:
    buffer = new_buffer(100, window=20)
    add(buffer, list(range(50)))
    add(buffer, list(range(50, 70)))
    users = buffer.sample(40, 0.5, generator()).request.user_B
    assert sorted(users[:20].tolist()) == list(range(50, 70))
    others = torch.cat([buffer.sample(400, 0.0, torch.Generator().manual_seed(s)).request.user_B for s in range(20)])
    assert float((others < 50).float().mean()) == pytest.approx(5 / 7, abs=0.03)


def test_slates_may_arrive_one_at_a_time() -> None:
    """The newest ones are the latest rows, however many came at once."""
    together, single = new_buffer(5, window=3), new_buffer(5, window=3)
    for numbers in ([1, 2, 3], [4, 5, 6, 7]):
        add(together, numbers)
        for number in numbers:
            add(single, [number])
    one, other = (buffer.sample(8, 0.5, generator()) for buffer in (together, single))
    assert torch.equal(one.request.user_B, other.request.user_B)
    assert sorted(one.request.user_B[:3].tolist()) == [5, 6, 7]


def test_fewer_slates_than_the_window_are_all_new() -> None:
    buffer = new_buffer(10, window=6)
    add(buffer, [1, 2])
    assert sorted(buffer.sample(2, 1.0, generator()).request.user_B.tolist()) == [1, 2]


def test_few_new_slates_are_repeated_evenly() -> None:
    buffer = new_buffer()
    add(buffer, [1, 2])
    users = buffer.sample(8, 1.0, generator()).request.user_B
    assert sorted(users.tolist()) == [1] * 4 + [2] * 4


def test_a_saved_buffer_goes_on_as_if_nothing_had_happened() -> None:
    first, second = new_buffer(5), new_buffer(5)
    for numbers in ([1, 2, 3], [4, 5, 6]):
        add(first, numbers)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    for buffer in (first, second):
        add(buffer, [7, 8])
    one, other = (buffer.sample(30, 0.5, generator()) for buffer in (first, second))
    assert torch.equal(one.slate_BK, other.slate_BK)
    assert torch.equal(one.request.user_B, other.request.user_B)
    assert len(first) == len(second) == 5


def test_a_buffer_that_is_too_small_or_empty() -> None:
    buffer = new_buffer(2)
    with pytest.raises(UserError, match="the replay buffer is empty"):
        buffer.sample(2, 0.5, generator())
    with pytest.raises(UserError, match="a replay buffer of 2 slates cannot take 3 at once"):
        add(buffer, [1, 2, 3])

"""Every policy refuses bad requests, slates and rewards in one line."""

import math
from collections.abc import Callable

import pytest
import torch

from gfn4rec.errors import UserError
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Request, Sampling
from tests.small_catalogue import generator, make_batch, make_catalogue, make_policy, make_requests

BAD: list[tuple[Callable[[Policy, Request], object], str]] = [
    (lambda p, r: p.recommend(r, generator(), candidates=[1, 2]), "a slate has 3 items, but there are only 2"),
    (
        lambda p, r: p.recommend(r, generator(), candidates=[[1, 2, 0, 0]] * 40),
        "there are only 2 candidates; give more",
    ),
    (
        lambda p, r: p.recommend(r, generator(), candidates=[[*range(1, 31), 7]] * 40),
        "candidate 7 is given more than once",
    ),
    (
        lambda p, r: p.recommend(r, generator(), candidates=[1, 2, 2, 3]),
        "candidate 2 is given more than once; leave out the repetition",
    ),
    (
        lambda p, r: p.recommend(r, generator(), candidates=[1, 2, 71]),
        "candidate 71 is not in the catalogue; ids run from 1 to 70",
    ),
    (lambda p, r: p.recommend(r, generator(), candidates=[-1, 2, 3]), "candidate -1 is not in the catalogue"),
    (lambda p, r: p.recommend(r, generator(), candidates=[[1, 2, 3]] * 7), "do not fit 40 requests"),
    (lambda p, r: p.recommend(r, generator(), Sampling(temperature=0.0)), "temperature 0.0: must lie between"),
    (
        lambda p, r: p.recommend(r, generator(), Sampling(temperature=-1.0)),
        "temperature -1.0: must lie between",
    ),
    (
        lambda p, r: p.recommend(r, generator(), Sampling(temperature=math.nan)),
        "temperature nan: must lie between",
    ),
    (
        lambda p, r: p.recommend(r, generator(), Sampling(epsilon=1.5)),
        "epsilon 1.5: must lie between 0 and 1",
    ),
    (lambda p, r: p.recommend(r), "sampling needs a generator"),
    (
        lambda p, r: p.log_probs(r, torch.tensor([[71, 1, 2]] * 40)),
        "slate 0 shows item 71, which is not in the catalogue",
    ),
    (lambda p, r: p.log_probs(r, torch.tensor([[1, 2, 0]] * 40)), "slate 0 shows padding .item 0. at position 2"),
    (
        lambda p, r: p.log_probs(r, torch.tensor([[5, 6, 7]] * 40), candidates=[4, 5, 6]),
        "item 7 of slate 0 is not among the candidates",
    ),
    (lambda p, r: p.log_probs(r, torch.tensor([[5, 6]] * 40)), "slates of shape .40, 2., but .40, 3. is expected"),
    (lambda p, r: p.log_probs(r, torch.tensor([[5, 6, 7]])), "slates of shape .1, 3., but .40, 3. is expected"),
    (lambda p, r: p.log_probs(r, torch.tensor([[5, 6, 6]] * 40)), "slate 0 shows item 6 twice"),
    (
        lambda p, r: p.recommend(r, generator(), Sampling(temperature=math.inf)),
        "temperature inf: must lie between",
    ),
    (lambda p, r: p.recommend(r, sampling=Sampling(greedy=True, epsilon=0.1)), "sampling needs a generator"),
    (
        lambda p, r: p.recommend(r, generator(), candidates=[[1, 2, 3, 4]] * 39 + [[1, 2, 0, 0]]),
        "there are only 2 candidates; give more",
    ),
    (
        lambda p, r: p.log_probs(r, torch.tensor([[1, 2, 0]] * 40), candidates=[[1, 2, 3, 0]] * 40),
        "slate 0 shows padding .item 0. at position 2",
    ),
    (
        lambda p, _: p.loss(make_batch(p.catalogue, 4, reward=math.nan), generator()),
        "slate 0 .* NaN or infinite",
    ),
]


@pytest.mark.parametrize(("action", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_reported_in_one_line(
    policy: Policy, requests: Request, action: Callable[[Policy, Request], object], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        action(policy, requests)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"greediness": 1.1}, r"must lie between 0 .diverse. and 1 .greedy."),
        ({"greediness": float("nan")}, "must lie between 0"),
        ({"greediness": torch.zeros(3)}, r"greediness of shape \(3,\)"),
        ({"greediness": 0.5, "temperature": 0.5}, "give it alone"),
        ({"greediness": 0.5, "greedy": True}, "give it alone"),
    ],
)
def test_bad_greediness(how: dict[str, object], message: str) -> None:
    catalogue = make_catalogue()
    with pytest.raises(UserError, match=message):
        make_policy("random", catalogue).recommend(make_requests(catalogue, 2), generator(), Sampling(**how))  # type: ignore[arg-type]


def test_an_item_reward_that_is_not_a_number(policy: Policy) -> None:
    batch = make_batch(policy.catalogue, 4)
    batch.item_reward_BK[2, 1] = math.nan
    with pytest.raises(UserError, match="item_reward_BK: the reward of slate 2 of the batch is NaN or infinite"):
        policy.loss(batch, generator())

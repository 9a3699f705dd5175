"""The log-probabilities under the sampling that was used, checked by counting slates of a tiny catalogue."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from gfn4rec.errors import UserError
from gfn4rec.policies import POLICIES
from gfn4rec.schema import Sampling
from tests.small_catalogue import make_catalogue, make_requests, repeat_request, stirred

COUNT = 30_000
SAMPLINGS = {
    "as learned": Sampling(),
    "cold": Sampling(temperature=0.5),
    "exploring": Sampling(temperature=2.0, epsilon=0.3),
    "greedy, exploring": Sampling(greedy=True, epsilon=0.6),
    "uniform": Sampling(epsilon=1.0),
    "greediness": Sampling(greediness=0.4, epsilon=0.1),
    "greediness of each": Sampling(greediness=torch.tensor([0.2, 1.0, 0.7]).repeat(COUNT // 3), epsilon=0.5),
}


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS.keys())
@pytest.mark.parametrize("name", POLICIES)
def test_the_inverse_probability_counts_every_slate_once(name: str, sampling: Sampling) -> None:
    """The mean of [slate is s] / P(s) is 1 for every slate s that can be drawn, whatever else varies between draws."""
    policy = stirred(name, make_catalogue(num_items=6, slate_size=2))
    if policy.draw_latent(1, Sampling(), torch.Generator(), torch.device("cpu")) is not None and not sampling.epsilon:
        sampling = replace(sampling, epsilon=0.05)  # else some latents make a slate so rare that a mean says nothing
    requests = repeat_request(make_requests(policy.catalogue, 5), 3, COUNT)
    proposal = policy.recommend(requests, torch.Generator().manual_seed(1), sampling, [1, 3, 4, 6])
    prob_B = proposal.sampling_log_prob_BK.double().sum(dim=1).exp()
    for slate in itertools.permutations([1, 3, 4, 6], 2):
        is_drawn_B = (proposal.slate_BK == torch.tensor(slate)).all(dim=1)
        if int(is_drawn_B.sum()) < 100:  # too rare to say anything
            continue
        weight_B = is_drawn_B / prob_B
        error = float(weight_B.std()) / math.sqrt(COUNT)
        assert float(weight_B.mean()) == pytest.approx(1.0, abs=5 * error + 1e-6)


@pytest.mark.parametrize("name", POLICIES)
def test_without_tempering_both_log_probabilities_agree(name: str) -> None:
    policy = stirred(name, make_catalogue(num_items=30))
    requests = make_requests(policy.catalogue, 40)
    proposal = policy.recommend(requests, torch.Generator().manual_seed(1))
    torch.testing.assert_close(proposal.sampling_log_prob_BK, proposal.log_prob_BK)
    greedy = policy.recommend(requests, sampling=Sampling(greedy=True))
    assert greedy.sampling_log_prob_BK.exp().tolist() == [[1.0] * 3] * 40
    assert not torch.equal(greedy.log_prob_BK, greedy.sampling_log_prob_BK)


def test_the_probabilities_of_all_slates_sum_to_one() -> None:
    """Of all slates that popularity can draw, each was drawn, and its probability is the one worked out by hand."""
    policy = stirred("popularity", make_catalogue(num_items=4, slate_size=2))
    requests = repeat_request(make_requests(policy.catalogue, 1), 0, 3000)
    proposal = policy.recommend(
        requests, torch.Generator().manual_seed(0), Sampling(temperature=0.5, epsilon=0.2), [1, 2, 4]
    )
    found = {
        tuple(slate): log_prob
        for slate, log_prob in zip(
            proposal.slate_BK.tolist(), proposal.sampling_log_prob_BK.sum(dim=1).tolist(), strict=True
        )
    }
    weight = {item: (item**2 + 1.0) ** 2 for item in (1, 2, 4)}  # counts plus one, at temperature 0.5

    def chance(item: int, among: list[int]) -> float:
        return 0.8 * weight[item] / sum(weight[other] for other in among) + 0.2 / len(among)

    assert len(found) == 6
    assert sum(map(math.exp, found.values())) == pytest.approx(1.0, abs=1e-5)
    for first, second in found:
        expected = chance(first, [1, 2, 4]) * chance(second, [item for item in (1, 2, 4) if item != first])
        assert math.exp(found[first, second]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (Sampling(torch.tensor(0.5), epsilon=0.2), Sampling(0.5, epsilon=0.2)),
        (Sampling(greedy=torch.tensor(True)), Sampling(greedy=True)),
        (Sampling(greedy=torch.tensor(False)), Sampling()),
        (Sampling(greediness=torch.tensor(0.75)), Sampling(0.25)),
        (Sampling(torch.full((40,), 0.5), epsilon=0.2), Sampling(0.5, epsilon=0.2)),
        (Sampling(torch.full((40,), 2, dtype=torch.int64)), Sampling(2.0)),
    ],
)
def test_a_value_may_be_a_tensor(one: Sampling, same: Sampling) -> None:
    policy = stirred("gfn", make_catalogue(num_items=30))
    requests = make_requests(policy.catalogue, 40)
    first, second = (policy.recommend(requests, torch.Generator().manual_seed(1), each) for each in (one, same))
    assert torch.equal(first.slate_BK, second.slate_BK)
    torch.testing.assert_close(first.sampling_log_prob_BK, second.sampling_log_prob_BK)


@pytest.mark.parametrize("name", ["temperature", "greedy", "greediness"])
@pytest.mark.parametrize("shape", [(3,), (40, 1), (1,)])
def test_values_for_each_request_must_fit_the_requests(name: str, shape: tuple[int, ...]) -> None:
    policy = stirred("cf", make_catalogue(num_items=30))
    values: dict[str, Any] = {name: torch.ones(shape, dtype=torch.bool if name == "greedy" else torch.float32)}
    with pytest.raises(UserError, match=rf"{name} of shape .*: give one value, or one for each request"):
        policy.recommend(make_requests(policy.catalogue, 40), torch.Generator(), Sampling(**values))

"""With a generator of its own, the slate of a request does not depend on who else asks."""

import pytest
import torch
from torch import Tensor

from gfn4rec.errors import UserError
from gfn4rec.policies.base import Policy
from gfn4rec.policies.guided import GuidedGFN
from gfn4rec.policies.list_cvae import ListCVAE
from gfn4rec.schema import Proposal, Request, Sampling
from tests.small_catalogue import generator, make_catalogue, make_policy, make_requests, repeat_request

SEEDS = [3 * row % 17 for row in range(40)]  # some requests have equal seeds
COLDEST = 0.2
SAMPLINGS = {
    "as learned": Sampling(),
    "cold": Sampling(temperature=0.5),
    "exploring": Sampling(temperature=2.0, epsilon=0.3),
    "greedy, exploring": Sampling(greedy=True, epsilon=0.6),
    "temperature of each": Sampling(torch.linspace(COLDEST, 3.0, 40)),
    "greediness of each": Sampling(greediness=torch.tensor([0.0, 1.0, 0.7, 1.0] * 10), epsilon=0.5),
    "greedy or not": Sampling(greedy=torch.tensor([True, False, False, True] * 10), epsilon=0.5),
}


def of_row(sampling: Sampling, row: int) -> Sampling:
    """Return the sampling of one request."""

    def one(value: float | Tensor | None) -> float | Tensor | None:
        return value[row : row + 1] if isinstance(value, Tensor) else value

    values = {name: one(getattr(sampling, name)) for name in ("temperature", "greedy", "greediness")}
    return Sampling(**values, epsilon=sampling.epsilon)  # type: ignore[arg-type]


def row_of(proposal: Proposal, row: int) -> Proposal:
    one = slice(row, row + 1)
    latent_BZ = None if proposal.latent_BZ is None else proposal.latent_BZ[one]
    return Proposal(proposal.slate_BK[one], proposal.log_prob_BK[one], proposal.sampling_log_prob_BK[one], latent_BZ)


def assert_same(policy: Policy, one: Proposal, other: Proposal) -> None:
    tolerance = 3e-5 if isinstance(policy, GuidedGFN) else 1e-5
    assert one.slate_BK.tolist() == other.slate_BK.tolist()
    torch.testing.assert_close(one.log_prob_BK, other.log_prob_BK, atol=tolerance, rtol=1e-5)
    tolerance /= COLDEST  # by which the scores are divided
    torch.testing.assert_close(one.sampling_log_prob_BK, other.sampling_log_prob_BK, atol=tolerance, rtol=1e-5)
    assert (one.latent_BZ is None) == (other.latent_BZ is None)
    if one.latent_BZ is not None and other.latent_BZ is not None:
        assert torch.equal(one.latent_BZ, other.latent_BZ)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS.keys())
def test_each_request_is_served_as_it_would_be_alone(policy: Policy, requests: Request, sampling: Sampling) -> None:
    together = policy.recommend(requests, [generator(seed) for seed in SEEDS], sampling)
    for row, seed in enumerate(SEEDS):
        served = row_of(together, row)
        for alone in ([generator(seed)], generator(seed)):
            assert_same(policy, served, policy.recommend(requests[row : row + 1], alone, of_row(sampling, row)))


def test_equal_seeds_give_equal_slates_and_others_do_not(policy: Policy, requests: Request) -> None:
    same = repeat_request(requests, 4, 60)
    slates = policy.recommend(same, [generator(row // 2) for row in range(60)]).slate_BK
    assert torch.equal(slates[0::2], slates[1::2])
    assert len({tuple(slate) for slate in slates.tolist()}) > 10


def test_each_generator_advances_and_greedy_slates_need_none(policy: Policy, requests: Request) -> None:
    own = tuple(generator(seed) for seed in SEEDS)
    first, second = (policy.recommend(requests, own).slate_BK for _ in range(2))
    assert first.tolist() != second.tolist()
    greedy, with_own = (policy.recommend(requests, each, Sampling(greedy=True)) for each in (None, own))
    assert_same(policy, greedy, with_own)


def test_greedy_requests_draw_no_latent() -> None:
    policy = make_policy("list-cvae", make_catalogue(num_items=30))
    assert isinstance(policy, ListCVAE)
    greedy = torch.tensor([True, False, True, False] * 10)
    own = [generator(seed) for seed in SEEDS]
    latent_BZ = policy.draw_latent(40, Sampling(2.0, greedy), own, torch.device("cpu"))
    assert latent_BZ is not None
    assert not latent_BZ[greedy].any()
    for row, seed in enumerate(SEEDS):
        fresh = generator(seed)
        if not greedy[row]:
            assert torch.equal(latent_BZ[row], 2 * torch.randn(1, policy.config.latent_dim, generator=fresh)[0])
        assert torch.equal(own[row].get_state(), fresh.get_state())


@pytest.mark.parametrize("count", [0, 1, 39, 41])
def test_there_is_a_generator_for_each_request(policy: Policy, requests: Request, count: int) -> None:
    with pytest.raises(UserError, match=f"{count} generators for 40 requests: give one for all, or one for each"):
        policy.recommend(requests, [generator(row) for row in range(count)])


def test_nobody_asks_with_no_generator(policy: Policy) -> None:
    assert policy.recommend(make_requests(policy.catalogue, 0), []).slate_BK.shape == (0, 3)

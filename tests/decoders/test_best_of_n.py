"""Best of n keeps the drawn slate with the highest known score."""

import pytest
import torch

from gfn4rec.decoders import build_decoder
from gfn4rec.errors import UserError
from gfn4rec.schema import Request, Sampling
from tests.decoders.examples import Written
from tests.small_catalogue import all_slates, generator, make_catalogue, make_requests, repeat_request, stirred

SCORES = [0.0, 1.0, 0.5, 0.0, -0.5, 0.3, 0.2]


def written() -> tuple[Written, Request]:
    catalogue = make_catalogue(num_users=7)
    return Written(catalogue, SCORES), make_requests(catalogue, 30)


def scores(policy: Written, request: Request, slate_BK: torch.Tensor) -> list[float]:
    pairs = zip(request.user_B.tolist(), slate_BK.tolist(), strict=True)
    return [policy.known_score(user, slate) for user, slate in pairs]


@pytest.mark.parametrize("num_slates", [1, 2, 5])
def test_the_best_of_the_drawn_slates_is_kept(num_slates: int) -> None:
    policy, request = written()
    found = build_decoder("best-of-n", {"num_slates": num_slates}).recommend(policy, request, generator(4))
    drawn, same = [], generator(4)
    for _ in range(num_slates):
        drawn.append(policy.recommend(request, same).slate_BK)
    by_draw = [scores(policy, request, slate_BK) for slate_BK in drawn]
    for row, slate in enumerate(found.slate_BK.tolist()):
        own = [values[row] for values in by_draw]
        assert slate == drawn[own.index(max(own))][row].tolist()
    torch.testing.assert_close(found.log_prob_BK, policy.log_probs(request, found.slate_BK))


def test_of_equally_good_slates_the_first_is_kept() -> None:
    policy, request = written()
    policy.slate_score_US.fill_(1.0)
    found = build_decoder("best-of-n").recommend(policy, request, generator(4))
    assert torch.equal(found.slate_BK, policy.recommend(request, generator(4)).slate_BK)


def test_slates_are_drawn_at_the_temperature_from_the_candidates() -> None:
    policy, request = written()
    cold = build_decoder("best-of-n").recommend(policy, request, generator(), Sampling(temperature=1e-3), [2, 3, 4, 5])
    assert cold.slate_BK.tolist() == [[2, 5, 3]] * 30
    warm = build_decoder("best-of-n").recommend(policy, request, generator(), Sampling(), [2, 3, 4, 5])
    assert set(warm.slate_BK.flatten().tolist()) == {2, 3, 4, 5}


def test_greedy_slates_are_refused() -> None:
    policy, request = written()
    for sampling in (Sampling(greedy=True), Sampling(greediness=1.0)):
        with pytest.raises(UserError, match="best-of-n chooses among drawn slates, and greedy ones are all the same"):
            build_decoder("best-of-n").recommend(policy, request, generator(), sampling)
    with pytest.raises(UserError, match="sampling needs a generator"):
        build_decoder("best-of-n").recommend(policy, request)


@pytest.mark.parametrize("name", ["gfn-energy", "gfn-anchored"])
def test_the_flow_expects_most_of_the_likeliest_slate(name: str) -> None:
    """As docs/decoders.md says: of one request's slates, the score orders them as the log-probability does."""
    policy, slate_BK = stirred(name, make_catalogue()), all_slates(range(1, 7), 3)
    request = repeat_request(make_requests(policy.catalogue, 6), 4, len(slate_BK))
    score_B, log_prob_B = policy.score(request, slate_BK), policy.log_probs(request, slate_BK).sum(dim=1).detach()
    ratio = float(score_B.std() / log_prob_B.std())
    torch.testing.assert_close(score_B - score_B[0], ratio * (log_prob_B - log_prob_B[0]), atol=1e-4, rtol=1e-4)

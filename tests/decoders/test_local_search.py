"""Local search in a catalogue with a known score of every slate."""

import pytest
import torch

from gfn4rec.decoders import build_decoder
from gfn4rec.decoders.local_search import LEAST_GAIN
from gfn4rec.schema import Request, Sampling
from tests.decoders.examples import Written
from tests.small_catalogue import generator, make_catalogue, make_requests

SCORES = [0.0, 1.0, 0.5, 0.0, -0.5, 0.3, 0.2]  # so the best items are 1, 2, 5, 6, 3, 4
GREEDY = Sampling(greedy=True)


def written() -> tuple[Written, Request]:
    catalogue = make_catalogue(num_users=29)
    return Written(catalogue, SCORES), make_requests(catalogue, 30)


def searched(policy: Written, user: int, slate: list[int], items: list[int], max_sweeps: int) -> list[int]:
    """Search one slate by the definition: at each place the best item that is not in the slate, if it is better."""
    for _ in range(max_sweeps):
        before = list(slate)
        for place in range(3):
            swaps = [[*slate[:place], item, *slate[place + 1 :]] for item in items if item not in slate]
            best = max(swaps, key=lambda swap: policy.known_score(user, swap))
            if policy.known_score(user, best) > policy.known_score(user, slate) + LEAST_GAIN:
                slate = best
        if slate == before:
            break
    return slate


@pytest.mark.parametrize("num_candidates", [4, 6])
@pytest.mark.parametrize("max_sweeps", [1, 10])
@pytest.mark.parametrize("is_greedy", [True, False])
def test_slates_are_those_of_the_definition(num_candidates: int, max_sweeps: int, is_greedy: bool) -> None:
    policy, request = written()
    sampling = GREEDY if is_greedy else Sampling()
    decoder = build_decoder("local-search", {"num_candidates": num_candidates, "max_sweeps": max_sweeps})
    found = decoder.recommend(policy, request, generator(5), sampling)
    starts = policy.recommend(request, generator(5), sampling).slate_BK.tolist()
    items = [1, 2, 5, 6, 3, 4][:num_candidates]
    expected = [
        searched(policy, user, slate, items, max_sweeps)
        for user, slate in zip(request.user_B.tolist(), starts, strict=True)
    ]
    assert found.slate_BK.tolist() == expected
    torch.testing.assert_close(found.log_prob_BK, policy.log_probs(request, found.slate_BK))


def test_no_single_swap_improves_the_slates_and_scores_never_fall() -> None:
    policy, request = written()
    found = build_decoder("local-search").recommend(policy, request, generator(5))
    starts = policy.recommend(request, generator(5)).slate_BK.tolist()
    num_moved = 0
    for user, slate, start in zip(request.user_B.tolist(), found.slate_BK.tolist(), starts, strict=True):
        own = policy.known_score(user, slate)
        assert own >= policy.known_score(user, start)
        num_moved += slate != start
        for place in range(3):
            for item in {1, 2, 3, 4, 5, 6} - set(slate):
                assert policy.known_score(user, [*slate[:place], item, *slate[place + 1 :]]) <= own
    assert num_moved > 20


def test_the_search_ends_when_nothing_improves() -> None:
    """Slates that a sweep has not improved are not scored again."""
    policy, request = written()
    policy.slate_score_US.zero_()
    found = build_decoder("local-search").recommend(policy, request, None, GREEDY)
    assert found.slate_BK.tolist() == [[1, 2, 5]] * 30
    assert policy.num_scored == 30 + 30 * 3 * 3  # the start, and one sweep: three places, three items outside the slate


def test_a_gain_of_rounding_is_no_gain() -> None:
    policy, request = written()
    policy.slate_score_US.fill_(1000.0)
    policy.slate_score_US[:, policy.row[(1, 2, 6)]] += 1e-4  # about the rounding of such a score
    assert build_decoder("local-search").recommend(policy, request, None, GREEDY).slate_BK.tolist() == [[1, 2, 5]] * 30
    policy.slate_score_US[:, policy.row[(1, 2, 6)]] += 0.1
    assert build_decoder("local-search").recommend(policy, request, None, GREEDY).slate_BK.tolist() == [[1, 2, 6]] * 30


def test_swaps_are_among_the_candidates() -> None:
    policy, request = written()
    found = build_decoder("local-search").recommend(policy, request, None, GREEDY, [2, 3, 4, 6])
    for user, slate in zip(request.user_B.tolist(), found.slate_BK.tolist(), strict=True):
        assert slate == searched(policy, user, [2, 6, 3], [2, 3, 4, 6], 10)

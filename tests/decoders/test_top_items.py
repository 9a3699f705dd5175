"""A policy's top items, their relevance, and how similar items are."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from gfn4rec.decoders import build_decoder
from gfn4rec.decoders.similarity import similarities
from gfn4rec.decoders.top_items import TopItems
from gfn4rec.errors import RunError, UserError
from gfn4rec.policies.backbone import Backbone
from gfn4rec.policies.random import Random, RandomConfig
from gfn4rec.schema import FeatureTensors, Sampling
from tests.decoders.examples import Written
from tests.small_catalogue import generator, make_catalogue, make_requests, stirred

SCORES = [0.0, 1.0, 0.5, 0.0, -0.5, 0.3, 0.2]


def top(candidates: list[int] | list[list[int]] | None, count: int) -> TopItems:
    catalogue = make_catalogue(slate_size=2)
    policy = Written(catalogue, SCORES)
    return TopItems.of(policy, make_requests(catalogue, 2), Sampling(), candidates, count)


def test_items_come_best_first_with_their_scores() -> None:
    found = top(None, 4)
    assert found.item_BC.tolist() == [[1, 2, 5, 6]] * 2
    assert found.score_BC.tolist() == [pytest.approx([1.0, 0.5, 0.3, 0.2])] * 2
    assert found.relevance().tolist() == [pytest.approx([1.0, 0.375, 0.125, 0.0])] * 2
    assert top(None, 1).item_BC.tolist() == [[1, 2]] * 2  # a slate has two
    assert top(None, 100).is_item().tolist() == [[True] * 6 + [False]] * 2  # padding is no item


def test_lists_of_different_length() -> None:
    found = top([[6, 2, 3, 0], [4, 5, 3, 2]], 4)
    assert found.item_BC.tolist() == [[2, 6, 3, 0], [2, 5, 3, 4]]
    assert found.is_item().tolist() == [[True, True, True, False], [True] * 4]
    assert found.relevance().tolist() == [pytest.approx([1.0, 0.4, 0.0, 0.0]), pytest.approx([1.0, 0.8, 0.5, 0.0])]


def test_equal_scores_have_no_relevance() -> None:
    catalogue = make_catalogue(slate_size=2)
    found = TopItems.of(Random(catalogue, RandomConfig()), make_requests(catalogue, 2), Sampling(), None, 4)
    assert found.relevance().tolist() == [[0.0] * 4] * 2


def test_a_diverged_policy_is_refused() -> None:
    catalogue = make_catalogue(slate_size=2)
    policy = Written(catalogue, [0.0, *[float("nan")] * 6])
    with pytest.raises(RunError, match="weights have diverged"):
        TopItems.of(policy, make_requests(catalogue, 2), Sampling(), None, 4)


@pytest.mark.parametrize("name", ["best-of-n", "local-search"])
def test_nothing_is_decoded_from_scores_that_diverge_later(name: str) -> None:
    policy = Written(make_catalogue(slate_size=2), SCORES)
    policy.scale_at_step = {1: float("nan")}
    with pytest.raises(RunError, match="weights have diverged"):
        build_decoder(name).recommend(policy, make_requests(policy.catalogue, 2), generator())


def test_slates_whose_probabilities_diverge_are_refused() -> None:
    found, policy = top(None, 4), Written(make_catalogue(slate_size=2), SCORES)
    policy.scale_at_step = {1: float("nan")}
    plan = policy.greedy_plan(make_requests(policy.catalogue, 2))
    with pytest.raises(RunError, match="weights have diverged"):
        dataclasses.replace(found, plan=plan).decoded_slates(policy, torch.tensor([[1, 2], [1, 2]]))


def test_no_probability_is_larger_than_1() -> None:
    """Rounding makes some sums smaller than their only term."""
    catalogue = make_catalogue(slate_size=2, num_items=2)
    for number in range(300):
        policy = Written(catalogue, [0.0, 1.37 * number, 0.73 * number])
        policy.scale_at_step = {1: 0.1 * number}
        found = TopItems.of(policy, make_requests(catalogue, 1), Sampling(), None, 2)
        assert float(found.decoded_slates(policy, torch.tensor([[1, 2]])).log_prob_BK.max()) <= 0


def test_a_policy_that_is_learning_is_decoded_as_one_that_is_not() -> None:
    policy = Written(make_catalogue(slate_size=2), SCORES).train()
    request = make_requests(policy.catalogue, 2)
    for name in ("best-of-n", "local-search"):
        build_decoder(name).recommend(policy, request, generator())
    TopItems.of(policy, request, Sampling(), None, 4).decoded_slates(policy, torch.tensor([[1, 2], [1, 2]]))
    assert policy.training


def test_a_reward_weight_moves_the_top_items() -> None:
    catalogue = make_catalogue(num_items=70)
    policy, request = stirred("gfn-prior", catalogue), make_requests(catalogue, 8)
    for weight in (0.0, 1.0, 3.0):
        sampling = Sampling(greedy=True, reward_weight=weight)
        first_B = policy.recommend(request, sampling=sampling).slate_BK[:, 0]
        assert torch.equal(TopItems.of(policy, request, sampling, None, 5).item_BC[:, 0], first_B)
    weights = torch.tensor([0.0, 1.0, 3.0, 0.5] * 2)  # each request has its own
    own_BC = TopItems.of(policy, request, Sampling(reward_weight=weights), None, 5).item_BC
    for row, weight in enumerate(weights.tolist()):
        alone_BC = TopItems.of(policy, request[row : row + 1], Sampling(reward_weight=weight), None, 5).item_BC
        assert torch.equal(own_BC[row : row + 1], alone_BC)
    with pytest.raises(UserError, match="has no prior; leave reward_weight at 1"):
        TopItems.of(stirred("gfn", catalogue), request, Sampling(reward_weight=2.0), None, 5)


@pytest.mark.parametrize("name", ["cf", "gfn-prior"])
def test_similarity_is_the_mean_cosine_of_encodings_without_what_all_share(name: str) -> None:
    policy, item_BC = stirred(name, make_catalogue(num_items=20)), torch.tensor([[3, 7, 20], [1, 2, 3]])
    encoders = [module for module in policy.modules() if isinstance(module, Backbone)]
    assert len(encoders) == (1 if name == "cf" else 4)
    expected = torch.zeros(2, 3, 3)
    for encoder in encoders:
        vector_ND = encoder.item_table().detach()
        vector_ND = vector_ND - vector_ND[1:].mean(dim=0)
        for row, items in enumerate(item_BC):
            for one in range(3):
                for other in range(3):
                    cosine = F.cosine_similarity(vector_ND[items[one]], vector_ND[items[other]], dim=0)
                    expected[row, one, other] += (1 + cosine) / 2 / len(encoders)
    torch.testing.assert_close(similarities(policy, item_BC, "vectors").float(), expected)


def test_similarity_by_features_worked_out_by_hand() -> None:
    genres = torch.tensor([[0, 0, 0], [2, 3, 0], [3, 0, 0], [2, 3, 4], [1, 0, 0]])
    features = FeatureTensors({"colour": torch.tensor([0, 2, 3, 2, 3])}, {"genres": genres}, {}, {})
    catalogue = dataclasses.replace(make_catalogue(num_items=4), item_features=features)
    found = similarities(Random(catalogue, RandomConfig()), torch.tensor([[1, 2, 3, 4]]), "features")
    # Items 1 and 2 share one of two and one genre; items 1 and 3 two of two and three, and the colour; 2 and 4 the
    # colour.
    one_two, one_three, two_three = 0.5 / 2**0.5, 0.5 * 2 / 6**0.5 + 0.5, 0.5 / 3**0.5
    expected = [[1, one_two, one_three, 0], [one_two, 1, two_three, 0.5], [one_three, two_three, 1, 0], [0, 0.5, 0, 1]]
    torch.testing.assert_close(found, torch.tensor([expected], dtype=torch.float64))
    padded = similarities(Random(catalogue, RandomConfig()), torch.tensor([[1, 0]]), "features")
    assert bool(padded.isfinite().all())


def test_what_cannot_be_compared_is_refused() -> None:
    catalogue = make_catalogue()
    policy, item_BC = Random(catalogue, RandomConfig()), torch.tensor([[1, 2, 3]])
    with pytest.raises(UserError, match=r"a Random has no item vectors .* \(similarity=features\)"):
        similarities(policy, item_BC, "vectors")
    with pytest.raises(UserError, match="the items of this data set have no categorical features"):
        similarities(policy, item_BC, "features")

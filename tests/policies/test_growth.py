"""Growth of every policy of the table: old items keep what they have, bit for bit, and new ones can be shown."""

import dataclasses
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from gfn4rec.nn.entity_encoder import EntityEncoder
from gfn4rec.policies import POLICIES
from gfn4rec.policies.base import Context, Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.growth import grown
from gfn4rec.schema import FeatureTensors, Request, Sampling
from tests.small_catalogue import generator, make_catalogue, make_requests, stirred

OLD, NEW = 30, 37
ALL = list(POLICIES)


def features(num_items: int) -> FeatureTensors:
    """Features of all kinds, drawn item by item."""
    source = generator(5)
    draws = torch.rand(100, 3, generator=source)[: num_items + 1]
    kind = (draws[:, 0] * 3).long() + 1
    tags = torch.stack([(draws[:, 1] * 4).long() + 1, (draws[:, 2] * 200).long()], dim=1)  # some are looked up
    values = {"kind": kind, "tags": tags, "length": draws[:, 2] * 2 - 1}
    for tensor in values.values():
        tensor[0] = 0
    sizes = {"kind": 4, "tags": 200}
    return FeatureTensors({"kind": values["kind"]}, {"tags": values["tags"]}, {"length": values["length"]}, sizes)


def with_features(catalogue: Catalogue) -> Catalogue:
    return dataclasses.replace(catalogue, item_features=features(catalogue.num_items))


@pytest.fixture(scope="module", params=ALL)
def pair(request: pytest.FixtureRequest) -> tuple[Policy, Policy]:
    """A policy with moved weights, and what it has grown to."""
    policy = stirred(request.param, with_features(make_catalogue(num_items=OLD))).eval()
    return policy, grown(policy, policy.catalogue.with_items(NEW, features(NEW)))


def encoders(policy: Policy) -> Iterator[EntityEncoder]:
    """Return the encoders of items."""
    num_items = policy.catalogue.num_items
    return (part for part in policy.modules() if isinstance(part, EntityEncoder) and part.num_entities == num_items)


def test_old_rows_stay_bit_for_bit_and_new_ones_are_zero(pair: tuple[Policy, Policy]) -> None:
    old, new = pair
    state, grown_state = old.state_dict(), new.state_dict()
    assert state.keys() == grown_state.keys()
    for name, weight in state.items():
        larger = grown_state[name]
        if weight.shape == larger.shape:
            assert torch.equal(weight, larger), name
        else:
            assert (len(weight), len(larger)) == (OLD + 1, NEW + 1)
            assert torch.equal(weight, larger[: OLD + 1]), name
            assert not larger[OLD + 1 :].any(), name
    assert new.training == old.training
    assert [weight.requires_grad for weight in new.parameters()] == [
        weight.requires_grad for weight in old.parameters()
    ]


def test_nothing_is_shared_with_the_old_policy(pair: tuple[Policy, Policy]) -> None:
    old, new = pair
    storage = {weight.data_ptr() for weight in old.state_dict().values()}
    assert not any(weight.data_ptr() in storage for weight in new.state_dict().values() if weight.numel())
    assert old.catalogue.num_items == OLD


def test_encodings_of_old_items_stay_bit_for_bit_and_those_of_new_ones_are_of_their_features(
    pair: tuple[Policy, Policy],
) -> None:
    for old, new in zip(encoders(pair[0]), encoders(pair[1]), strict=True):
        for first in range(0, OLD + 1, 10):  # products of the same shapes round alike
            some = torch.arange(first, min(first + 10, OLD + 1))
            assert torch.equal(old(some), new(some))
        table_ND = new.table()
        torch.testing.assert_close(table_ND[: OLD + 1], old.table(), rtol=0, atol=1e-6)
        torch.testing.assert_close(table_ND[OLD + 1 :], new.table(torch.ones(NEW + 1) > 0)[OLD + 1 :], rtol=0, atol=0)
        assert len(table_ND.unique(dim=0)) > OLD + 3  # items with other features have other encodings


@torch.no_grad()
def test_scores_of_old_items_among_themselves_stay(pair: tuple[Policy, Policy]) -> None:
    old, new = pair
    request = make_requests(old.catalogue, 12)
    slate_BK = torch.stack([torch.randperm(OLD, generator=generator(row))[:3] + 1 for row in range(12)])
    among_old = list(range(1, OLD + 1))
    assert_near(new.log_probs(request, slate_BK, among_old), old.log_probs(request, slate_BK))
    assert torch.equal(
        old.recommend(request, sampling=Sampling(greedy=True)).slate_BK,
        new.recommend(request, sampling=Sampling(greedy=True), candidates=among_old).slate_BK,
    )
    logits = [logits_of(policy, request, slate_BK) for policy in pair if not hasattr(policy, "ranker")]
    if logits:
        assert_near(logits[1][:, :, 1 : OLD + 1], logits[0][:, :, 1:])


def assert_near(one: Tensor, other: Tensor) -> None:
    """The last columns of a product of other width may round otherwise."""
    torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-5)


def logits_of(policy: Policy, request: Request, slate_BK: Tensor) -> Tensor:
    """Return the scores of all items at each step, as they are before the softmax."""
    plan = policy.plan(Context(request, policy._candidates(None, request)))
    num_items = policy.catalogue.num_items
    query_BKD = plan.queries(slate_BK, range(3))
    return plan.matrix.scores(query_BKD, 0, num_items + 1, torch.empty(query_BKD.shape[0] * 3 * (num_items + 1)))


def test_every_new_item_can_be_drawn(pair: tuple[Policy, Policy]) -> None:
    request = make_requests(pair[1].catalogue, 200)
    proposal = pair[1].recommend(request, generator(), Sampling(epsilon=1.0), None)
    if not hasattr(pair[1], "ranker"):  # a re-ranker explores its list, which has the best items only
        assert set(range(OLD + 1, NEW + 1)) <= set(proposal.slate_BK.flatten().tolist())
    last = [NEW - 2, NEW - 1, NEW]
    only_new = pair[1].recommend(request, generator(), candidates=last)
    assert only_new.slate_BK.sort(dim=1).values.unique(dim=0).tolist() == [last]
    assert bool(only_new.log_prob_BK.isfinite().all())


def test_other_features_of_an_old_item_change_its_encoding_alone(pair: tuple[Policy, Policy]) -> None:
    policy = pair[0]
    other = features(OLD)
    other.categorical["kind"][7] = other.categorical["kind"][7] % 3 + 1
    changed = grown(policy, policy.catalogue.with_items(OLD, other))
    for old, new in zip(encoders(policy), encoders(changed), strict=True):
        differs_N = (old.table() - new.table()).abs().amax(dim=1) > 1e-5
        assert differs_N.nonzero()[:, 0].tolist() == [7]


def test_growing_twice_is_growing_once(pair: tuple[Policy, Policy]) -> None:
    halfway = grown(pair[0], pair[0].catalogue.with_items(OLD + 2, features(OLD + 2)))
    twice = grown(halfway, halfway.catalogue.with_items(NEW, features(NEW)))
    for (name, one), other in zip(pair[1].state_dict().items(), twice.state_dict().values(), strict=True):
        assert torch.equal(one, other), name
    assert torch.equal(pair[1].catalogue.count_N, twice.catalogue.count_N)


def test_growth_draws_no_number_of_the_global_generator() -> None:
    policy = stirred("cf", make_catalogue())
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    grown(policy, policy.catalogue.with_items(9, policy.catalogue.item_features))
    assert torch.equal(torch.random.get_rng_state(), before)

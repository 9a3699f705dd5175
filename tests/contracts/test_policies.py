"""What every policy promises; a newcomer to the table is covered unedited."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import load_tensors, load_weights, save_tensors
from gfn4rec.policies import POLICIES, build_policy
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.guided import GuidedGFN
from gfn4rec.schema import Proposal, Request, Sampling
from tests.conftest import REPOSITORY
from tests.small_catalogue import (
    SMALL_ENCODER,
    all_slates,
    generator,
    make_batch,
    make_catalogue,
    make_policy,
    make_requests,
    repeat_request,
    stirred,
)

ALL = list(POLICIES)
LEARNED = [name for name, policy in POLICIES.items() if policy.is_learned]
# All slates of Random are equally likely, so its greedy answer means nothing.
FLOWS = [name for name, policy in POLICIES.items() if policy._score is not Policy._score]
OPINIONATED = [name for name in ALL if name != "random"]


OWN_CANDIDATES = [sorted(range(1 + row % 30, 41 + row % 30 - row % 7)) + [0] * (row % 7) for row in range(40)]
FEW_CANDIDATES = [[*range(1 + row, 8 + row - row % 4), *[0] * (row % 4)] for row in range(40)]
OWN_LISTS = {"own": OWN_CANDIDATES, "few": FEW_CANDIDATES}
CANDIDATES = {"all": None, "shared": list(range(3, 60, 4)), **OWN_LISTS}


def rounding(policy: Policy) -> float:
    """Return the tolerance of log-probabilities: scores of stirred guided flows are sums that reach 35."""
    return 3e-5 if isinstance(policy, GuidedGFN) else 1e-5


def test_greediness_goes_from_the_learned_distribution_to_greedy(policy: Policy, requests: Request) -> None:
    plain = policy.recommend(requests, generator())
    greedy = policy.recommend(requests, sampling=Sampling(greedy=True))
    half = policy.recommend(requests, generator(), Sampling(temperature=0.5))
    for greediness, expected in ((0.0, plain), (0.5, half), (1.0, greedy)):
        found = policy.recommend(requests, generator(), Sampling(greediness=greediness))
        assert torch.equal(found.slate_BK, expected.slate_BK)
    # Each request has its own setting, and draws as it would alone.
    own_B = torch.tensor([0.0, 0.5, 0.0, 1.0] * 10)
    mixed = policy.recommend(requests, generator(), Sampling(greediness=own_B))
    assert torch.equal(mixed.slate_BK[0::2], plain.slate_BK[0::2])
    assert torch.equal(mixed.slate_BK[1::4], half.slate_BK[1::4])
    assert torch.equal(mixed.slate_BK[3::4], greedy.slate_BK[3::4])
    for all_greedy in (1.0, torch.ones(40)):  # draws nothing
        assert torch.equal(
            policy.recommend(requests, sampling=Sampling(greediness=all_greedy)).slate_BK, greedy.slate_BK
        )
    # Exploration is not lost.
    explored = policy.recommend(requests, generator(), Sampling(epsilon=1.0))
    assert torch.equal(
        policy.recommend(requests, generator(), Sampling(greediness=own_B, epsilon=1.0)).slate_BK,
        explored.slate_BK,
    )
    explored = policy.recommend(requests, generator(), Sampling(greedy=True, epsilon=1.0))
    assert not torch.equal(explored.slate_BK, greedy.slate_BK)
    assert torch.equal(
        policy.recommend(requests, generator(), Sampling(greediness=1.0, epsilon=1.0)).slate_BK,
        explored.slate_BK,
    )
    scored = policy.log_probs(requests, mixed.slate_BK, latent_BZ=mixed.latent_BZ)
    torch.testing.assert_close(mixed.log_prob_BK, scored, atol=rounding(policy), rtol=1e-5)


def test_the_gfn_policies_have_a_flow() -> None:
    assert {name for name in ALL if "gfn" in name} <= set(FLOWS)


@pytest.mark.parametrize("name", ALL)
def test_a_policy_is_in_the_docs(name: str) -> None:
    assert f"\n| `{name}` | " in (REPOSITORY / "docs" / "policies.md").read_text(encoding="utf-8")


def test_policies_with_a_flow_score_slates_and_others_say_that_they_cannot(policy: Policy, requests: Request) -> None:
    slate_BK = policy.recommend(requests, generator()).slate_BK
    if type(policy)._score is not Policy._score:
        score_B = policy.score(requests, slate_BK)
        assert score_B.shape == (40,)
        assert not score_B.requires_grad
        assert torch.isfinite(score_B).all()
    else:
        with pytest.raises(UserError, match="has no flow, so it cannot score slates; the gfn policies can"):
            policy.score(requests, slate_BK)


@pytest.mark.parametrize("candidates", CANDIDATES)
@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(greedy=True), Sampling(3.0), Sampling(epsilon=0.5), Sampling(0.2, epsilon=1.0)],
    ids=str,
)
def test_slates_hold_different_candidates_and_their_own_log_probabilities(
    policy: Policy, requests: Request, sampling: Sampling, candidates: str
) -> None:
    ids = CANDIDATES[candidates]
    proposal = policy.recommend(requests, generator(), sampling, ids)
    assert proposal.slate_BK.shape == (40, 3)
    for row, slate in enumerate(proposal.slate_BK.tolist()):
        allowed = range(1, 71) if ids is None else ids if candidates == "shared" else OWN_LISTS[candidates][row]
        assert len(set(slate)) == 3
        assert set(slate) <= set(allowed) - {0}
    scored = policy.log_probs(requests, proposal.slate_BK, ids, proposal.latent_BZ)
    torch.testing.assert_close(scored, proposal.log_prob_BK, atol=rounding(policy), rtol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_probabilities_of_all_slates_sum_to_one(name: str) -> None:
    policy = stirred(name, make_catalogue())
    for row in range(3):
        for candidates in (None, [1, 2, 4, 6]):
            slates = all_slates(candidates or range(1, 7), 3)
            request = repeat_request(make_requests(policy.catalogue, 6), row, len(slates))
            log_prob_BK = policy.log_probs(request, slates, candidates).detach()
            assert float(log_prob_BK.sum(dim=1).exp().sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_sampled_frequencies_match_the_probabilities(name: str) -> None:
    policy, count = stirred(name, make_catalogue(num_items=4, slate_size=2)), 4000
    slates = all_slates(range(1, 5), 2)
    request = repeat_request(make_requests(policy.catalogue, 6), 4, count)
    proposal = policy.recommend(request, generator(1))
    expected = count * mean_probabilities(policy, request, slates, proposal)
    found = (proposal.slate_BK[:, None] == slates).all(dim=2).sum(dim=0)
    chi_square = float(((found - expected).square() / expected).sum())
    assert chi_square < 37.4  # exceeded once in 10,000 times with 11 degrees of freedom


def mean_probabilities(policy: Policy, request: Request, slates: Tensor, proposal: Proposal) -> Tensor:
    """Of each slate, over the latents that were drawn."""
    shares = []
    for slate in slates:
        log_prob_BK = policy.log_probs(request, slate.expand(len(request.user_B), -1), latent_BZ=proposal.latent_BZ)
        shares.append(log_prob_BK.detach().sum(dim=1).exp().mean())
    return torch.stack(shares)


def test_the_same_seed_gives_the_same_slates(policy: Policy, requests: Request) -> None:
    first, again, other = (policy.recommend(requests, generator(seed)) for seed in (1, 1, 2))
    assert first.slate_BK.tolist() == again.slate_BK.tolist()
    assert first.slate_BK.tolist() != other.slate_BK.tolist()


def test_nothing_is_drawn_from_the_global_generator(policy: Policy, requests: Request) -> None:
    before = torch.random.get_rng_state()
    policy.recommend(requests, generator())
    policy.loss(make_batch(policy.catalogue, 8), generator())
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("name", [name for name, kind in POLICIES.items() if "ranker" not in kind.Config.model_fields])
def test_one_who_always_explores_shows_all_items_alike(name: str) -> None:
    """A re-ranker explores among its ranker's best."""
    policy = stirred(name, make_catalogue(num_items=70))
    requests = make_requests(policy.catalogue, 40)
    shown = [
        policy.recommend(requests, generator(seed), Sampling(greedy=True, epsilon=1.0)).slate_BK for seed in range(50)
    ]
    share = torch.bincount(torch.cat(shown).flatten(), minlength=71)[1:] / (50 * 40)
    expected = policy.catalogue.slate_size / 70
    assert float((share - expected).abs().max()) < 4.5 * (expected * (1 - expected) / (50 * 40)) ** 0.5


@pytest.mark.parametrize("name", OPINIONATED)
def test_temperature_to_zero_tends_to_greedy(name: str) -> None:
    policy = stirred(name, make_catalogue(num_items=70))
    requests = make_requests(policy.catalogue, 40)
    greedy = policy.recommend(requests, sampling=Sampling(greedy=True)).slate_BK
    agreement = [
        float((policy.recommend(requests, generator(), Sampling(temperature=t)).slate_BK == greedy).float().mean())
        for t in (1.0, 0.1, 1e-6)
    ]
    assert agreement[0] < agreement[2] == 1
    assert agreement[0] <= agreement[1]


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("reward", [0.0, -1.0, -1e4, 1e4])
@pytest.mark.parametrize("step", [0, None])
def test_gradients_are_finite(name: str, reward: float, step: int | None) -> None:
    """Whatever the reward; the histories of the batch are empty, full, and between."""
    policy = make_policy(name, make_catalogue(num_items=70, weights=(1.0, -1.0)))
    policy.loss(make_batch(policy.catalogue, 12, reward=reward), generator(), step).loss.backward()
    gradients = [weight.grad for weight in policy.parameters() if weight.grad is not None]
    assert len(gradients) > 10
    for gradient in gradients:
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", LEARNED)
def test_every_weight_learns(name: str) -> None:
    settings = {"objective": "db"} if "objective" in POLICIES[name].Config.model_fields else {}
    policy = make_policy(name, make_catalogue(num_items=70), settings)
    batch = make_batch(policy.catalogue, 12)
    # A prior learns from logged slates, pair effects from shown ones.
    for is_logged in {False, policy.has_prior}:
        loss = policy.loss(dataclasses.replace(batch, is_logged=is_logged), generator())
        loss.loss.backward()
    idle = {name for name, weight in policy.named_parameters() if weight.requires_grad and weight.grad is None}
    assert idle == set()
    assert all(not value.requires_grad and value.dim() == 0 for value in loss.terms.values())


@pytest.mark.parametrize("name", OPINIONATED)
def test_permuting_the_catalogue_permutes_the_answers(name: str) -> None:
    catalogue = make_catalogue(num_items=70)
    first, second = stirred(name, catalogue), make_policy(name, catalogue)
    new_id = torch.cat([torch.zeros(1, dtype=torch.int64), torch.randperm(70, generator=generator()) + 1])
    weights = first.state_dict()
    for key in weights:
        if "items.id_embedding" in key or key.endswith(("_N", "_ND")):
            moved = torch.empty_like(weights[key])
            moved[new_id] = weights[key]
            weights[key] = moved
    second.load_state_dict(weights)
    request = make_requests(catalogue, 40)
    renamed = dataclasses.replace(request, history_BH=new_id[request.history_BH])
    slate_BK = first.recommend(request, generator()).slate_BK
    torch.testing.assert_close(
        second.log_probs(renamed, new_id[slate_BK]), first.log_probs(request, slate_BK), atol=rounding(first), rtol=1e-5
    )
    greedy = first.recommend(request, sampling=Sampling(greedy=True)).slate_BK
    assert second.recommend(renamed, sampling=Sampling(greedy=True)).slate_BK.tolist() == new_id[greedy].tolist()


def test_slates_do_not_depend_on_who_else_asks(policy: Policy, requests: Request) -> None:
    alone = requests[:1]
    together = policy.recommend(requests, sampling=Sampling(greedy=True))
    torch.testing.assert_close(
        policy.recommend(alone, sampling=Sampling(greedy=True)).log_prob_BK,
        together.log_prob_BK[:1],
        atol=rounding(policy),
        rtol=1e-5,
    )
    relevance = policy.relevance(requests, together.slate_BK)
    assert relevance.shape == (40, 3)
    proposed = policy.relevance(requests, together.slate_BK, together.log_prob_BK)
    torch.testing.assert_close(proposed, relevance, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_a_loaded_policy_gives_the_same_slates(name: str, data: SlateData, tmp_path: Path) -> None:
    policy = build_policy(name, Catalogue.of(data), seed=3)
    request = data.requests(torch.arange(0, 40))
    expected = policy.recommend(request, generator())
    save_tensors(tmp_path / "policy.safetensors", policy.state_dict())
    loaded = build_policy(name, Catalogue.of(data), policy.config, seed=4)
    load_weights(loaded, load_tensors(tmp_path / "policy.safetensors"), tmp_path)
    assert loaded.config == policy.config
    found = loaded.recommend(request, generator())
    assert found.slate_BK.tolist() == expected.slate_BK.tolist()
    assert torch.equal(found.log_prob_BK, expected.log_prob_BK)


def test_nobody_asks(policy: Policy) -> None:
    nobody = make_requests(policy.catalogue, 0)
    assert policy.recommend(nobody, generator()).slate_BK.shape == (0, 3)


def test_lists_of_different_length_are_padded(policy: Policy, requests: Request) -> None:
    lists = [[1, 2, 3], [4, 5, 6, 7, 8]] * 20
    padded = [[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]] * 20
    one, other = (policy.recommend(requests, generator(), candidates=each) for each in (lists, padded))
    assert one.slate_BK.tolist() == other.slate_BK.tolist()
    assert set(one.slate_BK[0].tolist()) == {1, 2, 3}


def test_padding_changes_no_probability(policy: Policy, requests: Request) -> None:
    own = [list(range(1 + row, 11 + row)) for row in range(40)]
    slate_BK = policy.recommend(requests, generator(), candidates=own).slate_BK
    plain = policy.log_probs(requests, slate_BK, own)
    padded = policy.log_probs(requests, slate_BK, [[*row, 0, 0, 0] for row in own])
    torch.testing.assert_close(padded, plain, atol=rounding(policy), rtol=1e-5)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(greedy=True), Sampling(epsilon=0.5)], ids=str)
def test_long_lists_give_the_slates_of_short_ones(
    policy: Policy, requests: Request, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long lists are the catalogue with closed columns; one uniform number means the same item either way."""
    found = []
    for share in (8, 0):
        monkeypatch.setattr("gfn4rec.policies.candidates._CLOSING_SHARE", share)
        proposal = policy.recommend(requests, generator(), sampling, OWN_CANDIDATES)
        log_prob_BK = policy.log_probs(requests, proposal.slate_BK, OWN_CANDIDATES, proposal.latent_BZ)
        found.append((proposal.slate_BK, log_prob_BK, proposal.sampling_log_prob_BK))
    assert torch.equal(found[0][0], found[1][0])
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        torch.testing.assert_close(one, other, atol=rounding(policy), rtol=1e-5)


def test_shorter_lists_of_others_change_no_probability(policy: Policy, requests: Request) -> None:
    """The first list is the longest one of the batch."""
    proposal = policy.recommend(requests, generator(), candidates=OWN_CANDIDATES)
    latent_BZ = None if proposal.latent_BZ is None else proposal.latent_BZ[:1]
    alone = policy.log_probs(requests[:1], proposal.slate_BK[:1], OWN_CANDIDATES[:1], latent_BZ)
    torch.testing.assert_close(proposal.log_prob_BK[:1], alone, atol=rounding(policy), rtol=1e-5)


def test_an_item_outside_a_long_list_is_refused(policy: Policy, requests: Request) -> None:
    slate_BK = torch.tensor([row[:3] for row in OWN_CANDIDATES])
    slate_BK[5, 1] = 70
    with pytest.raises(UserError, match="item 70 of slate 5 is not among the candidates of its request"):
        policy.log_probs(requests, slate_BK, OWN_CANDIDATES)


@pytest.mark.parametrize("name", LEARNED)
def test_dropout_is_off_and_modes_are_left_as_they_were(name: str) -> None:
    policy = make_policy(name, make_catalogue(num_items=70), encoder={**SMALL_ENCODER, "dropout": 0.5})
    requests = make_requests(policy.catalogue, 20)
    policy.train()
    next(policy.children()).eval()
    modes = [part.training for part in policy.modules()]
    slate_BK = policy.recommend(requests, generator()).slate_BK
    scores = (policy.score,) if name in FLOWS else ()
    for measure in (policy.log_probs, policy.relevance, *scores):
        assert torch.equal(measure(requests, slate_BK), measure(requests, slate_BK))
    assert [part.training for part in policy.modules()] == modes
    policy.eval().recommend(requests, generator())
    assert not policy.training


@pytest.mark.parametrize("name", [name for name in LEARNED if name != "prm"])
@pytest.mark.parametrize("candidates", CANDIDATES)
def test_bfloat16_moves_log_probabilities_by_little(name: str, candidates: str) -> None:
    exact, rough = (
        make_policy(name, make_catalogue(num_items=70), scoring=scoring) for scoring in ("float32", "bfloat16")
    )
    requests, ids = make_requests(exact.catalogue, 40), CANDIDATES[candidates]
    proposal = rough.recommend(requests, generator(), candidates=ids)
    found = rough.log_probs(requests, proposal.slate_BK, ids, proposal.latent_BZ)
    torch.testing.assert_close(found, proposal.log_prob_BK, atol=1e-5, rtol=1e-5)
    moved = found - exact.log_probs(requests, proposal.slate_BK, ids, proposal.latent_BZ)
    assert 1e-6 < float(moved.detach().abs().max()) < 0.2


def test_proposals_can_be_learned_from(policy: Policy, requests: Request) -> None:
    proposal = policy.recommend(requests, generator())
    assert not proposal.slate_BK.is_inference()
    assert not proposal.log_prob_BK.is_inference()
    assert proposal.latent_BZ is None or not proposal.latent_BZ.is_inference()


def test_building_a_policy_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, again = (make_policy("gfn", make_catalogue()).state_dict() for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_only_a_policy_with_a_prior_takes_a_reward_weight(policy: Policy, requests: Request) -> None:
    if policy.has_prior:
        proposal = policy.recommend(requests, generator(), Sampling(reward_weight=0.0))
        assert proposal.slate_BK.shape == (40, 3)
        for dtype in (torch.float64, torch.int64):
            exact = policy.recommend(requests, generator(), Sampling(reward_weight=torch.zeros(40, dtype=dtype)))
            assert torch.equal(exact.slate_BK, proposal.slate_BK)
        with pytest.raises(UserError, match="reward_weight of shape .*: give one value, or one for each request"):
            policy.recommend(requests, generator(), Sampling(reward_weight=torch.ones(3)))
        return
    for weight in (0.0, torch.full((40,), 2.0)):
        with pytest.raises(UserError, match="has no prior; leave reward_weight at 1, or use gfn-prior"):
            policy.recommend(requests, generator(), Sampling(reward_weight=weight))

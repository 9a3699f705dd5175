"""What every decoder promises over every policy; a newcomer to either table is covered unedited."""

import dataclasses
from collections.abc import Sequence

import pytest
import torch

from gfn4rec.decoders import DECODERS, build_decoder
from gfn4rec.decoders.base import DecodedSlates, Decoder
from gfn4rec.decoders.diversity import DiversityConfig
from gfn4rec.decoders.similarity import similarities
from gfn4rec.errors import UserError
from gfn4rec.policies import POLICIES
from gfn4rec.policies.base import CandidateIds, Policy
from gfn4rec.policies.guided import GuidedGFN
from gfn4rec.schema import FeatureTensors, Request, Sampling
from tests.conftest import REPOSITORY
from tests.small_catalogue import generator, make_catalogue, make_requests, stirred

NUM_ITEMS = 40
OWN_CANDIDATES = [sorted(range(1 + row, 16 + row - row % 5)) + [0] * (row % 5) for row in range(12)]
CANDIDATES = {"all": None, "shared": list(range(3, 40, 4)), "own": OWN_CANDIDATES}
GREEDY = Sampling(greedy=True)
LEARNED = [name for name, policy in POLICIES.items() if policy.is_learned]
FLOWS = [name for name, policy in POLICIES.items() if policy._score is not Policy._score]
DIVERSE = [name for name, decoder in DECODERS.items() if issubclass(decoder.Config, DiversityConfig)]
PAIRS = [(decoder, policy) for decoder in DECODERS for policy in (LEARNED if decoder in DIVERSE else FLOWS)]
OTHERS = [(decoder, policy) for decoder in DECODERS for policy in POLICIES if (decoder, policy) not in PAIRS]


def opened(name: str) -> tuple[Policy, Request]:
    policy = stirred(name, make_catalogue(num_items=NUM_ITEMS))
    return policy, make_requests(policy.catalogue, 12)


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[Decoder, Policy, Request]:
    """A decoder with a policy that has what it needs, and requests."""
    decoder, policy = request.param
    return build_decoder(decoder), *opened(policy)


def rounding(policy: Policy) -> float:
    return 3e-5 if isinstance(policy, GuidedGFN) else 1e-5


def decode(
    decoder: Decoder, policy: Policy, requests: Request, seed: int = 0, candidates: CandidateIds | None = None
) -> DecodedSlates:
    return decoder.recommend(policy, requests, generator(seed), Sampling(), candidates)


@pytest.mark.parametrize(("decoder", "name"), OTHERS)
def test_refusals_name_what_is_missing(decoder: str, name: str) -> None:
    no_vectors = "has no item vectors to compare items by; compare them by their features"
    no_flow = "has no flow, so it cannot score slates; the gfn policies can"
    with pytest.raises(UserError, match=no_vectors if decoder in DIVERSE else no_flow):
        decode(build_decoder(decoder), *opened(name))


@pytest.mark.parametrize("name", POLICIES)
def test_by_features_all_policies_can_be_diversified(name: str) -> None:
    policy, requests = opened(name)
    colours = FeatureTensors({"colour": torch.arange(NUM_ITEMS + 1) % 3 + 2}, {}, {}, {})
    policy.catalogue = dataclasses.replace(policy.catalogue, item_features=colours)
    for diverse in DIVERSE:
        decoder = build_decoder(diverse, {"similarity": "features", "relevance_weight": 0.01})
        slate_BK = decode(decoder, policy, requests).slate_BK
        assert [sorted(row) for row in (slate_BK % 3).tolist()] == [[0, 1, 2]] * 12


@pytest.mark.parametrize("kind", CANDIDATES)
def test_slates_hold_different_candidates(pair: tuple[Decoder, Policy, Request], kind: str) -> None:
    decoder, policy, requests = pair
    candidates = CANDIDATES[kind]
    decoded = decode(decoder, policy, requests, candidates=candidates)
    for row, slate in enumerate(decoded.slate_BK.tolist()):
        own: dict[str, Sequence[int]] = {"all": range(1, NUM_ITEMS + 1), "own": OWN_CANDIDATES[row]}
        assert len(set(slate)) == 3
        assert set(slate) <= set(own.get(kind, range(3, 40, 4))) - {0}
    assert not decoded.slate_BK.is_inference()
    assert not decoded.log_prob_BK.is_inference()
    assert not decoded.log_prob_BK.requires_grad


@pytest.mark.parametrize("kind", CANDIDATES)
def test_log_probabilities_are_the_policys_own(pair: tuple[Decoder, Policy, Request], kind: str) -> None:
    """They are conditional on the latent vector of greedy slates, if there is one. A ranker's list stays as it was."""
    decoder, policy, requests = pair
    decoded = decode(decoder, policy, requests, candidates=CANDIDATES[kind])
    expected = policy.log_probs(requests, decoded.slate_BK, CANDIDATES[kind])
    torch.testing.assert_close(decoded.log_prob_BK, expected, atol=rounding(policy), rtol=1e-5)
    assert not hasattr(decoded, "sampling_log_prob_BK")


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("decoder", DIVERSE)
def test_all_weight_on_relevance_gives_the_top_items(decoder: str, name: str) -> None:
    """For a policy that scores items alone, these are its greedy slates."""
    policy, requests = opened(name)
    slate_BK = decode(build_decoder(decoder, {"relevance_weight": 1.0}), policy, requests).slate_BK
    greedy_BK = policy.recommend(requests, sampling=GREEDY).slate_BK
    assert torch.equal(slate_BK[:, 0], greedy_BK[:, 0])
    if name in ("cf", "boltzmann-cf", "rerank-cf", "prm"):
        assert torch.equal(slate_BK, greedy_BK)


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("decoder", DIVERSE)
def test_no_weight_on_relevance_gives_diverse_slates(decoder: str, name: str) -> None:
    policy, requests = opened(name)
    place_K, mean = torch.arange(3), []
    for weight in (0.0, 1.0):
        slate_BK = decode(build_decoder(decoder, {"relevance_weight": weight}), policy, requests).slate_BK
        similarity_BKK = similarities(policy, slate_BK, "vectors")
        mean.append(float(similarity_BKK[:, place_K[:, None] != place_K].mean()))
    assert mean[0] < mean[1] - 0.05


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_expects_no_less_of_searched_slates(name: str) -> None:
    policy, requests = opened(name)
    start_B = policy.score(requests, policy.recommend(requests, generator()).slate_BK)
    for decoder in ("best-of-n", "local-search"):
        found_B = policy.score(requests, decode(build_decoder(decoder), policy, requests).slate_BK)
        assert bool((found_B >= start_B - 1e-5 * start_B.abs().clamp(min=1)).all())
        assert float(found_B.mean()) > float(start_B.mean())


def test_the_same_seed_gives_the_same_slates(pair: tuple[Decoder, Policy, Request]) -> None:
    decoder, policy, requests = pair
    before = torch.random.get_rng_state()
    first, again, other = (decode(decoder, policy, requests, seed).slate_BK for seed in (1, 1, 2))
    assert torch.equal(first, again)
    if not decoder.draws:
        assert torch.equal(first, other)
        assert torch.equal(first, decoder.recommend(policy, requests).slate_BK)  # without a generator
    elif not decoder.starts_greedily:  # different starts may lead to the same slates
        assert not torch.equal(first, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_slates_do_not_depend_on_who_else_asks(pair: tuple[Decoder, Policy, Request]) -> None:
    """Each request has a generator of its own, and candidates of its own."""
    decoder, policy, requests = pair
    own = [generator(row) for row in range(12)]
    together = decoder.recommend(policy, requests, own, Sampling(), OWN_CANDIDATES)
    for row in range(12):
        alone = decoder.recommend(policy, requests[row : row + 1], [generator(row)], Sampling(), [OWN_CANDIDATES[row]])
        assert torch.equal(alone.slate_BK[0], together.slate_BK[row])
        torch.testing.assert_close(alone.log_prob_BK[0], together.log_prob_BK[row], atol=rounding(policy), rtol=1e-5)
    nobody = decoder.recommend(policy, requests[:0])
    assert nobody.slate_BK.shape == nobody.log_prob_BK.shape == (0, 3)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_is_in_the_docs(name: str) -> None:
    assert f"\n| `{name}` | " in (REPOSITORY / "docs" / "decoders.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DECODERS)
def test_what_has_no_effect_is_refused(name: str) -> None:
    decoder, (policy, requests) = build_decoder(name), opened("gfn")
    others = [
        ("temperature", Sampling(0.5)),
        ("temperature", Sampling(torch.full((12,), 0.5))),
        ("greediness", Sampling(greediness=0.5)),
        ("greediness", Sampling(greediness=torch.full((12,), 0.5))),
        ("epsilon", Sampling(epsilon=0.1)),
    ]
    for knob, sampling in others:
        if decoder.draws:
            decoder.recommend(policy, requests, generator(), sampling)
        else:
            with pytest.raises(UserError, match=f"{name} draws nothing, so {knob} has no effect; leave it out"):
                decoder.recommend(policy, requests, generator(), sampling)
    with pytest.raises(UserError, match="3 generators for 12 requests"):
        decoder.recommend(policy, requests, [generator()] * 3)


def test_unknown_names_and_settings_are_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="^no decoder 'mmrr'; did you mean 'mmr'\\?$"):
        build_decoder("mmrr")
    with pytest.raises(UserError, match="^decoder dpp: unknown key 'relevanceweight'; did you mean 'relevance_weight'"):
        build_decoder("dpp", {"relevanceweight": 1})
    with pytest.raises(UserError, match="^decoder mmr: relevance_weight: .* less than or equal to 1, got 1.5$"):
        build_decoder("mmr", {"relevance_weight": 1.5})


def test_settings_are_values_for_json() -> None:
    assert build_decoder("mmr", {"relevance_weight": 0.5}).as_dict() == {
        "name": "mmr",
        "settings": {"num_candidates": 50, "relevance_weight": 0.5, "similarity": "vectors"},
    }
    assert {name: decoder.name for name, decoder in DECODERS.items()} == {name: name for name in DECODERS}

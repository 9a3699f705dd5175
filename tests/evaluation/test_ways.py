"""Decoded slates in the evaluation protocols: shown to the same users, before the same test slates."""

from typing import ClassVar

import pytest
import torch
from typing_extensions import override

from gfn4rec.data.dataset import SlateData
from gfn4rec.decoders import DECODERS, build_decoder
from gfn4rec.decoders.base import DecodedSlates, Decoder, DecoderConfig
from gfn4rec.evaluation.held_out_protocol import HeldOut, evaluate_held_out, measure_held_out
from gfn4rec.evaluation.protocol import evaluate_in_simulator
from gfn4rec.evaluation.ways import Way, ways_of
from gfn4rec.policies import build_policy
from gfn4rec.policies.base import CandidateIds, Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.draws import Generators
from gfn4rec.schema import Request, Sampling
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from tests.simulator.conftest import FixedUsers
from tests.small_catalogue import generator, make_catalogue, make_requests

GREEDY = Sampling(greedy=True)


class Lowest(Decoder):
    """Shows the candidates with the lowest ids, whatever the policy: what `random` shows when it is greedy."""

    name: ClassVar = "lowest"
    description: ClassVar = "lowest ids"
    Config: ClassVar = DecoderConfig
    draws: ClassVar = False

    @override
    def _decode(
        self,
        policy: Policy,
        request: Request,
        generator: Generators | None,
        sampling: Sampling,
        candidates: CandidateIds | None,
    ) -> DecodedSlates:
        slate_BK = build_policy("random", policy.catalogue).recommend(request, None, GREEDY, candidates).slate_BK
        return DecodedSlates(slate_BK, policy.log_probs(request, slate_BK))


def test_ways_by_name() -> None:
    def names(decoder: str | None, weights: tuple[float, ...] = (1.0,)) -> list[str]:
        made_by = None if decoder is None else build_decoder(decoder)
        return [name for name in ways_of((1.0, 0.5), weights, made_by) if made_by is None or made_by.name in name]

    assert names(None) == ["greedy", "T=1", "T=0.5"]
    assert names(None, (1.0, 2.0)) == ["greedy", "T=1", "T=0.5", "greedy, w=2", "T=1, w=2", "T=0.5, w=2"]
    assert names("mmr") == ["mmr"]
    assert names("dpp", (1.0, 2.0)) == ["dpp", "dpp, w=2"]
    assert names("best-of-n") == ["best-of-n, T=1", "best-of-n, T=0.5"]
    assert names("local-search") == ["local-search", "local-search, T=1", "local-search, T=0.5"]
    for name in DECODERS:
        ways = ways_of((1.0, 0.5), (1.0, 2.0), build_decoder(name))
        assert list(ways)[:6] == names(None, (1.0, 2.0))
        for way_name, way in ways.items():
            assert (way.decoder is not None) == (name in way_name)
            assert way.sampling.reward_weight == (2.0 if "w=2" in way_name else 1.0)
            assert way.sampling.temperature == (0.5 if "T=0.5" in way_name else 1.0)
            assert way.sampling.greedy is ("T=" not in way_name)


def test_a_way_without_a_decoder_is_the_policy() -> None:
    policy = build_policy("popularity", make_catalogue())
    request, candidates = make_requests(policy.catalogue, 5), [1, 2, 4, 5]
    sampling = Sampling(0.5)
    made = Way(sampling).recommend(policy, request, generator(), candidates)
    assert torch.equal(made.slate_BK, policy.recommend(request, generator(), sampling, candidates).slate_BK)
    made = Way(GREEDY, Lowest(DecoderConfig())).recommend(policy, request, None, candidates)
    assert made.slate_BK.tolist() == [[1, 2, 4]] * 5


def test_decoded_slates_meet_the_simulated_users(data: SlateData) -> None:
    environment = UserEnvironment(data, FixedUsers(data), EnvironmentConfig(num_users=64, rho=0.0), seed=0)
    policy, other = (build_policy(name, Catalogue.of(data)) for name in ("popularity", "random"))
    decoded = evaluate_in_simulator(policy, environment, GREEDY, 3, 1, decoder=Lowest(DecoderConfig()))
    lowest = evaluate_in_simulator(other, environment, GREEDY, 3, 1)
    own = evaluate_in_simulator(policy, environment, GREEDY, 3, 1)
    assert decoded["coverage"] == 6
    for key in ("reward", "max_reward", "expected_reward", "ild"):
        assert decoded[key] == lowest[key] != own[key]


def test_decoded_slates_are_compared_with_the_test_slates(data: SlateData) -> None:
    tests = HeldOut.of(data)
    assert tests is not None
    policy, other = (build_policy(name, Catalogue.of(data)) for name in ("popularity", "random"))
    lowest = evaluate_held_out(other, tests)
    assert (
        evaluate_held_out(policy, tests, decoder=Lowest(DecoderConfig())) == lowest != evaluate_held_out(policy, tests)
    )
    results = measure_held_out(policy, tests, decoder=Lowest(DecoderConfig()))
    assert list(results.rows) == ["greedy", "lowest"]
    assert results.rows["lowest"] == lowest
    assert results.rows["greedy"] == results.references["popularity"]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("mmr", ["greedy", "greedy, w=2", "mmr", "mmr, w=2", "prior alone"]),
        ("best-of-n", ["greedy", "greedy, w=2", "best-of-n, T=1", "best-of-n, T=1, w=2", "prior alone"]),
        ("local-search", ["greedy", "greedy, w=2", "local-search", "local-search, w=2", "prior alone"]),
    ],
)
def test_each_decoder_has_a_row_at_each_weight(name: str, rows: list[str], data: SlateData) -> None:
    tests = HeldOut.of(data, num_slates=8)
    assert tests is not None
    policy = build_policy("gfn-prior", Catalogue.of(data))
    decoder = build_decoder(name)
    results = measure_held_out(policy, tests, reward_weights=(1.0, 2.0), decoder=decoder)
    assert list(results.rows) == rows
    assert results == measure_held_out(policy, tests, reward_weights=(1.0, 2.0), decoder=decoder)

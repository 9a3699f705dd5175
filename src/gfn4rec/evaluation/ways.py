"""The ways of making slates from a policy that are evaluated side by side: greedy, at temperatures, by a decoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gfn4rec.decoders.base import DecodedSlates, Decoder
from gfn4rec.policies.base import CandidateIds, Policy
from gfn4rec.policies.draws import Generators
from gfn4rec.schema import Proposal, Request, Sampling

GREEDY: Final = "greedy"


@dataclass(frozen=True)
class Way:
    """How slates are drawn, and the decoder that makes others of them, if there is one."""

    sampling: Sampling
    decoder: Decoder | None = None

    def recommend(
        self, policy: Policy, request: Request, generator: Generators | None, candidates: CandidateIds | None = None
    ) -> Proposal | DecodedSlates:
        """Return a slate for each request."""
        if self.decoder is None:
            return policy.recommend(request, generator, self.sampling, candidates)
        return self.decoder.recommend(policy, request, generator, self.sampling, candidates)


def ways_of(temperatures: Sequence[float], reward_weights: Sequence[float], decoder: Decoder | None) -> dict[str, Way]:
    """Return all ways by name: those of the policy at each reward weight, then those of the decoder."""
    drawn = {f"T={value:g}": Way(Sampling(value)) for value in temperatures}
    ways = at_weights({GREEDY: Way(Sampling(greedy=True)), **drawn}, reward_weights)
    return ways if decoder is None else ways | at_weights(decoded_ways(decoder, drawn), reward_weights)


def decoded_ways(decoder: Decoder, drawn: Mapping[str, Way]) -> dict[str, Way]:
    """Return the ways to use a decoder, given the ways to draw slates: by its name alone, if it need not draw them."""
    by_draws = {f"{decoder.name}, {name}": Way(way.sampling, decoder) for name, way in drawn.items()}
    if decoder.draws and not decoder.starts_greedily:
        return by_draws
    return {decoder.name: Way(Sampling(greedy=True), decoder), **(by_draws if decoder.draws else {})}


def at_weights(ways: Mapping[str, Way], reward_weights: Sequence[float]) -> dict[str, Way]:
    """Return the ways at each weight of the reward against a prior."""
    return {
        weighted_name(name, weight): Way(replace(way.sampling, reward_weight=weight), way.decoder)
        for weight in reward_weights
        for name, way in ways.items()
    }


def weighted_name(way: str, reward_weight: float) -> str:
    """Return the name of the row of a reward weight; at 1 it is that of the way alone."""
    return way if reward_weight == 1 else f"{way}, w={reward_weight:g}"

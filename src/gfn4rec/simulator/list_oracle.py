"""The list oracle: a sampler of whole slates from exp(beta * expected reward), all list effects included.

It is a Markov chain that alternates between two steps, both of which keep that distribution. The first one redraws an
item: candidates are drawn from a fixed proposal, and one of these and the present item is chosen by exp(beta * reward)
over its proposal probability (iterated importance resampling). The second one exchanges two positions, accepted by
Metropolis' rule.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import torch
from torch import Tensor

from gfn4rec.schema import Request
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.simulator.local_search import improved_slates
from gfn4rec.simulator.oracle import NUM_GREEDY_CANDIDATES, greedy_slates, random_slates
from gfn4rec.simulator.slate_values import SlateValues

NUM_SWEEPS: Final = 40
NUM_CANDIDATES: Final = 24
_FLATTER: Final = (1.0, 0.3, 0.1, 0.03)  # shares of beta at which proposals follow the rewards of single items
_UNIFORM_SHARE: Final = 0.1
_MOST_ERRORS: Final = 3.0
_BEST_TEMPERATURE: Final = 0.01  # of the chains that look for the best slates


@dataclass(frozen=True)
class ListSamples:
    """Slates of the list oracle, and how far two chains from different starts have come together."""

    slate_BK: Tensor
    reward_gap: float
    """Mean reward of the chain that began with greedy slates, less that of the one that began with random slates."""
    gap_error: float
    """Standard error of the gap over the requests; NaN for a single request."""
    change_rate: float
    """Share of the steps that changed an item."""

    @property
    def has_converged(self) -> bool:
        """Whether the two chains agree."""
        return converged(self.reward_gap, self.gap_error)


def converged(reward_gap: float, gap_error: float) -> bool:
    """Return whether two chains agree: whether the gap is within three standard errors. False if these are NaN."""
    return abs(reward_gap) <= _MOST_ERRORS * gap_error


@dataclass(frozen=True)
class Proposal:
    """A distribution over all items for each request, to draw candidates from."""

    cumulative_BN: Tensor  # double precision
    log_BN: Tensor

    @classmethod
    def of(cls, values: SlateValues, beta: float, slate_size: int) -> "Proposal":
        """Return a mixture of softmaxes of the items' own rewards, from sharp to flat, and of the uniform one."""
        reward_BN = values.item_rewards().double()
        is_item_BN = reward_BN > -torch.inf
        softmaxes = [torch.softmax(share * beta / slate_size * reward_BN, dim=1) for share in _FLATTER]
        uniform_BN = is_item_BN / is_item_BN.sum(dim=1, keepdim=True)
        density_BN = _UNIFORM_SHARE * uniform_BN + (1 - _UNIFORM_SHARE) * torch.stack(softmaxes).mean(dim=0)
        return cls(density_BN.cumsum(dim=1), density_BN.log().float())

    def draw(self, num: int, generator: torch.Generator) -> Tensor:
        """Draw items of each request, (B, num)."""
        shape = (len(self.log_BN), num)
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64, device=self.log_BN.device)
        item = torch.searchsorted(self.cumulative_BN, uniform * self.cumulative_BN[:, -1:], right=True)
        return item.clamp(1, self.log_BN.shape[1] - 1)


def walk(
    values: SlateValues,
    slate_BMK: Tensor,
    beta: float,
    generator: torch.Generator,
    num_candidates: int = NUM_CANDIDATES,
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield slates (B, M, K) of M chains per request, their rewards (B, M), and which chains have changed an item.

    The chains begin with the given slates and never end. Each step redraws one position, the same one in all slates.
    """
    num_items, size = values.trust_BN.shape[1] - 1, slate_BMK.shape[2]
    proposal, num_candidates = Proposal.of(values, beta, size), min(num_candidates, num_items)
    while True:
        # In turn, redrawing and exchanging could follow each other so that some item is never redrawn.
        place = int(torch.randint(size, (), generator=generator, device=slate_BMK.device))
        before_BM = slate_BMK[:, :, place]
        slate_BMK, reward_BM = _redraw(values, slate_BMK, place, beta, proposal, num_candidates, generator)
        has_changed_BM = slate_BMK[:, :, place] != before_BM
        if size > 1:
            slate_BMK, reward_BM = _exchange(values, slate_BMK, reward_BM, beta, generator)
        yield slate_BMK, reward_BM, has_changed_BM


def _redraw(
    values: SlateValues,
    slate_BMK: Tensor,
    place: int,
    beta: float,
    proposal: Proposal,
    num_candidates: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Choose the item at a position among itself and candidates; return the slates and their rewards."""
    num_requests, num_chains, size = slate_BMK.shape
    drawn_BMC = proposal.draw(num_chains * num_candidates, generator).view(num_requests, num_chains, num_candidates)
    item_BMC = torch.cat([slate_BMK[:, :, place, None], drawn_BMC], dim=2)
    option_BMCK = slate_BMK[:, :, None].repeat(1, 1, item_BMC.shape[2], 1)
    others_BMCK = option_BMCK.clone()
    others_BMCK[:, :, :, place] = 0
    option_BMCK[:, :, :, place] = item_BMC
    reward_BMC = values.rewards(option_BMCK.flatten(1, 2)).view(item_BMC.shape)
    log_proposal_BMC = proposal.log_BN.gather(1, item_BMC.flatten(1)).view(item_BMC.shape)
    score_BMC = beta * reward_BMC - log_proposal_BMC
    score_BMC = score_BMC.masked_fill((others_BMCK == item_BMC[:, :, :, None]).any(dim=3), -torch.inf)
    uniform_BMC = torch.rand(score_BMC.shape, generator=generator, device=score_BMC.device)
    chosen_BM1 = (score_BMC - torch.log(-torch.log(uniform_BMC.clamp(1e-20, 1 - 1e-7)))).argmax(dim=2, keepdim=True)
    slate_BMK = option_BMCK.gather(2, chosen_BM1[..., None].expand(-1, -1, -1, size))[:, :, 0]
    return slate_BMK, reward_BMC.gather(2, chosen_BM1)[:, :, 0]


def _exchange(
    values: SlateValues, slate_BMK: Tensor, reward_BM: Tensor, beta: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Exchange two random positions of each slate, if that is accepted; return the slates and their rewards."""
    device = slate_BMK.device
    pair_BM2 = torch.rand(slate_BMK.shape, generator=generator, device=device).topk(2, dim=2).indices
    other_BMK = slate_BMK.scatter(2, pair_BM2, slate_BMK.gather(2, pair_BM2.flip(2)))
    other_BM = values.rewards(other_BMK)
    uniform_BM = torch.rand(reward_BM.shape, generator=generator, device=device)
    is_accepted_BM = uniform_BM < torch.exp(beta * (other_BM - reward_BM))
    return (
        torch.where(is_accepted_BM[..., None], other_BMK, slate_BMK),
        torch.where(is_accepted_BM, other_BM, reward_BM),
    )


@torch.inference_mode()
def sample_lists(
    environment: UserEnvironment,
    request: Request,
    beta: float,
    generator: torch.Generator,
    num_sweeps: int = NUM_SWEEPS,
    num_candidates: int = NUM_CANDIDATES,
) -> ListSamples:
    """Sample a slate for each request from exp(beta * expected reward) over all ordered slates of distinct items.

    Two chains begin with greedy and with random slates. The first half of the sweeps brings them to the distribution;
    their mean rewards over the second half are compared. The slates are the last ones of either chain.
    """
    size = environment.config.slate_size
    chain = walk(
        SlateValues.of(environment, request), _starts(environment, request, generator), beta, generator, num_candidates
    )
    for _ in range(size * (num_sweeps // 2)):
        next(chain)
    slates, rewards, changes = zip(*islice(chain, size * (num_sweeps - num_sweeps // 2)), strict=True)
    gap_B = torch.stack([reward_BM[:, 0] - reward_BM[:, 1] for reward_BM in rewards]).double().mean(dim=0)
    which_B11 = torch.randint(2, (len(gap_B), 1, 1), generator=generator, device=gap_B.device)
    return ListSamples(
        slate_BK=slates[-1].gather(1, which_B11.expand(-1, -1, size))[:, 0],
        reward_gap=float(gap_B.mean()),
        gap_error=float(gap_B.std()) / math.sqrt(len(gap_B)) if len(gap_B) > 1 else math.nan,
        change_rate=float(torch.stack(changes).double().mean()),
    )


def _starts(environment: UserEnvironment, request: Request, generator: torch.Generator) -> Tensor:
    """Return greedy and random slates, (B, 2, K)."""
    slates = (greedy_slates(environment, request), random_slates(environment, request, generator))
    return torch.stack(slates, dim=1)


@torch.inference_mode()
def best_slates(
    environment: UserEnvironment, request: Request, generator: torch.Generator, num_sweeps: int = NUM_SWEEPS
) -> Tensor:
    """Return the best slates that are found; no policy should exceed their expected rewards.

    Greedy slates and the last slates of two cold chains of the list oracle are improved until no exchange is a gain,
    with all items of these slates among the candidates; the best of the three counts.
    """
    values, size = SlateValues.of(environment, request), environment.config.slate_size
    start_BMK = _starts(environment, request, generator)
    chain = walk(values, start_BMK, size / _BEST_TEMPERATURE, generator)
    end_BMK, _, _ = next(islice(chain, num_sweeps * size - 1, None))
    num_candidates = min(NUM_GREEDY_CANDIDATES, environment.data.num_items)
    item_BC = torch.cat([values.item_rewards().topk(num_candidates, dim=1).indices, end_BMK.flatten(1)], dim=1)
    improved_BMK = torch.stack(
        [improved_slates(values, slate_BK, item_BC) for slate_BK in (start_BMK[:, 0], *end_BMK.unbind(dim=1))], dim=1
    )
    best_B11 = values.rewards(improved_BMK).argmax(dim=1)[:, None, None]
    return improved_BMK.gather(1, best_B11.expand(-1, -1, size))[:, 0]

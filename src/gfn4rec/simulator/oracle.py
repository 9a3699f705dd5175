"""Oracles, samplers that see the simulator's true response probabilities, and uniformly random slates."""

import torch
from torch import Tensor

from gfn4rec.schema import Request
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.simulator.local_search import built_slates, improved_slates
from gfn4rec.simulator.protocol import trusted
from gfn4rec.simulator.slate_values import SlateValues

_CHUNK_ITEMS = 4096
NUM_GREEDY_CANDIDATES = 200


def true_item_rewards(environment: UserEnvironment, state: Tensor) -> Tensor:
    """Return the expected reward of every item without item influence, (B, N); padding has -inf."""
    num_items, weight_R = environment.data.num_items, environment.data.weight_R
    columns = []
    for items in torch.arange(num_items + 1, device=weight_R.device).split(_CHUNK_ITEMS):
        item_BC = items.expand(len(state), -1)
        reward_BC = environment.model.probabilities(state, item_BC) @ weight_R
        columns.append(reward_BC * trusted(environment.model, state, item_BC))
    reward_BN = torch.cat(columns, dim=1)
    reward_BN[:, 0] = -torch.inf
    return reward_BN


@torch.inference_mode()
def boltzmann_slates(
    environment: UserEnvironment, request: Request, temperature: float, generator: torch.Generator
) -> Tensor:
    """Sample the pointwise oracle: K items without replacement from softmax(true item reward / temperature).

    Sampling uses the Gumbel top-K trick.
    """
    reward_BN = true_item_rewards(environment, environment.model.encode(request))
    uniform_BN = torch.rand(reward_BN.shape, generator=generator, device=reward_BN.device)
    gumbel_BN = -torch.log(-torch.log(uniform_BN.clamp(1e-20, 1 - 1e-7)))
    return (reward_BN / temperature + gumbel_BN).topk(environment.config.slate_size, dim=1).indices


@torch.inference_mode()
def random_slates(environment: UserEnvironment, request: Request, generator: torch.Generator) -> Tensor:
    """Sample K items uniformly, without replacement."""
    shape = (len(request.user_B), environment.data.num_items)
    draw_BN = torch.rand(shape, generator=generator, device=request.user_B.device)
    return draw_BN.topk(environment.config.slate_size, dim=1).indices + 1


@torch.inference_mode()
def greedy_slates(
    environment: UserEnvironment,
    request: Request,
    num_candidates: int = NUM_GREEDY_CANDIDATES,
    is_improved: bool = False,
) -> Tensor:
    """Choose slates by the slate-aware greedy oracle: each item maximises the expected reward of the slate so far.

    Candidates are the items of highest reward without list effects. Similarities to the items chosen so far are divided
    by the number of other items in the whole slate, so that an item counts the same at every position. With
    `is_improved`, items are exchanged for candidates, and positions for each other, until no exchange is a gain.
    """
    has_effects, size = environment.config.is_any, environment.config.slate_size
    if not (has_effects or is_improved):
        return _greedy_slates(environment, request, num_candidates)
    values = SlateValues.of(environment, request)
    item_BC = values.item_rewards().topk(min(num_candidates, environment.data.num_items), dim=1).indices
    slate_BK = (
        built_slates(values, item_BC, size) if has_effects else _greedy_slates(environment, request, num_candidates)
    )
    return improved_slates(values, slate_BK, item_BC) if is_improved else slate_BK


def _greedy_slates(environment: UserEnvironment, request: Request, num_candidates: int) -> Tensor:
    """Choose greedy slates where item influence is the only list effect.

    `built_slates` chooses the same for any effects, up to rounding; stored results hang on the rounding of this one.
    """
    model, rho, size = environment.model, environment.config.rho, environment.config.slate_size
    state, weight_R = model.encode(request), environment.data.weight_R
    reward_BN = true_item_rewards(environment, state)
    item_BC = reward_BN.topk(min(num_candidates, environment.data.num_items), dim=1).indices
    probability_BCR, trust_BC = model.probabilities(state, item_BC), trusted(model, state, item_BC)
    vector_BCD = model.item_embedding_ND[item_BC]
    similarity_BCC = vector_BCD @ vector_BCD.transpose(1, 2)
    num_others = size if environment.influence_includes_self else max(1, size - 1)
    self_BC = similarity_BCC.diagonal(dim1=1, dim2=2) / num_others if environment.influence_includes_self else 0.0
    row_B = torch.arange(len(item_BC), device=item_BC.device)
    chosen: list[Tensor] = []
    influence_BC = torch.zeros_like(probability_BCR[:, :, 0]) + self_BC  # of the items chosen so far on each candidate
    for _ in range(size):
        own_BC = (probability_BCR - rho * influence_BC[:, :, None]).clamp(0, 1) @ weight_R * trust_BC
        total_BC = own_BC
        for place_B in chosen:
            # The influence on an earlier item if the candidate joined the slate.
            joined_BC = influence_BC[row_B, place_B][:, None] + similarity_BCC[row_B, place_B] / num_others
            earlier_BCR = probability_BCR[row_B, place_B][:, None] - rho * joined_BC[:, :, None]
            total_BC = total_BC + earlier_BCR.clamp(0, 1) @ weight_R * trust_BC[row_B, place_B][:, None]
        for place_B in chosen:
            total_BC[row_B, place_B] = -torch.inf
        best_B = total_BC.argmax(dim=1)
        chosen.append(best_B)
        joined_BC = similarity_BCC[row_B, best_B] / num_others
        joined_BC[row_B, best_B] = 0.0  # an item's similarity to itself is in `self_BC`, or does not count
        influence_BC = influence_BC + joined_BC
    return item_BC.gather(1, torch.stack(chosen, dim=1))

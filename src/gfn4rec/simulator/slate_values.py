"""Expected rewards of any slates: what oracles maximise and sample by."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from gfn4rec.schema import Request
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.simulator.outlook import ListModel
from gfn4rec.simulator.protocol import UserModel, trusted

_CHUNK_ITEMS = 4096
_CHUNK_PAIRS = 1 << 16  # requests times items, where each position of a slate has its own probabilities


@dataclass(frozen=True)
class SlateValues:
    """The expected rewards of slates for a batch of requests, all list effects included.

    The probabilities of all items are computed once, by `of`. Item 0 is an empty position: it gets no response and
    changes none of the others.
    """

    probability_BNPR: Tensor  # of each item alone; P is 1 if its position makes no difference, else K
    trust_BN: Tensor
    lists: ListModel
    weight_R: Tensor

    @classmethod
    @torch.inference_mode()
    def of(cls, environment: UserEnvironment, request: Request) -> Self:
        """Ask the model of users for the probabilities of all items."""
        data, model = environment.data, environment.model
        state = model.encode(request)
        item_N = torch.arange(data.num_items + 1, device=data.device)
        trust_BN = torch.cat(
            [trusted(model, state, item_C.expand(len(state), -1)) for item_C in item_N.split(_CHUNK_ITEMS)], dim=1
        )
        probability_BNPR = _probabilities(model, state, item_N, environment.config.slate_size)
        probability_BNPR[:, 0] = 0.0
        embedding_ND = environment.lists.item_embedding_ND.clone()
        embedding_ND[0] = 0.0
        lists = replace(environment.lists, item_embedding_ND=embedding_ND)
        return cls(probability_BNPR, trust_BN, lists, data.weight_R)

    @property
    def is_ordered(self) -> bool:
        """Whether the order of a slate's items matters."""
        return self.lists.effects.is_ordered or self.probability_BNPR.shape[2] > 1

    def of_requests(self, row_X: Tensor) -> Self:
        """Return those of some of the requests."""
        return replace(self, probability_BNPR=self.probability_BNPR[row_X], trust_BN=self.trust_BN[row_X])

    @torch.inference_mode()
    def rewards(self, slate_BMK: Tensor) -> Tensor:
        """Return the expected rewards of M slates for each request, (B, M)."""
        row_B11 = torch.arange(len(slate_BMK), device=slate_BMK.device)[:, None, None]
        num_positions = self.probability_BNPR.shape[2]
        position_K = torch.arange(slate_BMK.shape[2], device=slate_BMK.device).clamp(max=num_positions - 1)
        probability_BMKR = self.probability_BNPR[row_B11, slate_BMK, position_K]
        outlook = self.lists.outlook(slate_BMK, probability_BMKR, self.trust_BN[row_B11, slate_BMK])
        reward_BM: Tensor = (outlook.probabilities() @ self.weight_R).mean(dim=2)
        return reward_BM

    @torch.inference_mode()
    def item_rewards(self) -> Tensor:
        """Return the expected reward of each item alone, at the first position, (B, N); that of padding is -inf."""
        reward_BN = self.probability_BNPR[:, :, 0] @ self.weight_R * self.trust_BN
        reward_BN[:, 0] = -torch.inf
        return reward_BN


def _probabilities(model: UserModel, state: Tensor, item_N: Tensor, slate_size: int) -> Tensor:
    """Return the probabilities of each behaviour for all items, at each position if it matters, (B, N, P, R)."""
    at_positions = getattr(model, "slate_probabilities", None)
    if at_positions is None or not getattr(model, "has_positions", True):
        columns = [model.probabilities(state, item_C.expand(len(state), -1)) for item_C in item_N.split(_CHUNK_ITEMS)]
        return torch.cat(columns, dim=1)[:, :, None]
    blocks = []
    for item_C in item_N.split(max(1, _CHUNK_PAIRS // max(1, len(state)))):
        # A slate of K times the same item has its probabilities at all positions.
        slate_XK = item_C.repeat(len(state))[:, None].expand(-1, slate_size)
        probability_XKR = at_positions(state.repeat_interleave(len(item_C), dim=0), slate_XK)
        blocks.append(probability_XKR.unflatten(0, (len(state), -1)))
    return torch.cat(blocks, dim=1)

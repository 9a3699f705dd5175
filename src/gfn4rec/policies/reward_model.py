"""The reward model of guided flows: an item's reward is the weighted sum of the responses that it predicts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gfn4rec.nn.kept import Kept
from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request


@dataclass(frozen=True)
class ResponseScores:
    """What a member of the reward model makes of requests: products of query and vector are logits of responses."""

    query_BRD: Tensor
    vector_ND: Tensor

    def logits(self, item_BK: Tensor) -> Tensor:
        """Return the logits of the responses to items, (B, K, R)."""
        return F.embedding(item_BK, self.vector_ND) @ self.query_BRD.mT


class ResponsePredictor(nn.Module):
    """A member of the reward model: predicts the responses to an item from the request alone.

    The logit of a behaviour is the dot product of a query and the item's vector.
    """

    def __init__(self, catalogue: Catalogue, config: BackboneConfig) -> None:
        super().__init__()
        encoder, self._num_behaviours = config.encoder, len(catalogue.weight_R)
        self.backbone = Backbone(catalogue, config)
        self.query = nn.Linear(encoder.state_dim, self._num_behaviours * encoder.dim)
        self.norm = nn.LayerNorm(encoder.dim)
        self.item_bias = nn.Linear(encoder.dim, self._num_behaviours)  # of an item's vector, as part of the query
        self._kept = Kept()

    def encode(self, request: Request, is_hidden_N: Tensor | None) -> tuple[Tensor, Tensor, ResponseScores]:
        """Return the states of requests, the encodings of all items, (N, D), and the scores of both."""
        state_BS, table_ND = self.backbone.encode(request, is_hidden_N)
        return state_BS, table_ND, ResponseScores(self._queries(state_BS), self._vectors(table_ND))

    def history_loss(self, request: Request, is_hidden_N: Tensor | None) -> Tensor:
        """Return the loss of the responses in histories: those to an event are predicted from the events before it."""
        request, table_ND = self.backbone.encoder.latest(request), self.backbone.item_table(is_hidden_N)
        state_BTS = self.backbone.encoder.prefixes(request, table_ND)
        is_event_BH = request.history_BH > 0
        vector_XD = F.embedding(request.history_BH[is_event_BH], self._vectors(table_ND))
        logit_XR = (self._queries(state_BTS[:, :-1][is_event_BH]) @ vector_XD[:, :, None])[:, :, 0]
        return response_loss(logit_XR, request.response_BHR[is_event_BH])

    def _queries(self, state: Tensor) -> Tensor:
        """Return the queries of states, (..., S) -> (..., R, D + 1)."""
        query: Tensor = self.norm(self.query(state).unflatten(-1, (self._num_behaviours, -1)))
        query = query * query.shape[-1] ** -0.5 + self.item_bias.weight
        return torch.cat([query, self.item_bias.bias[:, None].expand(*query.shape[:-1], 1)], dim=-1)

    def _vectors(self, table_ND: Tensor) -> Tensor:
        """Return the item vectors that belong to the queries, (N, D + 1)."""
        return self._kept.of([table_ND], lambda: F.pad(table_ND, (0, 1), value=1.0))


class RewardModel(nn.Module):
    """The mean of several predictors, whose errors partly cancel: they differ in their initial weights."""

    def __init__(self, catalogue: Catalogue, config: BackboneConfig, num_members: int) -> None:
        super().__init__()
        self.members = nn.ModuleList(ResponsePredictor(catalogue, config) for _ in range(num_members))

    @property
    def backbone(self) -> Backbone:
        """The first member's encoder of requests and items."""
        return next(self._predictors()).backbone

    def encode(self, request: Request, is_hidden_N: Tensor | None) -> tuple[Tensor, Tensor, tuple[ResponseScores, ...]]:
        """Return states and item encodings of the first member, and the scores of all members."""
        encoded = [member.encode(request, is_hidden_N) for member in self._predictors()]
        state_BS, table_ND, _ = encoded[0]
        return state_BS, table_ND, tuple(scores for *_, scores in encoded)

    def history_loss(self, request: Request, num_read: int, is_hidden_N: Tensor | None) -> Tensor:
        """Return the mean loss of the members, each on the histories of `num_read` other requests."""
        num_requests, losses = len(request.user_B), []
        for number, member in enumerate(self._predictors()):
            row = torch.arange(number * num_read, (number + 1) * num_read, device=request.user_B.device) % num_requests
            losses.append(member.history_loss(request[row], is_hidden_N))
        return torch.stack(losses).mean()

    def _predictors(self) -> Iterator[ResponsePredictor]:
        return cast(Iterator[ResponsePredictor], iter(self.members))


def response_loss(logits: Tensor, responses: Tensor) -> Tensor:
    """Return the cross-entropy of the responses, (..., R), summed over behaviours, averaged over items."""
    total = F.binary_cross_entropy_with_logits(logits, responses, reduction="sum")
    return total / max(1, responses.shape[:-1].numel())

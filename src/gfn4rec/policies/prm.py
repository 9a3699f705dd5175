"""PRM: a transformer that re-ranks the list of an initial ranker, with a personalised vector per item."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn
from typing_extensions import override

from gfn4rec.nn.mlp import mlp
from gfn4rec.nn.scoring import ItemMatrix
from gfn4rec.nn.transformer import TransformerLayer
from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Context, Loss, Plan, Policy, pointwise_plan
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.initial_ranker import InitialRanker, RankerConfig
from gfn4rec.policies.losses import reward_cross_entropy
from gfn4rec.schema import Request, SlateBatch


class PRMConfig(BackboneConfig):
    """Settings of PRM."""

    ranker: RankerConfig = RankerConfig()
    """Settings of the initial ranker."""
    num_layers: int = Field(default=2, ge=1)
    """Number of transformer layers of the re-ranker."""
    pv_weight: float = Field(default=0.1, ge=0)
    """Weight of the personalised vectors' loss."""
    others: Literal["ranked", "random"] = "ranked"
    """Items beside the shown ones on a training list: the ranker's best (ranked), or random (default offline)."""

    @property
    @override
    def idle_steps(self) -> int:
        """Number of learning steps in which only the ranker learns."""
        return self.ranker.first_steps

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.encoder.dim % self.encoder.num_heads:
            raise ValueError(f"encoder.num_heads {self.encoder.num_heads} does not divide dim {self.encoder.dim}")
        return self


class PRM(Policy):
    """Learns from lists in random order, so that an item's position does not reveal whether it was shown."""

    description: ClassVar = "a transformer that re-ranks the short list of an initial ranker, with personalised vectors"
    # The logging policy never saw the ranker's list, so unlogged items on it are not negatives.
    offline_defaults: ClassVar[Mapping[str, object]] = {"others": "random"}
    Config: ClassVar = PRMConfig
    config: PRMConfig

    def __init__(self, catalogue: Catalogue, config: PRMConfig) -> None:
        super().__init__(catalogue, config)
        encoder = config.encoder
        self.backbone = Backbone(catalogue, config)
        self.ranker = InitialRanker(config, config.ranker, catalogue.slate_size)
        self.personal = mlp(encoder.state_dim + encoder.dim, config.hidden_dims, encoder.dim)
        self.personal_score = nn.Linear(encoder.dim, 1)
        self.place = nn.Embedding(self.ranker.list_length, encoder.dim)
        self.layers = nn.ModuleList(
            TransformerLayer(encoder.dim, encoder.num_heads, encoder.feedforward_dim, encoder.dropout)
            for _ in range(config.num_layers)
        )
        self.item_score = nn.Linear(encoder.dim, 1)
        nn.init.normal_(self.place.weight, std=0.1)

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan with the same scores at every step, over the ranker's list in the ranker's order."""
        state_BS, table_ND = self.backbone.encode(context.request)
        shortlist = self.ranker.shortlist(state_BS, table_ND, context.candidates, context.slate_BK)
        ranking_BC = self.ranker.head.scores(state_BS, table_ND, shortlist.item_BC)
        score_BC, _ = self._scores(state_BS, table_ND, shortlist, _places(ranking_BC, shortlist))
        # Each request has its own scores, so the item vectors are the scores (width 1), and the query is 1.
        row_BC = torch.arange(score_BC.numel(), device=state_BS.device).view_as(score_BC)
        matrix = ItemMatrix(score_BC.reshape(-1, 1), shortlist.num_padding_B, row_BC)
        return pointwise_plan(shortlist, matrix, torch.ones_like(state_BS[:, :1]))

    @override
    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the trained P(i|u): a softmax over a list with the slate on it, in random order as in training."""
        state_BS, table_ND = self.backbone.encode(request)
        shortlist = self.ranker.shortlist(state_BS, table_ND, self._candidates(None, request), slate_BK)
        noise_BC = torch.rand(shortlist.item_BC.shape, generator=torch.Generator().manual_seed(0)).to(state_BS.device)
        score_BC, _ = self._scores(state_BS, table_ND, shortlist, _places(noise_BC, shortlist))
        return score_BC.softmax(dim=1).gather(1, shortlist.columns(slate_BK))

    def _scores(
        self, state_BS: Tensor, table_ND: Tensor, shortlist: Candidates, place_BC: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the scores of items at these positions (-inf for padding), and those of their personalised vectors."""
        item_BCD = F.embedding(shortlist.item_BC, table_ND)
        state_BCS = state_BS[:, None].expand(-1, item_BCD.shape[1], -1)
        personal_BCD = self.personal(torch.cat([state_BCS, item_BCD], dim=2))
        token_BCD = item_BCD + personal_BCD + self.place(place_BC)
        is_item_BC = shortlist.item_BC > 0
        for layer in self.layers:
            token_BCD = layer(token_BCD, is_item_BC[:, None, None, :])
        score_BC = self.item_score(token_BCD)[:, :, 0].masked_fill(~is_item_BC, -torch.inf)
        return score_BC, self.personal_score(personal_BCD)[:, :, 0]

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        state_BS, table_ND = self.backbone.encode_to_learn(batch.request, generator)
        target_BK = self.catalogue.scale_reward(batch.item_reward_BK)

        def rerank() -> Loss:
            shortlist = self._learning_list(state_BS, table_ND, batch, generator)
            noise_BC = torch.rand(shortlist.item_BC.shape, generator=generator, device=state_BS.device)
            score_BC, personal_BC = self._scores(state_BS, table_ND, shortlist, _places(noise_BC, shortlist))
            column_BK = shortlist.columns(batch.slate_BK)
            terms = {
                "rerank": reward_cross_entropy(score_BC, column_BK, target_BK),
                "personal": F.binary_cross_entropy_with_logits(personal_BC.gather(1, column_BK), target_BK),
            }
            return Loss(terms["rerank"] + self.config.pv_weight * terms["personal"], terms)

        return self.ranker.staged_loss(state_BS, table_ND, batch.slate_BK, target_BK, generator, step, rerank)

    def _learning_list(
        self, state_BS: Tensor, table_ND: Tensor, batch: SlateBatch, generator: torch.Generator
    ) -> Candidates:
        if self.config.others == "random":
            return self.ranker.random_list(batch.slate_BK, len(table_ND) - 1, generator)
        return self.ranker.shortlist(state_BS, table_ND, self._candidates(None, batch.request), batch.slate_BK)


def _places(score_BC: Tensor, shortlist: Candidates) -> Tensor:
    """Return the position of each item in the list sorted by score, best first and padding last."""
    order_BC = score_BC.masked_fill(shortlist.item_BC == 0, -torch.inf).argsort(dim=1, descending=True)
    place_C = torch.arange(score_BC.shape[1], device=score_BC.device)
    return torch.empty_like(order_BC).scatter_(1, order_BC, place_C.expand_as(order_BC))

"""PRM: a transformer re-ranks the list of an initial ranker, with personalised vectors of the items."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn
from typing_extensions import override

from gfn4rec.nn.mlp import mlp
from gfn4rec.nn.scoring import Shelf
from gfn4rec.nn.transformer import TransformerLayer
from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Loss, Plan, Policy, constant_queries
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.initial_ranker import InitialRanker, RankerConfig
from gfn4rec.policies.losses import reward_cross_entropy
from gfn4rec.schema import Request, SlateBatch


class PRMConfig(BackboneConfig):
    """Settings of PRM."""

    ranker: RankerConfig = RankerConfig()
    """The initial ranker."""
    num_layers: int = Field(default=2, ge=1)
    """Transformer layers of the re-ranker."""
    pv_weight: float = Field(default=0.1, ge=0)
    """Weight of the loss of the personalised vectors."""
    others: Literal["ranked", "random"] = "ranked"
    """What it learns to tell shown items from: the best others of its ranker, or random ones (offline by default)."""

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.encoder.dim % self.encoder.num_heads:
            raise ValueError(f"encoder.num_heads {self.encoder.num_heads} does not divide dim {self.encoder.dim}")
        return self


class PRM(Policy):
    """Learns from lists in random order: an item's place must not tell whether it was shown."""

    description: ClassVar = "a transformer re-ranks the list of an initial ranker, with personalised vectors"
    learns_in_stages: ClassVar = True
    # Who filled the log did not choose from the ranker's list: what stands on it and not in the log is no worse for it.
    offline_defaults: ClassVar[Mapping[str, Any]] = {"others": "random"}
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
    def plan(
        self, request: Request, candidates: Candidates, slate_BK: Tensor | None = None, latent_BZ: Tensor | None = None
    ) -> Plan:
        """The same scores at every step, over the ranker's list in the ranker's order."""
        state_BS, table_ND = self.backbone.encode(request)
        shortlist = self.ranker.shortlist(state_BS, table_ND, candidates, slate_BK)
        ranking_BC = self.ranker.head.scores(state_BS, table_ND, shortlist.item_BC)
        score_BC, _ = self._scores(state_BS, table_ND, shortlist, _places(ranking_BC, shortlist))
        # Each request has its own list of numbers: vectors of width 1, and the query 1.
        row_BC = torch.arange(score_BC.numel(), device=state_BS.device).view_as(score_BC)
        shelf = Shelf(score_BC.reshape(-1, 1), shortlist.num_padding_B, row_BC)
        return Plan(shortlist, shelf, constant_queries(torch.ones_like(state_BS[:, :1])))

    @override
    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        """The trained P(i|u): a softmax over the list that holds the slate, in random order as in training."""
        state_BS, table_ND = self.backbone.encode(request)
        shortlist = self.ranker.shortlist(state_BS, table_ND, self._candidates(None, request), slate_BK)
        noise_BC = torch.rand(shortlist.item_BC.shape, generator=torch.Generator().manual_seed(0)).to(state_BS.device)
        score_BC, _ = self._scores(state_BS, table_ND, shortlist, _places(noise_BC, shortlist))
        return score_BC.softmax(dim=1).gather(1, shortlist.columns(slate_BK))

    def _scores(
        self, state_BS: Tensor, table_ND: Tensor, shortlist: Candidates, place_BC: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The scores of the list when its items stand at these places (padding has -inf), and the personalised ones."""
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
        state_BS, table_ND = self.backbone.encode(self.backbone.hide_users(batch.request, generator))
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
    """The place of each item when the list is ordered by score, best first; padding stands last."""
    order_BC = score_BC.masked_fill(shortlist.item_BC == 0, -torch.inf).argsort(dim=1, descending=True)
    place_C = torch.arange(score_BC.shape[1], device=score_BC.device)
    return torch.empty_like(order_BC).scatter_(1, order_BC, place_C.expand_as(order_BC))

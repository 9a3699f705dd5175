"""The initial ranker: scores each item alone, and passes a short list to a re-ranker."""

from collections.abc import Callable

import torch
from pydantic import Field
from torch import Tensor, nn

from gfn4rec.nn.sampling import top_columns
from gfn4rec.policies.backbone import BackboneConfig
from gfn4rec.policies.base import Loss, PolicyConfig
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.losses import reward_cross_entropy
from gfn4rec.policies.pointwise import PointwiseHead


class RankerConfig(PolicyConfig):
    """Settings of the initial ranker."""

    list_length: int = Field(default=50, ge=1)
    """Length of the ranker's list; at least the slate size is used."""
    num_negatives: int = Field(default=44, ge=0)
    """Number of random items beside the shown ones in the softmax of the ranker's loss."""
    first_steps: int = Field(default=100, ge=0)
    """Number of first learning steps in which only the ranker learns."""
    learn_jointly: bool = True
    """Whether the ranker's loss is kept after first_steps; its lists change anyway, as the encoder is shared."""


class InitialRanker(nn.Module):
    """A pointwise head that makes short lists, and learns from shown items and random others."""

    def __init__(self, backbone: BackboneConfig, config: RankerConfig, slate_size: int) -> None:
        super().__init__()
        self.config = config
        self.list_length = max(config.list_length, slate_size)
        self.head = PointwiseHead(backbone)

    @torch.no_grad()
    def shortlist(
        self, state_BS: Tensor, table_ND: Tensor, candidates: Candidates, slate_BK: Tensor | None
    ) -> Candidates:
        """Return the best candidates of each request; items of given slates are on the list whatever their score."""
        if slate_BK is None:
            slate_BK = torch.empty(len(state_BS), 0, dtype=torch.int64, device=state_BS.device)
        most_open = int(candidates.count().max())
        count = min(self.list_length, most_open) - slate_BK.shape[1]
        best_BC = top_columns(
            self.head.queries(state_BS), candidates.matrix(table_ND), candidates.columns(slate_BK), count
        )
        item_BC = candidates.items(best_BC)
        is_shown_BC = (item_BC[:, :, None] == slate_BK[:, None, :]).any(dim=2)
        item_BC = torch.cat([slate_BK, item_BC.masked_fill(is_shown_BC, 0)], dim=1)
        return Candidates.of_lists(item_BC)

    def random_list(self, slate_BK: Tensor, num_items: int, generator: torch.Generator) -> Candidates:
        """Return lists of the items of given slates and of random others, without repetitions."""
        other_BC = _draw_others(slate_BK, num_items, self.list_length - slate_BK.shape[1], generator)
        other_BC = other_BC.sort(dim=1).values
        other_BC[:, 1:] = other_BC[:, 1:].masked_fill(other_BC[:, 1:] == other_BC[:, :-1], 0)
        return Candidates.of_lists(torch.cat([slate_BK, other_BC], dim=1))

    def loss(
        self, state_BS: Tensor, table_ND: Tensor, slate_BK: Tensor, target_BK: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Return the reward-weighted cross-entropy of a softmax over the shown items and random others."""
        other_BC = _draw_others(slate_BK, len(table_ND) - 1, self.config.num_negatives, generator)
        item_BC = torch.cat([slate_BK, other_BC], dim=1)
        column_BK = torch.arange(slate_BK.shape[1], device=slate_BK.device).expand_as(slate_BK)
        return reward_cross_entropy(self.head.scores(state_BS, table_ND, item_BC), column_BK, target_BK)

    def staged_loss(
        self,
        state_BS: Tensor,
        table_ND: Tensor,
        slate_BK: Tensor,
        target_BK: Tensor,
        generator: torch.Generator,
        step: int | None,
        reranker: Callable[[], Loss],
    ) -> Loss:
        """Return the ranker's loss in the first steps, then the re-ranker's, to which the ranker's may be added."""
        is_first_stage = step is not None and step < self.config.first_steps
        terms = {}
        if is_first_stage or self.config.learn_jointly:
            terms["ranker"] = self.loss(state_BS, table_ND, slate_BK, target_BK, generator)
        if is_first_stage:
            return Loss(terms["ranker"], terms)
        reranked = reranker()
        loss = reranked.loss + terms["ranker"] if terms else reranked.loss
        return Loss(loss, {**reranked.terms, **terms})


def _draw_others(slate_BK: Tensor, num_items: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw items that are not in the slates, uniformly and with replacement."""
    num_others = num_items - slate_BK.shape[1]
    shape = (len(slate_BK), min(count, num_others))
    other_BC = torch.randint(max(1, num_others), shape, generator=generator, device=slate_BK.device) + 1
    for shown_B in slate_BK.sort(dim=1).values.unbind(dim=1):  # in ascending order, to skip each
        other_BC = other_BC + (other_BC >= shown_B[:, None])
    return other_BC

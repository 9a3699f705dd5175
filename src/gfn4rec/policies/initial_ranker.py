"""The ranker before a re-ranker: scores all items one by one, and hands over a short list."""

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
    """Items that the ranker hands to the re-ranker; at least a slate."""
    num_negatives: int = Field(default=44, ge=0)
    """Items drawn at random that the ranker tells the shown ones from."""
    first_steps: int = Field(default=100, ge=0)
    """Learning steps in which the ranker learns alone."""
    learn_jointly: bool = True
    """Whether the ranker's loss stays beside the re-ranker's; without it the shared encoder still moves its lists."""


class InitialRanker(nn.Module):
    """A pointwise head that makes short lists, and learns to tell shown items from others."""

    def __init__(self, backbone: BackboneConfig, config: RankerConfig, slate_size: int) -> None:
        super().__init__()
        self.config = config
        self.list_length = max(config.list_length, slate_size)
        self.head = PointwiseHead(backbone)

    @torch.no_grad()
    def shortlist(
        self, state_BS: Tensor, table_ND: Tensor, candidates: Candidates, slate_BK: Tensor | None
    ) -> Candidates:
        """The best candidates of each request; those of given slates are on their list, whatever their score."""
        if slate_BK is None:
            slate_BK = torch.empty(len(state_BS), 0, dtype=torch.int64, device=state_BS.device)
        most_open = candidates.item_BC.shape[1] - int(candidates.num_padding_B.min())
        count = min(self.list_length, most_open) - slate_BK.shape[1]
        best_BC = top_columns(
            self.head.queries(state_BS), candidates.shelf(table_ND), candidates.columns(slate_BK), count
        )
        item_BC = candidates.items(best_BC)
        is_shown_BC = (item_BC[:, :, None] == slate_BK[:, None, :]).any(dim=2)
        item_BC = torch.cat([slate_BK, item_BC.masked_fill(is_shown_BC, 0)], dim=1)
        return Candidates.of_lists(item_BC)

    def random_list(self, slate_BK: Tensor, num_items: int, generator: torch.Generator) -> Candidates:
        """Given slates among items drawn at random, a list of each; what is drawn twice stands there once."""
        other_BC = _draw_others(slate_BK, num_items, self.list_length - slate_BK.shape[1], generator)
        other_BC = other_BC.sort(dim=1).values
        other_BC[:, 1:] = other_BC[:, 1:].masked_fill(other_BC[:, 1:] == other_BC[:, :-1], 0)
        return Candidates.of_lists(torch.cat([slate_BK, other_BC], dim=1))

    def loss(
        self, state_BS: Tensor, table_ND: Tensor, slate_BK: Tensor, target_BK: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Reward-weighted cross-entropy of a softmax over the shown items and random others."""
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
        """The ranker's loss alone in the first steps, then the re-ranker's, with or without the ranker's."""
        is_first_stage = step is not None and step < self.config.first_steps
        terms = {}
        if is_first_stage or self.config.learn_jointly:
            terms["ranker"] = self.loss(state_BS, table_ND, slate_BK, target_BK, generator)
        if is_first_stage:
            return Loss(terms["ranker"], terms)
        other = reranker()
        loss = other.loss + terms["ranker"] if terms else other.loss
        return Loss(loss, {**other.terms, **terms})


def _draw_others(slate_BK: Tensor, num_items: int, count: int, generator: torch.Generator) -> Tensor:
    """Items that are not in the slates, uniformly and with replacement."""
    num_others = num_items - slate_BK.shape[1]
    shape = (len(slate_BK), min(count, num_others))
    other_BC = torch.randint(max(1, num_others), shape, generator=generator, device=slate_BK.device) + 1
    for shown_B in slate_BK.sort(dim=1).values.unbind(dim=1):  # in ascending order, step over each
        other_BC = other_BC + (other_BC >= shown_B[:, None])
    return other_BC

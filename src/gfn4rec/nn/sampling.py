"""Choosing a column of a list: by the inverse of the cumulative probabilities, greedily, or uniformly."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gfn4rec.nn.scoring import GROUP_COLUMNS, Shelf, Taken, score_blocks

_TINY = 1e-300  # keeps a division by 0 from being one, where its result is not used


@dataclass(frozen=True)
class Choosing:
    """How a column is chosen: from softmax(score / temperature), or with probability epsilon from all alike."""

    greedy: bool = False
    temperature: float = 1.0
    epsilon: float = 0.0


def choose(query_BD: Tensor, shelf: Shelf, taken_BX: Tensor, uniform_B: Tensor, how: Choosing) -> tuple[Tensor, Tensor]:
    """A column for each request, and its log-probability at temperature 1 and epsilon 0.

    `uniform_B` has one number of [0, 1) per request, in double precision: which column it means depends on nothing
    else. The list is looked at in two levels, groups of columns and the columns of one group.
    """
    query_B1D = query_BD[:, None]
    is_explorer_B = uniform_B < how.epsilon
    chooser_B = ((uniform_B - how.epsilon) / max(1 - how.epsilon, _TINY)).clamp_(min=0.0)
    log_sum_B, weight_BG, scores = _group_weights(query_B1D, shelf, taken_BX, how)
    group_B, chooser_B = _pick(weight_BG, chooser_B, how.greedy)
    if scores is None:
        score_BG = _group_scores(query_B1D, shelf, taken_BX, group_B)
    else:
        score_BG = scores.take_along_dim(group_B[:, None, None], dim=1)[:, 0]
    place_B, _ = _pick(score_BG if how.greedy else score_BG / how.temperature, chooser_B, how.greedy)
    column_B = group_B * GROUP_COLUMNS + place_B
    if how.epsilon > 0:
        explorer_B = _uniform_column(shelf, taken_BX, (uniform_B / how.epsilon).clamp_(max=1.0))
        column_B = torch.where(is_explorer_B, explorer_B, column_B)
    return column_B, shelf.score_at(query_B1D, column_B[:, None])[:, 0] - log_sum_B


def top_columns(query_BD: Tensor, shelf: Shelf, taken_BX: Tensor, count: int) -> Tensor:
    """The columns of highest score, best first; if a list has fewer than `count`, padding or taken ones follow."""
    values, columns = [], []
    for start, score_B1c in score_blocks(query_BD[:, None], shelf, Taken.by_all(taken_BX)):
        best = score_B1c[:, 0].topk(min(count, score_B1c.shape[2]), dim=1)
        values.append(best.values)
        columns.append(best.indices + start)
    order_BC = torch.cat(values, dim=1).topk(count, dim=1).indices
    return torch.cat(columns, dim=1).gather(1, order_BC)


def _group_weights(
    query_B1D: Tensor, shelf: Shelf, taken_BX: Tensor, how: Choosing
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The log-sum-exp of each request's scores, the logarithm of the weight of each group of columns, and the scores by
    group if they are one block: then they need not be computed anew.
    """
    log_sums, weights, scratch = [], [], None
    for _, score_B1c in score_blocks(query_B1D, shelf, Taken.by_all(taken_BX)):
        score_Bc, missing = score_B1c[:, 0], -score_B1c.shape[2] % GROUP_COLUMNS
        if missing:
            score_Bc = F.pad(score_Bc, (0, missing), value=-torch.inf)
        score_BGc = score_Bc.unflatten(1, (-1, GROUP_COLUMNS))
        scratch = torch.empty_like(score_BGc) if scratch is None else scratch.flatten()[: score_BGc.numel()]
        scratch = scratch.view_as(score_BGc)
        most_BG = score_BGc.amax(dim=2)
        log_sums.append(_log_sum_exp(score_BGc, most_BG, 1.0, scratch))
        if how.greedy:
            weights.append(most_BG)
        elif how.temperature == 1:
            weights.append(log_sums[-1])
        else:
            weights.append(_log_sum_exp(score_BGc, most_BG, how.temperature, scratch))
    log_sum_B = torch.cat(log_sums, dim=1).logsumexp(dim=1)
    return log_sum_B, torch.cat(weights, dim=1), score_BGc if len(weights) == 1 else None


def _log_sum_exp(score_BGc: Tensor, most_BG: Tensor, temperature: float, scratch_BGc: Tensor) -> Tensor:
    """Of scores / temperature over the last dimension, without new memory; `most_BG` is the largest score."""
    most_BG = most_BG.clamp(min=torch.finfo(score_BGc.dtype).min)  # a group may be closed altogether
    torch.sub(score_BGc, most_BG[:, :, None], out=scratch_BGc)
    if temperature != 1:
        scratch_BGc.div_(temperature)
    return scratch_BGc.exp_().sum(dim=2).log_().add_(most_BG / temperature)


def _group_scores(query_B1D: Tensor, shelf: Shelf, taken_BX: Tensor, group_B: Tensor) -> Tensor:
    """The scores of the columns of one group per request."""
    column_BG = group_B[:, None] * GROUP_COLUMNS + torch.arange(GROUP_COLUMNS, device=group_B.device)
    is_closed_BG = (column_BG < shelf.num_padding_B[:, None]) | (column_BG >= shelf.num_columns)
    is_closed_BG |= (column_BG[:, :, None] == taken_BX[:, None, :]).any(dim=2)
    column_BG = column_BG.clamp_(max=shelf.num_columns - 1)
    score_BG = shelf.score_at(query_B1D.expand(-1, GROUP_COLUMNS, -1), column_BG)
    return score_BG.masked_fill_(is_closed_BG, -torch.inf)


def _pick(log_weight_BG: Tensor, uniform_B: Tensor, greedy: bool) -> tuple[Tensor, Tensor]:
    """An entry per row, and what is left of the uniform number inside it."""
    if greedy:
        return log_weight_BG.argmax(dim=1), uniform_B
    return invert_cumulative(log_weight_BG.double().softmax(dim=1), uniform_B)


def invert_cumulative(weight_BG: Tensor, uniform_B: Tensor) -> tuple[Tensor, Tensor]:
    """The first entry whose cumulative weight exceeds the uniform share, and the share inside the entry.

    The target stays below the total, and the sum grows only at entries of positive weight: no other is ever chosen.
    """
    cumulative_BG = weight_BG.cumsum(dim=1)
    total_B = cumulative_BG[:, -1]
    target_B = torch.minimum(uniform_B * total_B, torch.nextafter(total_B, torch.zeros_like(total_B)))
    index_B1 = torch.searchsorted(cumulative_BG, target_B[:, None], right=True)
    weight_B = weight_BG.gather(1, index_B1)[:, 0]
    before_B = cumulative_BG.gather(1, index_B1)[:, 0] - weight_B
    return index_B1[:, 0], ((target_B - before_B) / weight_B).clamp_(0.0, 1.0)


def _uniform_column(shelf: Shelf, taken_BX: Tensor, uniform_B: Tensor) -> Tensor:
    """One of the columns that are neither padding nor taken, each as likely as any other."""
    num_open_B = shelf.num_columns - shelf.num_padding_B - taken_BX.shape[1]
    column_B = torch.minimum((uniform_B * num_open_B).long(), num_open_B - 1) + shelf.num_padding_B
    for taken_B in taken_BX.sort(dim=1).values.unbind(dim=1):  # in ascending order, step over each
        column_B = column_B + (column_B >= taken_B)
    return column_B

"""Choose items from their scores: by inverting the cumulative probabilities, greedily, or uniformly."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gfn4rec.nn.scoring import GROUP_COLUMNS, ItemMatrix, Taken, log_sum_exp, reduce_weights, score_blocks
from gfn4rec.schema import Sampling

_TINY = 1e-300  # keeps a division by 0 from being one, where its result is not used


class Choice(NamedTuple):
    """The column chosen for each request, with two log-probabilities of it."""

    column_B: Tensor
    log_prob_B: Tensor  # at temperature 1 and epsilon 0
    sampling_log_prob_B: Tensor  # under the sampling that chose it


def choose(query_BD: Tensor, matrix: ItemMatrix, taken_BX: Tensor, uniform_B: Tensor, sampling: Sampling) -> Choice:
    """Choose a column for each request. `sampling` is resolved: it has no greediness.

    `uniform_B` has one number of [0, 1) per request, in double precision: it alone decides which column is drawn.
    """
    query_B1D, taken = query_BD[:, None], Taken.by_all(taken_BX)
    temperature, greedy, epsilon = sampling.temperature, sampling.greedy, sampling.epsilon
    best_B = None if greedy is False else _best_column(query_B1D, matrix, taken)
    log_sum_B = None
    if greedy is True:
        assert best_B is not None
        column_B = best_B
    else:
        chooser_B = ((uniform_B - epsilon) / max(1 - epsilon, _TINY)).clamp_(min=0.0)
        column_B, log_sum_B = _sample_column(query_B1D, matrix, taken_BX, chooser_B, _as_column(temperature))
        if best_B is not None:
            column_B = torch.where(torch.as_tensor(greedy), best_B, column_B)
    if epsilon > 0:
        explorer_B = _uniform_column(matrix, taken_BX, (uniform_B / epsilon).clamp_(max=1.0))
        column_B = torch.where(uniform_B < epsilon, explorer_B, column_B)
    score_B = matrix.score_at(query_B1D, column_B[:, None])[:, 0]
    if log_sum_B is None or isinstance(temperature, Tensor) or temperature != 1:
        log_prob_B = score_B - log_sum_exp(query_B1D, matrix, taken)[:, 0]
    else:
        log_prob_B = score_B - log_sum_B
    drawn_B = None if log_sum_B is None else score_B / temperature - log_sum_B
    is_best_B = None if best_B is None else column_B == best_B
    num_open_B = _num_open(matrix, taken_BX)
    return Choice(column_B, log_prob_B, _sampling_log_prob(drawn_B, is_best_B, num_open_B, sampling))


def _sampling_log_prob(
    drawn_B: Tensor | None, is_best_B: Tensor | None, num_open_B: Tensor, sampling: Sampling
) -> Tensor:
    """Return the log-probability of a choice: of the softmax or of the greedy choice, mixed with the uniform one."""
    greedy_B = None if is_best_B is None else torch.where(is_best_B, 0.0, -torch.inf)
    if drawn_B is None:
        assert greedy_B is not None
        log_prob_B = greedy_B
    elif greedy_B is None:
        log_prob_B = drawn_B
    else:
        log_prob_B = torch.where(torch.as_tensor(sampling.greedy), greedy_B, drawn_B)
    if sampling.epsilon > 0:
        log_uniform_B = (sampling.epsilon / num_open_B).log()
        log_prob_B = torch.logaddexp(log_prob_B + math.log(max(1 - sampling.epsilon, _TINY)), log_uniform_B)
    return log_prob_B


def _as_column(temperature: float | Tensor) -> float | Tensor:
    return temperature[:, None] if isinstance(temperature, Tensor) else temperature


def top_columns(query_BD: Tensor, matrix: ItemMatrix, taken_BX: Tensor, count: int) -> Tensor:
    """The columns of highest score, best first; if there are fewer than `count`, some that may not be chosen follow."""
    values, columns = [], []
    for start, score_B1c in score_blocks(query_BD[:, None], matrix, Taken.by_all(taken_BX)):
        best = score_B1c[:, 0].topk(min(count, score_B1c.shape[2]), dim=1)
        values.append(best.values)
        columns.append(best.indices + start)
    order_BC = torch.cat(values, dim=1).topk(count, dim=1).indices
    return torch.cat(columns, dim=1).gather(1, order_BC)


def _best_column(query_B1D: Tensor, matrix: ItemMatrix, taken: Taken) -> Tensor:
    values, columns = [], []
    for start, score_B1c in score_blocks(query_B1D, matrix, taken):
        best = score_B1c[:, 0].max(dim=1)
        values.append(best.values)
        columns.append(best.indices + start)
    best_B1 = torch.stack(values, dim=1).argmax(dim=1, keepdim=True)
    column_B: Tensor = torch.stack(columns, dim=1).gather(1, best_B1)[:, 0]
    return column_B


def _sample_column(
    query_B1D: Tensor, matrix: ItemMatrix, taken_BX: Tensor, uniform_B: Tensor, temperature: float | Tensor
) -> tuple[Tensor, Tensor]:
    """A column of the softmax of scores / temperature, found in two levels, groups of columns and the columns of one
    group; and the log-sum-exp of scores / temperature.
    """
    weight_B1c: Tensor = query_B1D  # the block that was written last

    def group_sums(block_B1c: Tensor) -> Tensor:
        nonlocal weight_B1c
        missing = -block_B1c.shape[2] % GROUP_COLUMNS
        weight_B1c = F.pad(block_B1c, (0, missing)) if missing else block_B1c
        sum_B1G: Tensor = weight_B1c.unflatten(2, (-1, GROUP_COLUMNS)).sum(dim=3)
        return sum_B1G

    sum_B1G, shift_B1 = reduce_weights(query_B1D, matrix, Taken.by_all(taken_BX), group_sums, temperature)
    group_B, uniform_B = invert_cumulative(sum_B1G[:, 0].double(), uniform_B)
    if weight_B1c.shape[2] >= matrix.num_columns:  # it is the whole list and need not be recomputed
        weight_BG = (
            weight_B1c[:, 0].unflatten(1, (-1, GROUP_COLUMNS)).take_along_dim(group_B[:, None, None], dim=1)[:, 0]
        )
    else:
        weight_BG = (_group_scores(query_B1D, matrix, taken_BX, group_B) / temperature).double().softmax(dim=1)
    place_B, _ = invert_cumulative(weight_BG.double(), uniform_B)
    log_sum_B = (sum_B1G.sum(dim=2).log() + shift_B1 / temperature)[:, 0]
    return (group_B * GROUP_COLUMNS + place_B).clamp_(max=matrix.num_columns - 1), log_sum_B


def _group_scores(query_B1D: Tensor, matrix: ItemMatrix, taken_BX: Tensor, group_B: Tensor) -> Tensor:
    """The scores of the columns of one group per request."""
    column_BG = group_B[:, None] * GROUP_COLUMNS + torch.arange(GROUP_COLUMNS, device=group_B.device)
    is_closed_BG = (column_BG < matrix.num_padding_B[:, None]) | (column_BG >= matrix.num_columns)
    is_closed_BG |= (column_BG[:, :, None] == taken_BX[:, None, :]).any(dim=2)
    column_BG = column_BG.clamp_(max=matrix.num_columns - 1)
    if matrix.is_closed_BN is not None:
        is_closed_BG |= matrix.is_closed_BN.gather(1, column_BG)
    score_BG = matrix.score_at(query_B1D.expand(-1, GROUP_COLUMNS, -1), column_BG)
    return score_BG.masked_fill_(is_closed_BG, -torch.inf)


def invert_cumulative(weight_BG: Tensor, uniform_B: Tensor) -> tuple[Tensor, Tensor]:
    """The first entry whose cumulative weight exceeds the uniform share, and the share inside the entry.

    The target stays below the total, and the sum grows only at entries of positive weight: no other is ever chosen.
    """
    cumulative_BG = weight_BG.cumsum(dim=1)
    total_B = cumulative_BG[:, -1]
    target_B = torch.minimum(uniform_B * total_B, torch.nextafter(total_B, torch.zeros_like(total_B)))
    index_B1 = torch.searchsorted(cumulative_BG, target_B[:, None], right=True)
    index_B1.clamp_(max=weight_BG.shape[1] - 1)  # only weights that are not numbers need it
    weight_B = weight_BG.gather(1, index_B1)[:, 0]
    before_B = cumulative_BG.gather(1, index_B1)[:, 0] - weight_B
    return index_B1[:, 0], ((target_B - before_B) / weight_B).clamp_(0.0, 1.0)


def _uniform_column(matrix: ItemMatrix, taken_BX: Tensor, uniform_B: Tensor) -> Tensor:
    """One of the columns that are neither padding nor closed nor taken, each as likely as any other."""
    num_open_B = _num_open(matrix, taken_BX)
    place_B = torch.minimum((uniform_B * num_open_B).long(), num_open_B - 1)
    if matrix.is_closed_BN is not None:
        num_up_to_BN = (~matrix.is_closed_BN.scatter(1, taken_BX, True)).cumsum(dim=1)
        return torch.searchsorted(num_up_to_BN, place_B[:, None] + 1)[:, 0]
    column_B = place_B + matrix.num_padding_B
    for taken_B in taken_BX.sort(dim=1).values.unbind(dim=1):  # in ascending order, step over each
        column_B = column_B + (column_B >= taken_B)
    return column_B


def _num_open(matrix: ItemMatrix, taken_BX: Tensor) -> Tensor:
    """Return how many columns are neither padding nor closed nor taken, (1,) or (B,)."""
    if matrix.is_closed_BN is not None:
        return (~matrix.is_closed_BN).sum(dim=1) - taken_BX.shape[1]
    return matrix.num_columns - matrix.num_padding_B - taken_BX.shape[1]

"""Exact scores of large catalogues: dot products of queries and item vectors, in blocks that are not kept.

Base scores, which all queries of a request share, are kept: requests times items.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

GROUP_COLUMNS = 256  # the width of a block is a multiple of it, so that sampling can work on groups of columns
BLOCK_SCORES = 2**20  # scores in a block: about the size of a processor's cache
_LOG2_E = math.log2(math.e)
_LARGE_FACTOR = 100.0  # from here on, dividing by the temperature would magnify the rounding of scores
_SMALLEST_SUM = 1e-30  # a smaller sum of exponentials shows that the shift was too large for their precision


@dataclass(frozen=True)
class ItemMatrix:
    """The vectors of the items that requests choose from: the whole catalogue, or a list of candidates per request.

    A column is a position in the list of candidates, which is padded on the left like a history. In the whole catalogue
    it is the number of the item.
    """

    vector_ND: Tensor
    num_padding_B: Tensor  # padding columns of each request; (1,) if all requests choose from the catalogue
    row_BC: Tensor | None = None  # the row of `vector_ND` at each column; None: the whole catalogue
    dtype: torch.dtype | None = None  # precision of the products if not the vectors' own, which sums always have
    block_scores: int = BLOCK_SCORES
    is_closed_BN: Tensor | None = None  # columns of the whole catalogue that a request may not choose, with padding
    base_BC: Tensor | None = None  # added to the products of all queries of a request; has no gradient

    @property
    def num_columns(self) -> int:
        """The columns of each request, padding included."""
        return len(self.vector_ND) if self.row_BC is None else self.row_BC.shape[1]

    def scores(
        self, query_BTD: Tensor, start: int, stop: int, buffer: Tensor, shift_BT: Tensor | None = None
    ) -> Tensor:
        """Write the scores of some columns minus a shift into the buffer, (B, T, stop - start).

        Padding and closed columns have -inf.
        """
        num_requests, num_queries, _ = query_BTD.shape
        score_BTc = buffer[: num_requests * num_queries * (stop - start)].view(num_requests, num_queries, -1)
        if self.row_BC is None:
            shift = None if shift_BT is None else shift_BT.view(-1, 1)
            result = score_BTc.view(-1, stop - start)
            self._product(query_BTD.flatten(0, 1), self.vector_ND[start:stop].T, shift, result)
        else:
            shift = None if shift_BT is None else shift_BT[:, :, None]
            self._product(query_BTD, self.vector_ND[self.row_BC[:, start:stop]].mT, shift, score_BTc)
        if self.base_BC is not None:
            score_BTc += self.base_BC[:, None, start:stop]
        if self.is_closed_BN is not None:
            return score_BTc.masked_fill_(self.is_closed_BN[:, None, start:stop], -torch.inf)
        most_padding = int(self.num_padding_B.max())
        if start < most_padding:
            column_c = torch.arange(start, min(stop, most_padding), device=query_BTD.device)
            is_padding_Bc = column_c < self.num_padding_B[:, None]
            score_BTc[:, :, : len(column_c)].masked_fill_(is_padding_Bc[:, None], -torch.inf)
        return score_BTc

    def score_at(self, query_BTD: Tensor, column_BT: Tensor) -> Tensor:
        """Return the score of one column per query, (B, T)."""
        row_BT = column_BT if self.row_BC is None else self.row_BC.gather(1, column_BT)
        score_BT = self._dot(query_BTD, F.embedding(row_BT, self.vector_ND))
        return score_BT if self.base_BC is None else score_BT + self.base_BC.gather(1, column_BT)

    def _dot(self, query_BTD: Tensor, vector_BTD: Tensor) -> Tensor:
        return self._round((self._round(query_BTD) * self._round(vector_BTD)).sum(dim=2))

    def _round(self, values: Tensor) -> Tensor:
        return values if self.dtype is None else values.to(self.dtype).to(values.dtype)

    def _product(self, left: Tensor, right: Tensor, shift: Tensor | None, result: Tensor) -> None:
        if self.dtype is not None:
            assert shift is None, "a shift cannot be part of a rounded product"
            if left.device.type == "cpu":
                # Native products in this precision can crash in virtual machines that forbid the instructions for them.
                result.copy_(self._round(self._round(left) @ self._round(right)))
            else:
                result.copy_(left.to(self.dtype) @ right.to(self.dtype))
        elif shift is None:
            torch.matmul(left, right, out=result)
        else:
            add_product = torch.addmm if left.ndim == 2 else torch.baddbmm
            add_product(-shift, left, right, out=result)


@dataclass(frozen=True)
class Taken:
    """Columns that queries may no longer choose: pairs of a query (its number among B * T) and a column, by column."""

    query_P: Tensor
    column_P: Tensor

    @classmethod
    def by_all(cls, column_BX: Tensor) -> "Taken":
        """Close the given columns to the one query of each request."""
        row_BX = torch.arange(len(column_BX), device=column_BX.device)[:, None].expand_as(column_BX)
        return cls._sorted(row_BX.flatten(), column_BX.flatten())

    @classmethod
    def by_earlier_steps(cls, column_BK: Tensor) -> "Taken":
        """Close the columns of earlier steps to the query of each step."""
        num_requests, size = column_BK.shape
        step_X, earlier_X = torch.tril_indices(size, size, offset=-1, device=column_BK.device)
        first_B1 = size * torch.arange(num_requests, device=column_BK.device)[:, None]
        return cls._sorted((first_B1 + step_X).flatten(), column_BK[:, earlier_X].flatten())

    @classmethod
    def _sorted(cls, query_P: Tensor, column_P: Tensor) -> "Taken":
        column_P, order = column_P.sort()
        return cls(query_P[order], column_P)


def score_blocks(
    query_BTD: Tensor, matrix: ItemMatrix, taken: Taken | None, shift_BT: Tensor | None = None
) -> Iterator[tuple[int, Tensor]]:
    """Yield the first column and the scores minus a shift of each block; padding and taken columns have -inf.

    Each block overwrites the one before it: new memory would cost more time than the product.
    """
    num_columns, width = matrix.num_columns, _block_width(query_BTD, matrix)
    starts = list(range(0, num_columns, width))
    if taken is not None and not len(taken.column_P):
        taken = None
    if taken is not None:
        edges = torch.searchsorted(
            taken.column_P, torch.tensor([*starts, num_columns], device=query_BTD.device)
        ).tolist()
    buffer = query_BTD.new_empty(query_BTD.shape[0] * query_BTD.shape[1] * min(width, num_columns))
    for number, start in enumerate(starts):
        score_BTc = matrix.scores(query_BTD, start, min(start + width, num_columns), buffer, shift_BT)
        if taken is not None and edges[number] < edges[number + 1]:
            inside = slice(edges[number], edges[number + 1])
            score_BTc.flatten(0, 1)[taken.query_P[inside], taken.column_P[inside] - start] = -torch.inf
        yield start, score_BTc


def all_scores(query_BD: Tensor, matrix: ItemMatrix) -> Tensor:
    """Return the scores of all columns, (B, C); padding and closed columns have -inf."""
    return torch.cat([score_B1c[:, 0].clone() for _, score_B1c in score_blocks(query_BD[:, None], matrix, None)], dim=1)


def weight_blocks(
    query_BTD: Tensor, matrix: ItemMatrix, taken: Taken | None, shift_BT: Tensor, temperature: float | Tensor = 1.0
) -> Iterator[tuple[int, Tensor]]:
    """Yield the first column and exp((score - shift) / temperature) of each block, as `score_blocks` does.

    The temperature is a number, or a tensor (B, 1).
    """
    # exp2 takes half the time of exp.
    factor_BT = _LOG2_E / torch.as_tensor(temperature, dtype=query_BTD.dtype, device=query_BTD.device).expand_as(
        shift_BT
    )
    # The factor goes into the query, except where that would change rounded products, or where a tiny temperature would
    # magnify the rounding of scores: there the shift is subtracted first.
    if matrix.dtype is None and bool((factor_BT < _LARGE_FACTOR).all()):
        if matrix.base_BC is not None:  # the temperature is the same for all queries of a request
            matrix = replace(matrix, base_BC=factor_BT[:, :1] * matrix.base_BC)
        for start, score_BTc in score_blocks(factor_BT[:, :, None] * query_BTD, matrix, taken, factor_BT * shift_BT):
            yield start, score_BTc.exp2_()
        return
    for start, score_BTc in score_blocks(query_BTD, matrix, taken):
        yield start, score_BTc.sub_(shift_BT[:, :, None]).mul_(factor_BT[:, :, None]).exp2_()


def reduce_weights(
    query_BTD: Tensor,
    matrix: ItemMatrix,
    taken: Taken | None,
    reduce: Callable[[Tensor], Tensor],
    temperature: float | Tensor = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return sums of exp((score - shift) / temperature) over parts of each block, (B, T, parts), and the shift, (B, T).

    The shift is the largest score of a few columns. If other scores are so far from it that a sum overflows or
    underflows, all sums are computed again with the largest score of all columns.
    """

    def sums(shift_BT: Tensor) -> Tensor:
        blocks = weight_blocks(query_BTD, matrix, taken, shift_BT, temperature)
        return torch.cat([reduce(weight_BTc) for _, weight_BTc in blocks], dim=2)

    first = max(0, matrix.num_columns - GROUP_COLUMNS)  # the last columns, because padding is on the left
    buffer = query_BTD.new_empty(query_BTD.shape[0] * query_BTD.shape[1] * (matrix.num_columns - first))
    shift_BT = _finite(matrix.scores(query_BTD, first, matrix.num_columns, buffer).amax(dim=2))
    sum_BTg = sums(shift_BT)
    total_BT = sum_BTg.sum(dim=2)
    if not ((total_BT > _SMALLEST_SUM) & (total_BT < torch.inf)).all():
        shift_BT = torch.full_like(shift_BT, -torch.inf)
        for _, score_BTc in score_blocks(query_BTD, matrix, taken):
            shift_BT = torch.maximum(shift_BT, score_BTc.amax(dim=2))
        shift_BT = _finite(shift_BT)
        sum_BTg = sums(shift_BT)
    return sum_BTg, shift_BT


def log_sum_exp(query_BTD: Tensor, matrix: ItemMatrix, taken: Taken | None) -> Tensor:
    """Return log sum exp of the scores of each query, (B, T)."""
    sum_BTg, shift_BT = reduce_weights(query_BTD, matrix, taken, lambda weight_BTc: weight_BTc.sum(dim=2, keepdim=True))
    return sum_BTg.sum(dim=2).log_().add_(shift_BT)


def _finite(shift_BT: Tensor) -> Tensor:
    """Replace -inf by 0: a query that may choose no column has no largest score."""
    return shift_BT.nan_to_num(neginf=0.0)


def _block_width(query_BTD: Tensor, matrix: ItemMatrix) -> int:
    per_column = query_BTD.shape[0] * query_BTD.shape[1]
    if matrix.row_BC is not None:  # each request also gathers its vectors
        per_column += query_BTD.shape[0] * query_BTD.shape[2]
    return max(1, matrix.block_scores // (per_column * GROUP_COLUMNS)) * GROUP_COLUMNS


def step_log_probs(query_BKD: Tensor, matrix: ItemMatrix, column_BK: Tensor, distinct: bool = True) -> Tensor:
    """Return the log-probability of each step's column: a softmax over all columns that no earlier step has chosen.

    With `distinct` false the softmax is over all columns at every step.
    """
    taken = Taken.by_earlier_steps(column_BK) if distinct else None
    return matrix.score_at(query_BKD, column_BK) - _differentiable_log_sum(query_BKD, matrix, taken)


def pointwise_log_probs(query_BD: Tensor, matrix: ItemMatrix, column_BK: Tensor) -> Tensor:
    """Return what `step_log_probs` does if the query is the same at every step, in the time of one step, (B, K).

    The items outside the slate are summed once. Those of later steps are added to the sum, never subtracted from it, so
    that the result is exact however likely the items of earlier steps are.
    """
    query_B1D, taken = query_BD[:, None], Taken.by_all(column_BK)
    rest_B1 = _differentiable_log_sum(query_B1D, matrix, taken)
    score_BK = matrix.score_at(query_B1D.expand(-1, column_BK.shape[1], -1), column_BK)
    left_BK = score_BK.flip(1).logcumsumexp(dim=1).flip(1)
    return score_BK - torch.logaddexp(left_BK, rest_B1)


def _differentiable_log_sum(query_BTD: Tensor, matrix: ItemMatrix, taken: Taken | None) -> Tensor:
    log_sum_BT: Tensor = _LogSumExp.apply(query_BTD, matrix.vector_ND, matrix, taken)  # type: ignore[no-untyped-call]
    return log_sum_BT


class _LogSumExp(torch.autograd.Function):
    """log sum exp of the scores of each query; the backward pass recomputes the scores instead of storing them."""

    @staticmethod
    def forward(ctx: Any, query_BTD: Tensor, vector_ND: Tensor, matrix: ItemMatrix, taken: Taken | None) -> Tensor:
        log_sum_BT = log_sum_exp(query_BTD, matrix, taken)
        ctx.save_for_backward(query_BTD, vector_ND, log_sum_BT)
        ctx.matrix, ctx.taken = matrix, taken
        return log_sum_BT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BT: Tensor) -> tuple[Tensor, Tensor, None, None]:
        query_BTD, vector_ND, log_sum_BT = ctx.saved_tensors
        matrix = cast(ItemMatrix, ctx.matrix)
        scaled_BTD = query_BTD * gradient_BT[:, :, None]
        # Contiguous, so that flattening them below makes views.
        query_gradient_BTD, vector_gradient_ND = (
            torch.zeros_like(tensor, memory_format=torch.contiguous_format) for tensor in (query_BTD, vector_ND)
        )
        for start, prob_BTc in weight_blocks(query_BTD, matrix, ctx.taken, log_sum_BT):
            stop = start + prob_BTc.shape[2]
            if matrix.row_BC is None:
                flat = prob_BTc.flatten(0, 1)
                query_gradient_BTD.flatten(0, 1).addmm_(flat, vector_ND[start:stop])
                torch.mm(flat.T, scaled_BTD.flatten(0, 1), out=vector_gradient_ND[start:stop])
            else:
                row_Bc = matrix.row_BC[:, start:stop]
                query_gradient_BTD += prob_BTc @ vector_ND[row_Bc]
                own_BcD = prob_BTc.mT @ scaled_BTD
                vector_gradient_ND.index_add_(0, row_Bc.flatten(), own_BcD.flatten(0, 1))
        return query_gradient_BTD.mul_(gradient_BT[:, :, None]), vector_gradient_ND, None, None

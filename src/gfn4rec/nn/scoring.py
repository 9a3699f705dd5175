"""Scores of big catalogues: products of queries and item vectors, some columns at a time, exact, never stored whole."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

GROUP_COLUMNS = 256  # blocks are cut at multiples of it, so that sampling can look at groups of columns
BLOCK_SCORES = 2**20  # scores held at once: about the size of a processor's cache
_LOG2_E = math.log2(math.e)
_LARGE_FACTOR = 100.0  # of scores, by a temperature
_SMALLEST_SUM = 1e-30  # of exponentials; a smaller one shows that the shift was too high for their precision


@dataclass(frozen=True)
class Shelf:
    """The vectors that requests choose among: one list for all of them, or a list of its own for each request.

    A list is padded on the left, like a history. A column is a place in a list; in the list of all items it is the id.
    """

    vector_ND: Tensor
    num_padding_B: Tensor  # (1,) if all requests share the list
    row_BC: Tensor | None = None  # rows of `vector_ND`, one list per request; None: all rows, shared
    dtype: torch.dtype | None = None  # of the products, if not the vectors' own; sums are always in the vectors' own
    block_scores: int = BLOCK_SCORES

    @property
    def num_columns(self) -> int:
        return len(self.vector_ND) if self.row_BC is None else self.row_BC.shape[1]

    def scores(
        self, query_BTD: Tensor, start: int, stop: int, buffer: Tensor, shift_BT: Tensor | None = None
    ) -> Tensor:
        """The scores of some columns, less a shift, (B, T, stop - start), written into the buffer; padding has -inf."""
        num_requests, num_queries, _ = query_BTD.shape
        score_BTc = buffer[: num_requests * num_queries * (stop - start)].view(num_requests, num_queries, -1)
        if self.row_BC is None:
            shift = None if shift_BT is None else shift_BT.view(-1, 1)
            result = score_BTc.view(-1, stop - start)
            self._product(query_BTD.flatten(0, 1), self.vector_ND[start:stop].T, shift, result)
        else:
            shift = None if shift_BT is None else shift_BT[:, :, None]
            self._product(query_BTD, self.vector_ND[self.row_BC[:, start:stop]].mT, shift, score_BTc)
        most_padding = int(self.num_padding_B.max())
        if start < most_padding:
            column_c = torch.arange(start, min(stop, most_padding), device=query_BTD.device)
            is_padding_Bc = column_c < self.num_padding_B[:, None]
            score_BTc[:, :, : len(column_c)].masked_fill_(is_padding_Bc[:, None], -torch.inf)
        return score_BTc

    def score_at(self, query_BTD: Tensor, column_BT: Tensor) -> Tensor:
        """The score of one column per query."""
        vector_BTD = F.embedding(column_BT if self.row_BC is None else self.row_BC.gather(1, column_BT), self.vector_ND)
        score_BT = (self._round(query_BTD) * self._round(vector_BTD)).sum(dim=2)
        return self._round(score_BT)

    def _round(self, values: Tensor) -> Tensor:
        return values if self.dtype is None else values.to(self.dtype).to(values.dtype)

    def _product(self, left: Tensor, right: Tensor, shift: Tensor | None, result: Tensor) -> None:
        if self.dtype is not None:
            assert shift is None, "a rounded product cannot take a shift in"
            if left.device.type == "cpu":
                # Some processors have instructions for it that a virtual machine forbids: they would end the program.
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
    """Columns that a query may not choose any more: pairs of a query's number among B * T and a column, by column."""

    query_P: Tensor
    column_P: Tensor

    @classmethod
    def by_all(cls, column_BX: Tensor) -> "Taken":
        """Each request has one query, which may choose none of these columns."""
        row_BX = torch.arange(len(column_BX), device=column_BX.device)[:, None].expand_as(column_BX)
        return cls._sorted(row_BX.flatten(), column_BX.flatten())

    @classmethod
    def by_earlier_steps(cls, column_BK: Tensor) -> "Taken":
        """Each request has a query per step, which may choose none of the columns of the steps before it."""
        num_requests, size = column_BK.shape
        step_X, earlier_X = torch.tril_indices(size, size, offset=-1, device=column_BK.device)
        first_B1 = size * torch.arange(num_requests, device=column_BK.device)[:, None]
        return cls._sorted((first_B1 + step_X).flatten(), column_BK[:, earlier_X].flatten())

    @classmethod
    def _sorted(cls, query_P: Tensor, column_P: Tensor) -> "Taken":
        column_P, order = column_P.sort()
        return cls(query_P[order], column_P)


def score_blocks(
    query_BTD: Tensor, shelf: Shelf, taken: Taken | None, shift_BT: Tensor | None = None
) -> Iterator[tuple[int, Tensor]]:
    """The first column and the scores, less a shift, of each block of columns; padding and taken columns have -inf.

    All blocks are written to the same place, one after the other: fresh memory would cost more than the product.
    """
    num_columns, width = shelf.num_columns, _block_width(query_BTD, shelf)
    starts = list(range(0, num_columns, width))
    if taken is not None and not len(taken.column_P):
        taken = None
    if taken is not None:
        edges = torch.searchsorted(
            taken.column_P, torch.tensor([*starts, num_columns], device=query_BTD.device)
        ).tolist()
    buffer = query_BTD.new_empty(query_BTD.shape[0] * query_BTD.shape[1] * min(width, num_columns))
    for number, start in enumerate(starts):
        score_BTc = shelf.scores(query_BTD, start, min(start + width, num_columns), buffer, shift_BT)
        if taken is not None and edges[number] < edges[number + 1]:
            inside = slice(edges[number], edges[number + 1])
            score_BTc.flatten(0, 1)[taken.query_P[inside], taken.column_P[inside] - start] = -torch.inf
        yield start, score_BTc


def weight_blocks(
    query_BTD: Tensor, shelf: Shelf, taken: Taken | None, shift_BT: Tensor, temperature: float | Tensor = 1.0
) -> Iterator[tuple[int, Tensor]]:
    """The first column and exp((score - shift) / temperature) of each block, written as `score_blocks` writes them.

    The temperature is a number, or (B, 1).
    """
    # Powers of 2 take half the time of powers of e.
    factor_BT = _LOG2_E / torch.as_tensor(temperature, dtype=query_BTD.dtype, device=query_BTD.device).expand_as(
        shift_BT
    )
    # Rounded products are those of the query itself. Where a temperature is tiny, the rounding of scores would grow by
    # the factor, so they are subtracted first.
    if shelf.dtype is None and bool((factor_BT < _LARGE_FACTOR).all()):
        for start, score_BTc in score_blocks(factor_BT[:, :, None] * query_BTD, shelf, taken, factor_BT * shift_BT):
            yield start, score_BTc.exp2_()
        return
    for start, score_BTc in score_blocks(query_BTD, shelf, taken):
        yield start, score_BTc.sub_(shift_BT[:, :, None]).mul_(factor_BT[:, :, None]).exp2_()


def reduce_weights(
    query_BTD: Tensor,
    shelf: Shelf,
    taken: Taken | None,
    reduce: Callable[[Tensor], Tensor],
    temperature: float | Tensor = 1.0,
) -> tuple[Tensor, Tensor]:
    """Sums of exp((score - shift) / temperature) over parts of each block, (B, T, parts), and the shift, (B, T).

    The shift is the largest score of a few columns. Where others are so far above it or below it that the sums leave
    the range of the numbers, all is done again with the largest score of all.
    """

    def sums(shift_BT: Tensor) -> Tensor:
        blocks = weight_blocks(query_BTD, shelf, taken, shift_BT, temperature)
        return torch.cat([reduce(weight_BTc) for _, weight_BTc in blocks], dim=2)

    first = max(0, shelf.num_columns - GROUP_COLUMNS)  # the last columns, because padding comes first
    buffer = query_BTD.new_empty(query_BTD.shape[0] * query_BTD.shape[1] * (shelf.num_columns - first))
    shift_BT = _finite(shelf.scores(query_BTD, first, shelf.num_columns, buffer).amax(dim=2))
    sum_BTg = sums(shift_BT)
    total_BT = sum_BTg.sum(dim=2)
    if not ((total_BT > _SMALLEST_SUM) & (total_BT < torch.inf)).all():
        shift_BT = torch.full_like(shift_BT, -torch.inf)
        for _, score_BTc in score_blocks(query_BTD, shelf, taken):
            shift_BT = torch.maximum(shift_BT, score_BTc.amax(dim=2))
        shift_BT = _finite(shift_BT)
        sum_BTg = sums(shift_BT)
    return sum_BTg, shift_BT


def log_sum_exp(query_BTD: Tensor, shelf: Shelf, taken: Taken | None) -> Tensor:
    """log sum exp of the scores of each query, (B, T)."""
    sum_BTg, shift_BT = reduce_weights(query_BTD, shelf, taken, lambda weight_BTc: weight_BTc.sum(dim=2, keepdim=True))
    return sum_BTg.sum(dim=2).log_().add_(shift_BT)


def _finite(shift_BT: Tensor) -> Tensor:
    """A query to which all columns are closed has no largest score."""
    return shift_BT.nan_to_num(neginf=0.0)


def _block_width(query_BTD: Tensor, shelf: Shelf) -> int:
    per_column = query_BTD.shape[0] * query_BTD.shape[1]
    if shelf.row_BC is not None:  # the vectors of each request are gathered, too
        per_column += query_BTD.shape[0] * query_BTD.shape[2]
    return max(1, shelf.block_scores // (per_column * GROUP_COLUMNS)) * GROUP_COLUMNS


def step_log_probs(query_BKD: Tensor, shelf: Shelf, column_BK: Tensor, distinct: bool = True) -> Tensor:
    """The log-probability of each step's column: a softmax over the list without the columns of the steps before it.

    With `distinct` false the softmax is over the whole list at every step.
    """
    taken = Taken.by_earlier_steps(column_BK) if distinct else None
    log_sum_BK: Tensor = _LogSumExp.apply(query_BKD, shelf.vector_ND, shelf, taken)  # type: ignore[no-untyped-call]
    return shelf.score_at(query_BKD, column_BK) - log_sum_BK


class _LogSumExp(torch.autograd.Function):
    """log sum exp of the scores of each query. The backward pass computes the scores anew instead of storing them."""

    @staticmethod
    def forward(ctx: Any, query_BTD: Tensor, vector_ND: Tensor, shelf: Shelf, taken: Taken | None) -> Tensor:
        log_sum_BT = log_sum_exp(query_BTD, shelf, taken)
        ctx.save_for_backward(query_BTD, vector_ND, log_sum_BT)
        ctx.shelf, ctx.taken = shelf, taken
        return log_sum_BT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BT: Tensor) -> tuple[Tensor, Tensor, None, None]:
        query_BTD, vector_ND, log_sum_BT = ctx.saved_tensors
        scaled_BTD = query_BTD * gradient_BT[:, :, None]
        shelf = cast(Shelf, ctx.shelf)
        # Contiguous, so that the flattened views below are views.
        query_gradient_BTD, vector_gradient_ND = (
            torch.zeros_like(each, memory_format=torch.contiguous_format) for each in (query_BTD, vector_ND)
        )
        for start, prob_BTc in weight_blocks(query_BTD, shelf, ctx.taken, log_sum_BT):
            stop = start + prob_BTc.shape[2]
            if shelf.row_BC is None:
                flat = prob_BTc.flatten(0, 1)
                query_gradient_BTD.flatten(0, 1).addmm_(flat, vector_ND[start:stop])
                torch.mm(flat.T, scaled_BTD.flatten(0, 1), out=vector_gradient_ND[start:stop])
            else:
                row_Bc = shelf.row_BC[:, start:stop]
                query_gradient_BTD += prob_BTc @ vector_ND[row_Bc]
                own_BcD = prob_BTc.mT @ scaled_BTD
                vector_gradient_ND.index_add_(0, row_Bc.flatten(), own_BcD.flatten(0, 1))
        return query_gradient_BTD.mul_(gradient_BT[:, :, None]), vector_gradient_ND, None, None

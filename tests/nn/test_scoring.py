"""Blocks of scores give what whole matrices give: values and gradients."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gfn4rec.nn.scoring import (
    GROUP_COLUMNS,
    ItemMatrix,
    pointwise_log_probs,
    step_log_probs,
    weight_blocks,
)

B, K, D = 3, 4, 5


def make_shelf(num_rows: int, own_lists: bool, block_scores: int, dtype: torch.dtype = torch.float64) -> ItemMatrix:
    generator = torch.Generator().manual_seed(0)
    vector_ND = torch.randn(num_rows, D, generator=generator, dtype=dtype)
    if not own_lists:
        return ItemMatrix(vector_ND, torch.ones(1, dtype=torch.int64), block_scores=block_scores)
    row_BC = torch.stack([torch.randperm(num_rows, generator=generator)[: num_rows // 2] for _ in range(B)])
    return ItemMatrix(vector_ND, torch.tensor([0, 2, 5]), row_BC, block_scores=block_scores)


def make_closed(num_rows: int, block_scores: int) -> ItemMatrix:
    """Every third column is closed to the first request, every fourth to the second, and so on; COLUMNS are open."""
    matrix = make_shelf(num_rows, False, block_scores)
    column_BN = torch.arange(num_rows).expand(B, -1)
    is_closed_BN = (column_BN % torch.arange(3, 3 + B)[:, None] == 0).scatter(1, COLUMNS, False)
    return ItemMatrix(matrix.vector_ND, matrix.num_padding_B, block_scores=block_scores, is_closed_BN=is_closed_BN)


def make_queries(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(B, K, D, generator=torch.Generator().manual_seed(1), dtype=dtype)


def plain_log_probs(query_BKD: Tensor, matrix: ItemMatrix, column_BK: Tensor, distinct: bool = True) -> Tensor:
    """The whole matrix, row by row, as one would write it down."""
    rows = []
    for b in range(B):
        vector_CD = matrix.vector_ND if matrix.row_BC is None else matrix.vector_ND[matrix.row_BC[b]]
        num_padding = int(matrix.num_padding_B[b if len(matrix.num_padding_B) > 1 else 0])
        for k in range(K):
            closed = set(range(num_padding)) | (set(column_BK[b, :k].tolist()) if distinct else set())
            closed |= set() if matrix.is_closed_BN is None else set(matrix.is_closed_BN[b].nonzero()[:, 0].tolist())
            open_columns = [c for c in range(len(vector_CD)) if c not in closed]
            score = vector_CD[open_columns] @ query_BKD[b, k]
            rows.append(score.log_softmax(dim=0)[open_columns.index(int(column_BK[b, k]))])
    return torch.stack(rows).view(B, K)


COLUMNS = torch.tensor([[7, 300, 8, 255], [256, 6, 9, 10], [299, 5, 511, 20]])


@pytest.mark.parametrize("items", ["all", "lists", "closed"])
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("block_scores", [1, 2**30])
def test_log_probs_and_gradients_equal_the_plain_softmax(items: str, distinct: bool, block_scores: int) -> None:
    matrix = make_closed(1100, block_scores) if items == "closed" else make_shelf(1100, items == "lists", block_scores)
    query_BKD = make_queries().requires_grad_()
    matrix.vector_ND.requires_grad_()
    weight_BK = torch.rand(B, K, dtype=torch.float64)

    ours_BK = step_log_probs(query_BKD, matrix, COLUMNS, distinct)
    ours = torch.autograd.grad((ours_BK * weight_BK).sum(), [query_BKD, matrix.vector_ND])
    plain_BK = plain_log_probs(query_BKD, matrix, COLUMNS, distinct)
    plain = torch.autograd.grad((plain_BK * weight_BK).sum(), [query_BKD, matrix.vector_ND])

    torch.testing.assert_close(ours_BK, plain_BK, atol=1e-10, rtol=0)
    for our_gradient, plain_gradient in zip(ours, plain, strict=True):
        torch.testing.assert_close(our_gradient, plain_gradient, atol=1e-10, rtol=0)


@pytest.mark.parametrize("own_lists", [False, True])
def test_chunked_and_unchunked_agree_in_single_precision(own_lists: bool) -> None:
    results = []
    for block_scores in (1, 2**30):
        matrix = make_shelf(1100, own_lists, block_scores, torch.float32)
        query_BKD = make_queries(torch.float32).requires_grad_()
        matrix.vector_ND.requires_grad_()
        log_prob_BK = step_log_probs(query_BKD, matrix, COLUMNS)
        gradients = torch.autograd.grad(log_prob_BK.sum(), [query_BKD, matrix.vector_ND])
        results.append((log_prob_BK, *gradients))
    for chunked, whole in zip(*results, strict=True):
        torch.testing.assert_close(chunked, whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("own_lists", [False, True])
def test_gradcheck(own_lists: bool) -> None:
    matrix = make_shelf(2 * GROUP_COLUMNS + 20, own_lists, block_scores=1)
    column_BK = torch.tensor([[7, 200, 8, 12], [20, 6, 9, 10], [255, 5, 11, 20]])

    def log_probs(query_BKD: Tensor, vector_ND: Tensor) -> Tensor:
        return step_log_probs(
            query_BKD, ItemMatrix(vector_ND, matrix.num_padding_B, matrix.row_BC, block_scores=1), column_BK
        )

    assert torch.autograd.gradcheck(
        log_probs, (make_queries().requires_grad_(), matrix.vector_ND.requires_grad_()), fast_mode=True
    )


def test_a_query_in_any_memory_layout_has_its_gradient() -> None:
    matrix = make_shelf(600, own_lists=False, block_scores=1)
    base = make_queries().transpose(0, 1).contiguous()
    results = []
    for query_KBD in (base, base.transpose(0, 1).contiguous().transpose(0, 1)):
        leaf = query_KBD.clone(memory_format=torch.preserve_format).requires_grad_()
        (gradient,) = torch.autograd.grad(step_log_probs(leaf.transpose(0, 1), matrix, COLUMNS).sum(), [leaf])
        results.append(gradient)
    torch.testing.assert_close(*results)
    assert float(results[0].abs().sum()) > 1


def test_a_block_of_nothing_but_padding_is_harmless() -> None:
    vector_ND = torch.randn(600, D, requires_grad=True)
    row_BC = torch.arange(600).expand(B, -1)
    matrix = ItemMatrix(vector_ND, torch.full((B,), 300), row_BC, block_scores=1)
    column_BK = torch.tensor([[300, 310, 400, 599]] * B)
    log_prob_BK = step_log_probs(make_queries(torch.float32), matrix, column_BK)
    (gradient,) = torch.autograd.grad(log_prob_BK.sum(), [vector_ND])
    assert torch.isfinite(log_prob_BK).all()
    assert torch.isfinite(gradient).all()
    assert float(gradient[:300].abs().max()) == 0


def test_bfloat16_rounds_a_single_score_like_a_block_of_them() -> None:
    generator = torch.Generator().manual_seed(2)
    matrix = ItemMatrix(torch.randn(50, 32, generator=generator), torch.tensor([0]), dtype=torch.bfloat16)
    query_BTD = torch.randn(3, 1, 32, generator=generator)
    block_BTc = matrix.scores(query_BTD, 0, 50, torch.empty(150))
    single = [matrix.score_at(query_BTD, torch.full((3, 1), column)) for column in range(50)]
    torch.testing.assert_close(torch.cat(single, dim=1), block_BTc[:, 0], atol=0, rtol=2**-7)
    assert torch.equal(torch.cat(single, dim=1).bfloat16().float(), torch.cat(single, dim=1))


def test_scores_far_apart_give_finite_values_and_gradients() -> None:
    matrix = make_shelf(600, own_lists=False, block_scores=1, dtype=torch.float32)
    query_BKD = (1e4 * make_queries(torch.float32)).requires_grad_()
    log_prob_BK = step_log_probs(query_BKD, matrix, COLUMNS)
    (gradient,) = torch.autograd.grad(log_prob_BK.sum(), [query_BKD])
    assert torch.isfinite(log_prob_BK).all()
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("own_lists", [False, True])
@pytest.mark.parametrize("column", [3, 590])
@pytest.mark.parametrize("size", [-1e4, -100.0, 33.0, 100.0, 1e4])
def test_one_score_far_from_the_others_costs_no_precision(own_lists: bool, column: int, size: float) -> None:
    """Wherever it stands, and whether it may still be chosen or not."""
    vector_ND = torch.randn(600, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    vector_ND[column] = size
    query_BKD = make_queries().abs()
    column_BK = torch.tensor([[column, 40, 50, 60], [40, column, 50, 60], [40, 50, 60, 70]])
    row_BC = torch.arange(600).expand(B, -1) if own_lists else None
    double = ItemMatrix(vector_ND, torch.ones(1, dtype=torch.int64), row_BC, block_scores=1)
    single = ItemMatrix(vector_ND.float(), torch.ones(1, dtype=torch.int64), row_BC, block_scores=1)
    expected_BK = plain_log_probs(query_BKD, double, column_BK)
    torch.testing.assert_close(step_log_probs(query_BKD, double, column_BK), expected_BK)
    ours_BK = step_log_probs(query_BKD.float(), single, column_BK)
    torch.testing.assert_close(ours_BK.double(), expected_BK, atol=1e-6 * abs(size), rtol=1e-6)


def test_blocks_hold_no_more_than_the_budget() -> None:
    """The largest tensor of a pass over a shared list is a block, not the whole matrix."""
    sizes = []

    class Watched(ItemMatrix):
        def scores(
            self, query_BTD: Tensor, start: int, stop: int, buffer: Tensor, shift_BT: Tensor | None = None
        ) -> Tensor:
            sizes.append((stop - start) * B * K)
            return super().scores(query_BTD, start, stop, buffer, shift_BT)

    vector_ND = torch.randn(5000, D)
    matrix = Watched(vector_ND, torch.ones(1, dtype=torch.int64), block_scores=2 * GROUP_COLUMNS * B * K)
    step_log_probs(make_queries(torch.float32), matrix, COLUMNS)
    assert max(sizes) == 2 * GROUP_COLUMNS * B * K
    assert sum(sizes) == (GROUP_COLUMNS + 5000) * B * K  # a few columns show what shift the others need
    sizes.clear()
    lists = Watched(
        vector_ND, torch.zeros(B), torch.arange(2000).expand(B, -1), block_scores=GROUP_COLUMNS * B * (K + D)
    )
    step_log_probs(make_queries(torch.float32), lists, COLUMNS)
    assert max(sizes) == GROUP_COLUMNS * B * K  # as much again is left for the gathered vectors


def test_bfloat16_moves_log_probabilities_by_little() -> None:
    """Products of 8 bits: an error of one part in 256 of the score, on both sides of the difference."""
    generator = torch.Generator().manual_seed(2)
    vector_ND = torch.nn.functional.layer_norm(torch.randn(1000, 32, generator=generator), (32,))
    query_BKD = torch.nn.functional.layer_norm(torch.randn(B, K, 32, generator=generator), (32,))
    padding = torch.ones(1, dtype=torch.int64)
    exact_BK = step_log_probs(query_BKD, ItemMatrix(vector_ND, padding), COLUMNS)
    rough_BK = step_log_probs(query_BKD, ItemMatrix(vector_ND, padding, dtype=torch.bfloat16), COLUMNS)
    most = float((exact_BK - rough_BK).abs().max())
    assert 1e-5 < most < 0.1


@pytest.mark.parametrize("own_lists", [False, True])
def test_pointwise_log_probs_are_those_of_the_same_query_at_every_step(own_lists: bool) -> None:
    matrix = make_shelf(1100, own_lists, 2**30)
    query_BD = make_queries()[:, 0].requires_grad_()
    matrix.vector_ND.requires_grad_()
    plain_BK = plain_log_probs(query_BD[:, None].expand(-1, K, -1), matrix, COLUMNS)
    ours_BK = pointwise_log_probs(query_BD, matrix, COLUMNS)
    torch.testing.assert_close(ours_BK, plain_BK, atol=1e-10, rtol=0)
    ours = torch.autograd.grad(ours_BK.sum(), [query_BD, matrix.vector_ND])
    for ours_, plain in zip(ours, torch.autograd.grad(plain_BK.sum(), [query_BD, matrix.vector_ND]), strict=True):
        torch.testing.assert_close(ours_, plain, atol=1e-10, rtol=0)


def test_pointwise_log_probs_after_an_item_that_has_nearly_all_probability() -> None:
    score_N = torch.tensor([0.0, 60.0, 1.0, 0.0, 0.0])
    matrix = ItemMatrix(score_N[:, None], torch.ones(1, dtype=torch.int64))
    log_prob_BK = pointwise_log_probs(torch.ones(1, 1), matrix, torch.tensor([[1, 2, 3]]))
    e = torch.tensor(1.0).exp()
    torch.testing.assert_close(
        log_prob_BK[0], torch.stack([torch.tensor(0.0), (e / (e + 2)).log(), torch.tensor(0.5).log()])
    )


def with_base(matrix: ItemMatrix, query_BKD: Tensor) -> ItemMatrix:
    """The same scores for queries without their first two numbers, which are alike at all steps of a request."""
    vector_BCD = matrix.vector_ND.expand(B, -1, -1) if matrix.row_BC is None else matrix.vector_ND[matrix.row_BC]
    base_BC = (vector_BCD[:, :, :2] @ query_BKD[:, 0, :2, None])[:, :, 0].detach()
    return replace(matrix, vector_ND=matrix.vector_ND[:, 2:], base_BC=base_BC)


@pytest.mark.parametrize("items", ["all", "lists", "closed"])
@pytest.mark.parametrize("block_scores", [1, 2**30])
def test_base_scores_are_added_to_the_products_of_all_queries(items: str, block_scores: int) -> None:
    matrix = make_closed(1100, block_scores) if items == "closed" else make_shelf(1100, items == "lists", block_scores)
    vector_ND, query_BKD = matrix.vector_ND.requires_grad_(), make_queries()
    query_BKD[:, :, :2] = query_BKD[:, :1, :2]
    query_BKD.requires_grad_()
    weight_BK = torch.rand(B, K, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    split = with_base(matrix, query_BKD)
    whole_BK, split_BK = (
        step_log_probs(query, part, COLUMNS) for query, part in ((query_BKD, matrix), (query_BKD[:, :, 2:], split))
    )
    torch.testing.assert_close(split_BK, whole_BK, atol=1e-10, rtol=0)
    torch.testing.assert_close(
        split.score_at(query_BKD[:, :, 2:], COLUMNS), matrix.score_at(query_BKD, COLUMNS), atol=1e-10, rtol=0
    )
    whole, learned = (
        torch.autograd.grad((log_prob_BK * weight_BK).sum(), [query_BKD, vector_ND])
        for log_prob_BK in (whole_BK, split_BK)
    )
    for ours, plain in zip(learned, whole, strict=True):
        torch.testing.assert_close(ours[..., 2:], plain[..., 2:], atol=1e-10, rtol=0)
        assert not ours[..., :2].any()


@pytest.mark.parametrize("temperature", [0.7, 1e-4])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_base_scores_have_the_temperature_of_the_others(temperature: float, dtype: torch.dtype | None) -> None:
    matrix, query_BKD = replace(make_shelf(1100, False, 1), dtype=dtype), make_queries()
    query_BKD[:, :, :2] = query_BKD[:, :1, :2]
    split = with_base(matrix, query_BKD)
    shift_BK = matrix.score_at(query_BKD, COLUMNS)
    both = (
        torch.cat([block.clone() for _, block in weight_blocks(query, part, None, shift_BK, temperature)], dim=2)
        for query, part in ((query_BKD, matrix), (query_BKD[:, :, 2:], split))
    )
    whole_BKN, split_BKN = (weight_BKN.log2() * temperature for weight_BKN in both)
    is_usual_BKN = whole_BKN.isfinite() & split_BKN.isfinite() & (whole_BKN != 0)
    assert float(is_usual_BKN.double().mean()) > (0.9 if temperature > 0.01 else 0.0)
    rounding = 1e-8 if dtype is None else 0.2
    torch.testing.assert_close(split_BKN[is_usual_BKN], whole_BKN[is_usual_BKN], atol=rounding, rtol=0)

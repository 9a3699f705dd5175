"""One uniform number means one column; a closed column is never chosen."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gfn4rec.nn.sampling import choose, invert_cumulative, top_columns
from gfn4rec.nn.scoring import GROUP_COLUMNS, ItemMatrix
from gfn4rec.schema import Sampling

JUST_BELOW_1 = 1 - 2**-53


def test_the_inverse_of_a_sum_written_down() -> None:
    weight_BG = torch.tensor([[0.0, 1.0, 0.0, 3.0, 0.0]], dtype=torch.float64)
    expected = {0.0: (1, 0.0), 0.125: (1, 0.5), 0.25: (3, 0.0), 0.625: (3, 0.5), JUST_BELOW_1: (3, 1.0)}
    for uniform, (index, rest) in expected.items():
        drawn_B, rest_B = invert_cumulative(weight_BG, torch.tensor([uniform], dtype=torch.float64))
        assert int(drawn_B) == index
        assert float(rest_B) == pytest.approx(rest)


def test_a_share_of_exactly_one_is_the_last_entry_with_weight() -> None:
    weight_BG = torch.tensor([[0.1, 0.7, 0.2, 0.0]], dtype=torch.float64)
    index_B, rest_B = invert_cumulative(weight_BG, torch.ones(1, dtype=torch.float64))
    assert int(index_B) == 2
    assert 0 <= float(rest_B) <= 1


def test_shares_at_the_edges_of_entries_stay_inside_them() -> None:
    weight_BG = torch.rand(500, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(dim=1)
    for edge in range(9):
        uniform_B = weight_BG.cumsum(dim=1)[:, edge].clamp(max=JUST_BELOW_1)
        _, rest_B = invert_cumulative(weight_BG, uniform_B)
        assert float(rest_B.min()) >= 0
        assert float(rest_B.max()) <= 1


def test_greedy_takes_the_best_column_not_the_heaviest_group() -> None:
    score_N = torch.full((2 * GROUP_COLUMNS, 1), 0.9)
    score_N[:GROUP_COLUMNS] = -5.0
    score_N[7] = 1.0
    matrix = ItemMatrix(score_N, torch.tensor([1]))
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    column_B, *_ = choose(torch.ones(1, 1), matrix, nothing, torch.zeros(1, dtype=torch.float64), Sampling(greedy=True))
    assert int(column_B) == 7


@given(
    weights=st.lists(st.sampled_from([0.0, 1e-300, 1e-12, 0.3, 1.0, 7.0]), min_size=1, max_size=30).filter(
        lambda weights: sum(weights) > 0
    ),
    uniform=st.one_of(st.sampled_from([0.0, JUST_BELOW_1]), st.floats(0, JUST_BELOW_1)),
)
def test_an_entry_without_weight_is_never_chosen(weights: list[float], uniform: float) -> None:
    index_B, rest_B = invert_cumulative(
        torch.tensor([weights], dtype=torch.float64), torch.tensor([uniform], dtype=torch.float64)
    )
    assert weights[int(index_B)] > 0
    assert 0 <= float(rest_B) <= 1


def ramp(num_columns: int, num_padding: int = 1) -> ItemMatrix:
    """Scores that grow with the column: the closed columns are the likeliest at either end."""
    vector_ND = torch.linspace(-2, 2, num_columns)[:, None]
    return ItemMatrix(vector_ND, torch.tensor([num_padding]))


@pytest.mark.parametrize("uniform", [0.0, 0.3, JUST_BELOW_1])
@pytest.mark.parametrize("slope", [-30.0, 0.0, 30.0])
@pytest.mark.parametrize("num_columns", [10, GROUP_COLUMNS, GROUP_COLUMNS + 1, 1000])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_padding_and_taken_columns_are_never_chosen(
    uniform: float, slope: float, num_columns: int, epsilon: float
) -> None:
    matrix, taken_BX = ramp(num_columns, 2), torch.tensor([[2, num_columns - 1, num_columns - 2]])
    uniform_B = torch.tensor([uniform], dtype=torch.float64)
    for greedy in (False, True):
        sampling = Sampling(greedy=greedy, epsilon=epsilon)
        column_B, log_prob_B, _ = choose(torch.tensor([[slope]]), matrix, taken_BX, uniform_B, sampling)
        assert 3 <= int(column_B) <= num_columns - 3
        assert torch.isfinite(log_prob_B).all()


@pytest.mark.parametrize("block_scores", [1, 2**20])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_closed_columns_are_never_chosen_and_open_ones_are(epsilon: float, block_scores: int) -> None:
    """With equal scores, a grid of uniform numbers chooses the open columns equally often, in ascending order."""
    open_columns, taken = [3, 255, 256, 700], [4, 699]
    is_closed_BN = torch.ones(1, 701, dtype=torch.bool)
    is_closed_BN[0, [*open_columns, *taken]] = False
    uniform_B = (torch.arange(40, dtype=torch.float64) + 0.5) / 40
    matrix = ItemMatrix(
        torch.zeros(701, 1), torch.tensor([1]), block_scores=block_scores, is_closed_BN=is_closed_BN.expand(40, -1)
    )
    choice = choose(torch.ones(40, 1), matrix, torch.tensor([taken] * 40), uniform_B, Sampling(epsilon=epsilon))
    assert choice.column_B.tolist() == [column for column in open_columns for _ in range(10)]
    assert choice.sampling_log_prob_B.exp().tolist() == pytest.approx([0.25] * 40)


def test_greedy_looks_at_all_blocks() -> None:
    score_N = torch.zeros(3 * GROUP_COLUMNS, 1)
    score_N[2 * GROUP_COLUMNS + 9] = 1.0
    matrix = ItemMatrix(score_N, torch.tensor([1]), block_scores=1)
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    column_B, *_ = choose(torch.ones(1, 1), matrix, nothing, torch.zeros(1, dtype=torch.float64), Sampling(greedy=True))
    assert int(column_B) == 2 * GROUP_COLUMNS + 9


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_requests_have_temperatures_of_their_own(dtype: torch.dtype | None) -> None:
    """Scores 0 and 2: the second is drawn with probability 1 / (1 + exp(-2 / T))."""
    count = 10_000
    matrix = ItemMatrix(torch.tensor([[0.0], [0.0], [2.0]]), torch.tensor([1]), dtype=dtype)
    uniform_B = ((torch.arange(count, dtype=torch.float64) + 0.5) / count).repeat(2)
    temperature_B = torch.tensor([0.5, 4.0]).repeat_interleave(count)
    nothing = torch.zeros(2 * count, 0, dtype=torch.int64)
    column_B, log_prob_B, _ = choose(
        torch.ones(2 * count, 1), matrix, nothing, uniform_B, Sampling(temperature=temperature_B)
    )
    share_2 = (column_B == 2).view(2, count).double().mean(dim=1)
    torch.testing.assert_close(share_2, torch.tensor([4.0, 0.5], dtype=torch.float64).sigmoid(), atol=2e-4, rtol=0)
    torch.testing.assert_close(log_prob_B.exp(), torch.tensor([-2.0, 2.0]).sigmoid()[column_B - 1])


@pytest.mark.parametrize("size", [1.0, 100.0])  # scores a few apart, and hundreds apart
def test_a_grid_of_uniform_numbers_gives_the_softmax(size: float) -> None:
    num_columns, count = 600, 200_000
    matrix = ItemMatrix(
        size * torch.randn(num_columns, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([1])
    )
    query_D = torch.randn(4, generator=torch.Generator().manual_seed(1))
    taken = [5, 300]
    uniform_B = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    for temperature in (1.0, 0.5):
        column_B, log_prob_B, _ = choose(
            query_D.expand(count, -1),
            matrix,
            torch.tensor(taken).expand(count, -1),
            uniform_B,
            Sampling(temperature=temperature),
        )
        score_N = matrix.vector_ND @ query_D
        score_N[[0, *taken]] = -torch.inf
        share_N = torch.bincount(column_B, minlength=num_columns) / count
        torch.testing.assert_close(share_N, (score_N / temperature).softmax(dim=0), atol=2 / count, rtol=1e-4)
        # Reported at temperature 1, whatever sampled.
        torch.testing.assert_close(log_prob_B, score_N.log_softmax(dim=0)[column_B], atol=1e-5 * size, rtol=1e-5)


def test_exploration_is_uniform_over_what_is_left_and_as_frequent_as_epsilon_says() -> None:
    count, num_columns = 100_000, 12
    matrix = ItemMatrix(
        torch.linspace(0, 50, num_columns)[:, None], torch.tensor([2])
    )  # the last column has all weight
    taken_BX = torch.tensor([[7, 3]]).expand(count, -1)
    uniform_B = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    column_B, *_ = choose(torch.ones(count, 1), matrix, taken_BX, uniform_B, Sampling(epsilon=0.4))
    share = torch.bincount(column_B, minlength=num_columns) / count
    left = [2, 4, 5, 6, 8, 9, 10, 11]
    expected = torch.zeros(num_columns)
    expected[left] = 0.4 / len(left)
    last_weights = torch.linspace(0, 50, num_columns)[left].softmax(dim=0)
    expected[left] += 0.6 * last_weights
    torch.testing.assert_close(share, expected, atol=1e-4, rtol=0)


def test_the_same_number_means_the_same_column_whoever_else_asks() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = ItemMatrix(torch.randn(700, 4, generator=generator), torch.tensor([1]))
    query_BD = torch.randn(9, 4, generator=generator)
    uniform_B = torch.rand(9, generator=generator, dtype=torch.float64)
    taken_BX = torch.randint(1, 700, (9, 1), generator=generator)
    together, *_ = choose(query_BD, matrix, taken_BX, uniform_B, Sampling())
    alone = [
        choose(query_BD[i : i + 1], matrix, taken_BX[i : i + 1], uniform_B[i : i + 1], Sampling())[0] for i in range(9)
    ]
    assert together.tolist() == torch.cat(alone).tolist()


@pytest.mark.parametrize("block_scores", [1, 2**30])
def test_top_columns_are_the_best_in_order(block_scores: int) -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = ItemMatrix(torch.randn(900, 4, generator=generator), torch.tensor([1]), block_scores=block_scores)
    query_BD = torch.randn(5, 4, generator=generator)
    taken_BX = (query_BD @ matrix.vector_ND.T).topk(2, dim=1).indices
    score_BN = query_BD @ matrix.vector_ND.T
    score_BN[:, 0] = -torch.inf
    score_BN.scatter_(1, taken_BX, -torch.inf)
    assert top_columns(query_BD, matrix, taken_BX, 20).tolist() == score_BN.topk(20, dim=1).indices.tolist()

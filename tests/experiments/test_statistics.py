import math

import pytest

from gfn4rec.experiments.report.statistics import mean, paired_p, standard_deviation


def test_mean_and_deviation_of_a_sample() -> None:
    assert mean([2, 4, 4, 4, 5, 5, 7, 9]) == 5
    assert standard_deviation([2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx(math.sqrt(32 / 7))
    assert standard_deviation([3.0]) is None


def test_paired_p_is_that_of_students_distribution() -> None:
    # The differences 1 to 5 have t = sqrt(18); with 4 degrees of freedom the distribution has a closed form.
    t_squared = 18.0
    x = t_squared / (1 + t_squared / 4)
    within = 3 / 4 * math.sqrt(x) * (1 - x / 12)
    assert paired_p([11, 12, 13, 14, 15], [10, 10, 10, 10, 10]) == pytest.approx(1 - within)
    assert 1 - within == pytest.approx(0.01324, abs=1e-5)


def test_paired_p_pairs_the_seeds() -> None:
    seeds = [1.0, 5.0, 2.0, 8.0, 3.0]
    a_bit_more = [value + gain for value, gain in zip(seeds, (0.1, 0.12, 0.09, 0.11, 0.1), strict=True)]
    p = paired_p(a_bit_more, seeds)
    mixed = paired_p(a_bit_more[::-1], seeds)
    assert p is not None
    assert p < 0.001
    assert mixed is not None
    assert mixed > 0.5


def test_four_pairs_say_nothing() -> None:
    assert paired_p([2, 3, 4, 6], [1, 1, 1, 1]) is None


@pytest.mark.parametrize("shift", [0.0, 0.1, 1e6])
def test_differences_that_do_not_vary_have_no_p(shift: float) -> None:
    values = [0.1, 0.2, 0.3, 0.4, 0.7]
    assert paired_p([value + shift for value in values], values) is None


def test_unpaired_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_p([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6])

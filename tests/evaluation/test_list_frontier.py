"""The frontier of the list oracle, under effects that the pointwise oracle does not see."""

import math

import pytest

from gfn4rec.cli.metrics import print_oracle
from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation.frontier import FrontierPoint, measure_frontier
from gfn4rec.evaluation.list_frontier import ListPoint, measure_list_frontier
from gfn4rec.evaluation.oracle import oracle_reward
from gfn4rec.evaluation.plots import plot_frontier
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.list_oracle import sample_lists
from tests.simulator.conftest import FixedUsers

TEMPERATURES = (0.2, 0.1, 0.05)


@pytest.fixture(scope="module")
def points(data: SlateData) -> tuple[list[FrontierPoint], list[FrontierPoint]]:
    """Of the pointwise oracle and of the list oracle, for users who are tired of a category at once."""
    config = EnvironmentConfig(num_users=32, rho=0.3, slate_size=4, saturation=0.8, cascade=0.5)
    env = UserEnvironment(data, FixedUsers(data), config)
    # The pointwise oracle needs higher temperatures for the same coverage.
    return measure_frontier(env, (3.0, 1.0, 0.5, 0.3, 0.1), 2, 1), measure_list_frontier(env, TEMPERATURES, 2, 1)


def test_the_list_oracle_is_above_the_others_at_equal_coverage(
    points: tuple[list[FrontierPoint], list[FrontierPoint]],
) -> None:
    pointwise, lists = points
    *oracle, best = lists
    assert [point.sampler for point in lists] == ["list", "list", "list", "best found"]
    assert [point.label for point in lists[2:]] == ["list oracle", "best slates found"]
    assert [point.temperature for point in oracle] == [0.2, 0.1, 0.05]
    rewards = [point.reward for point in lists]
    assert rewards == sorted(rewards)
    assert best.reward >= max(point.reward for point in pointwise) - 1e-6
    covered = [point for point in oracle if oracle_reward(pointwise, point.coverage) is not None]
    assert len(covered) >= 2
    for point in covered:
        assert point.reward > 1.05 * (oracle_reward(pointwise, point.coverage) or math.inf)


def test_gaps_are_those_of_the_batches(data: SlateData) -> None:
    """beta is the size of a slate over the temperature, and the errors of batches add up as those of a mean."""
    env = UserEnvironment(data, FixedUsers(data), EnvironmentConfig(num_users=16, rho=0.3, slate_size=4))
    (point, _) = measure_list_frontier(env, (0.25,), 2, 3)
    assert isinstance(point, ListPoint)
    request, generator = env.reset(3), torch_generator(3, "frontier/list/0.25", "cpu")
    samples = []
    for _ in range(2):
        samples.append(sample_lists(env, request, 16.0, generator))
        request = env.step(samples[-1].slate_BK).next_request
    assert point.reward_gap == pytest.approx(sum(each.reward_gap for each in samples) / 2)
    assert point.gap_error == pytest.approx(sum(each.gap_error**2 for each in samples) ** 0.5 / 2)
    assert point.as_dict()["gap_error"] == point.gap_error


def test_whether_chains_agree_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    values = ("list", 0.1, 2.0, 0.0, 10.0, 0.5, 0.5, 0.0)
    near, far = ListPoint(*values, reward_gap=-0.0029, gap_error=0.001), ListPoint(*values, 0.0031, 0.001)
    assert near.has_converged
    assert not far.has_converged
    assert not ListPoint(*values, -0.0031, 0.001).has_converged
    assert ListPoint(*values, 0.0, math.nan).as_dict()["gap_error"] is None
    print_oracle("Sampler", [near])
    assert "-0.0029 ± 0.0010 at 0.1" in " ".join(capsys.readouterr().out.split())
    print_oracle("Sampler", [far])
    assert "list oracle: not converged at 0.1; its rewards there are no bound" in capsys.readouterr().out


def test_both_oracles_are_drawn(points: tuple[list[FrontierPoint], list[FrontierPoint]]) -> None:
    pointwise, lists = points
    assert plot_frontier(pointwise + lists).startswith(b"\x89PNG")
    assert plot_frontier(pointwise + lists) != plot_frontier(pointwise)

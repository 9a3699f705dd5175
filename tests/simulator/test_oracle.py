"""The oracle, on a catalogue small enough to try every slate."""

import itertools

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation.frontier import measure_frontier
from gfn4rec.evaluation.plots import plot_frontier
from gfn4rec.evaluation.slates import ShownSlates, coverage, ild, ild_reference
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.oracle import boltzmann_slates, greedy_slates, random_slates, true_item_rewards
from tests.simulator.conftest import CautiousUsers, FixedUsers

CONFIG = EnvironmentConfig(num_users=2, rho=0.3, slate_size=2)


def expected_reward(env: UserEnvironment, slate: tuple[int, ...]) -> float:
    outlook = env.outlook(env.request, torch.tensor([slate, slate]))
    return float((outlook.probabilities()[0] @ env.data.weight_R).mean())


@pytest.mark.parametrize("includes_self", [False, True])
def test_greedy_picks_the_best_first_item_and_then_the_best_companion(
    data: SlateData, users: FixedUsers, includes_self: bool
) -> None:
    users.influence_includes_self = includes_self  # type: ignore[attr-defined]
    env = UserEnvironment(data, users, CONFIG)
    slate = greedy_slates(env, env.request, num_candidates=data.num_items)[0].tolist()
    items = range(1, data.num_items + 1)
    vector = users.item_embedding_ND
    own = {i: float(users.base_NR[i] @ data.weight_R) for i in items}
    if includes_self:
        weights = data.weight_R.sum()
        own = {i: own[i] - float(0.3 * (vector[i] @ vector[i]) / 2 * weights) for i in items}
    assert slate[0] == max(items, key=lambda i: own[i])
    companions = [i for i in items if i != slate[0]]
    assert slate[1] == max(companions, key=lambda i: expected_reward(env, (slate[0], i)))


@pytest.mark.parametrize(("includes_self", "is_cautious"), [(False, False), (True, False), (False, True)])
def test_greedy_follows_its_rule_written_out(
    data: SlateData, users: FixedUsers, cautious_users: CautiousUsers, includes_self: bool, is_cautious: bool
) -> None:
    """Item by item, similarities to the items chosen so far divided as for the whole slate."""
    users = cautious_users if is_cautious else users
    trust_N = cautious_users.trust_N if is_cautious else torch.ones(data.num_items + 1)
    users.influence_includes_self = includes_self  # type: ignore[attr-defined]
    size, rho = 4, 0.6
    env = UserEnvironment(data, users, EnvironmentConfig(num_users=1, rho=rho, slate_size=size))
    divisor = size if includes_self else size - 1
    similarity = (users.item_embedding_ND @ users.item_embedding_ND.T).double()

    def partial_reward(chosen: list[int]) -> float:
        total = 0.0
        for item in chosen:
            others = [other for other in chosen if includes_self or other != item]
            influence = sum(float(similarity[item, other]) for other in others) / divisor
            total += float((users.base_NR[item] - rho * influence).clamp(0, 1) @ data.weight_R * trust_N[item])
        return total

    chosen: list[int] = []
    for _ in range(size):
        rest = [item for item in range(1, data.num_items + 1) if item not in chosen]
        chosen.append(max(rest, key=lambda item: partial_reward([*chosen, item])))
    assert greedy_slates(env, env.request, num_candidates=data.num_items)[0].tolist() == chosen


def test_greedy_avoids_what_is_too_similar(data: SlateData, users: FixedUsers) -> None:
    """The two best items are the same in all but name: with strong influence the second is passed over."""
    best, second = data.num_items, data.num_items - 1
    users.item_embedding_ND[second] = users.item_embedding_ND[best]
    for rho, wanted in ((0.0, True), (0.5, False)):
        env = UserEnvironment(data, users, CONFIG.model_copy(update={"rho": rho}))
        assert (second in greedy_slates(env, env.request)[0].tolist()) == wanted


def test_oracles_see_what_is_believed(data: SlateData, cautious_users: CautiousUsers) -> None:
    env = UserEnvironment(data, cautious_users, CONFIG)
    reward_BN = true_item_rewards(env, cautious_users.encode(env.request))
    share_N = torch.arange(data.num_items + 1) / data.num_items
    expected_N = share_N**3 * data.weight_R.sum()
    torch.testing.assert_close(reward_BN[1, 1:], expected_N[1:], atol=1e-6, rtol=0)


def test_boltzmann_draws_without_replacement_from_its_softmax(data: SlateData, users: FixedUsers) -> None:
    env = UserEnvironment(data, users, EnvironmentConfig(num_users=20_000, slate_size=2))
    slate = boltzmann_slates(env, env.request, 0.5, torch.Generator().manual_seed(0))
    assert (slate[:, 0] != slate[:, 1]).all()
    assert int(slate.min()) >= 1
    reward = users.base_NR[1:] @ data.weight_R
    probability = torch.softmax(reward / 0.5, dim=0)
    first = torch.bincount(slate[:, 0], minlength=data.num_items + 1)[1:] / 20_000
    assert (first - probability).abs().max() < 5 * float((probability.max() / 20_000).sqrt())
    pairs = {
        (i, j): float(probability[i] * probability[j] / (1 - probability[i]))
        for i, j in itertools.islice(itertools.permutations(range(data.num_items), 2), 50)
    }
    for (i, j), p in pairs.items():
        count = int(((slate[:, 0] == i + 1) & (slate[:, 1] == j + 1)).sum())
        assert abs(count - 20_000 * p) < 6 * (20_000 * p) ** 0.5 + 1
    cold = boltzmann_slates(env, env.request, 1e-4, torch.Generator().manual_seed(0))
    assert cold[0].tolist() == [data.num_items, data.num_items - 1]


def test_random_slates_are_uniform_and_distinct(data: SlateData, users: FixedUsers) -> None:
    env = UserEnvironment(data, users, EnvironmentConfig(num_users=20_000, slate_size=3))
    slate = random_slates(env, env.request, torch.Generator().manual_seed(0))
    assert (slate.sort(dim=1).values.diff(dim=1) > 0).all()
    count = torch.bincount(slate.ravel(), minlength=data.num_items + 1)
    assert count[0] == 0
    expected = 60_000 / data.num_items
    assert (count[1:] - expected).abs().max() < 6 * expected**0.5


def test_diversity_by_hand(data: SlateData, users: FixedUsers) -> None:
    embedding = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 0.5], [0.6, 0.8]])
    slate = torch.tensor([[1, 2, 3], [1, 2, 3]])
    env = UserEnvironment(data, users, EnvironmentConfig(num_users=2, slate_size=3))
    shown = ShownSlates(slate, env.step(slate), embedding)
    assert coverage(shown) == 3
    # Cosines: 0, 0.6, 0.8. Products: 0, 1.2, 0.4, and 4, 0.25, 1 with themselves.
    assert ild(shown) == pytest.approx(1 - 2 * 1.4 / 6)
    assert ild_reference(shown) == pytest.approx(1 - (2 * 1.6 + 5.25) / 9)


def test_the_frontier_runs_from_random_to_greedy(data: SlateData, users: FixedUsers) -> None:
    env = UserEnvironment(data, users, EnvironmentConfig(num_users=16, rho=0.1, slate_size=3))
    points = measure_frontier(env, temperatures=(1.0, 0.1), num_batches=6, seed=2)
    assert [point.sampler for point in points] == ["random", "boltzmann", "boltzmann", "greedy, slate-aware"]
    rewards, covered = [point.reward for point in points], [point.coverage for point in points]
    assert rewards == sorted(rewards)
    assert covered == sorted(covered, reverse=True)
    assert measure_frontier(env, temperatures=(1.0, 0.1), num_batches=6, seed=2) == points
    assert plot_frontier(points).startswith(b"\x89PNG")

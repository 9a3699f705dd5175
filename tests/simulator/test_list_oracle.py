"""The list oracle and local search, on a catalogue of six items where every slate can be tried."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, SyntheticConfig, generate
from gfn4rec.simulator import list_oracle
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.list_oracle import best_slates, sample_lists, walk
from gfn4rec.simulator.local_search import built_slates, improved_slates
from gfn4rec.simulator.oracle import greedy_slates, random_slates
from gfn4rec.simulator.slate_values import SlateValues
from tests.simulator.by_hand import reward_by_hand
from tests.simulator.conftest import CautiousUsers, FixedUsers

STRONG = {"rho": 1.0, "saturation": 0.7, "complements": 1.0, "position_decay": 0.3, "cascade": 0.8}
EFFECTS = {"none": {"rho": 0.0}, "all": STRONG} | {name: {"rho": 0.0, name: value} for name, value in STRONG.items()}


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> SlateData:
    """Six items of three categories, in slates of three."""
    folder = tmp_path_factory.mktemp("six") / "data"
    log = SyntheticConfig(
        num_users=20, num_items=6, num_rows=1_200, slate_size=3, num_categories=3, behaviours=PRESETS["tiny"].behaviours
    )
    prepare(generate(log, seed=1)[1], PrepareConfig(core=1, slate_size=3), folder, "six")
    return SlateData.open(folder, history_length=4)


def small(six: SlateData, num_users: int, effects: dict[str, float], slate_size: int = 3) -> UserEnvironment:
    """Users who like items differently, one behaviour more than another, and trust them differently."""
    users = CautiousUsers(six)
    generator = torch.Generator().manual_seed(5)
    users.base_NR = torch.rand(users.base_NR.shape, generator=generator) * 0.8
    users.trust_N = 0.5 + 0.5 * torch.rand(users.trust_N.shape, generator=generator)
    values = {"num_users": num_users, "slate_size": slate_size, **effects}
    return UserEnvironment(six, users, EnvironmentConfig.parse(values, "users"))


def exact(env: UserEnvironment, beta: float) -> dict[tuple[int, ...], float]:
    """The probability of every ordered slate."""
    slates = list(itertools.permutations(range(1, 7), env.config.slate_size))
    weight = {slate: math.exp(beta * reward_by_hand(env, slate)) for slate in slates}
    total = math.fsum(weight.values())
    return {slate: value / total for slate, value in weight.items()}


def total_variation(slates: Tensor, wanted: dict[tuple[int, ...], float]) -> float:
    code = (slates.flatten(0, -2) * 7 ** torch.arange(slates.shape[-1])).sum(dim=1)
    count = torch.bincount(code, minlength=7 ** slates.shape[-1]) / len(code)
    drawn = {slate: float(count[sum(item * 7**place for place, item in enumerate(slate))]) for slate in wanted}
    assert sum(drawn.values()) == pytest.approx(1, abs=1e-5)  # no slate repeats an item
    return sum(abs(drawn[slate] - p) for slate, p in wanted.items()) / 2


def test_the_catalogue_has_what_effects_need(six: SlateData) -> None:
    """Some items share a category, some are complements, some neither; and the order of items moves rewards."""
    env = small(six, 1, STRONG)
    assert env.lists.categories is not None
    pairs = torch.tensor(list(itertools.combinations(range(1, 7), 2)))
    shares = env.lists.categories.num_earlier(pairs)[:, 1]
    joined = env.lists.categories.has_complement(pairs)[:, 1]
    assert 0 < int(shares.sum()) < len(pairs)
    assert 0 < int(joined.sum()) < len(pairs)


@pytest.mark.parametrize("effects", EFFECTS.values(), ids=EFFECTS.keys())
@pytest.mark.parametrize("slate_size", [2, 3])
def test_chains_sample_the_exact_distribution(six: SlateData, effects: dict[str, float], slate_size: int) -> None:
    env, generator = small(six, 1_500, effects, slate_size), torch.Generator().manual_seed(0)
    values, beta = SlateValues.of(env, env.request), 12.0
    wanted = exact(env, beta)
    uniform = 1 / len(wanted)
    assert sum(abs(p - uniform) for p in wanted.values()) / 2 > 0.1  # there is something to get wrong
    start_BMK = torch.stack([random_slates(env, env.request, generator) for _ in range(2)], dim=1)
    chain = walk(values, start_BMK, beta, generator, num_candidates=3)
    states = [slate_BMK for slate_BMK, _, _ in itertools.islice(chain, 150)]
    assert total_variation(torch.stack(states[30:]), wanted) < 0.02


def test_chains_know_their_rewards_and_what_they_changed(six: SlateData) -> None:
    env, generator = small(six, 50, STRONG), torch.Generator().manual_seed(0)
    values = SlateValues.of(env, env.request)
    before = torch.tensor([[[1, 2, 3], [6, 5, 4]]]).expand(50, -1, -1)
    num_changed = 0
    for after, reward_BM, has_changed_BM in itertools.islice(walk(values, before, 30.0, generator), 20):
        torch.testing.assert_close(reward_BM, values.rewards(after))
        has_other_items = (after.sort(dim=2).values != before.sort(dim=2).values).any(dim=2)
        assert torch.equal(has_changed_BM, has_other_items)
        before, num_changed = after, num_changed + int(has_changed_BM.sum())
    assert 0 < num_changed < 2_000


def test_the_best_slates_are_the_best_of_all(six: SlateData) -> None:
    for effects in EFFECTS.values():
        env = small(six, 4, effects)
        best = max(reward_by_hand(env, slate) for slate in itertools.permutations(range(1, 7), 3))
        found = best_slates(env, env.request, torch.Generator().manual_seed(0), num_sweeps=2)
        assert [reward_by_hand(env, slate) for slate in found.tolist()] == pytest.approx([best] * 4, abs=1e-5)


def test_the_best_slates_have_items_that_greedy_ones_cannot(
    data: SlateData, users: FixedUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 50 items of highest reward are copies of each other; the best slate has one of them, and three others."""
    monkeypatch.setattr(list_oracle, "NUM_GREEDY_CANDIDATES", 20)
    monkeypatch.setattr(list_oracle, "greedy_slates", partial(greedy_slates, num_candidates=20))
    users.base_NR[11:], users.base_NR[1:11] = 0.6, 0.5
    users.item_embedding_ND = torch.cat([torch.zeros(1, 11), torch.eye(11)[1:], torch.eye(11)[:1].expand(50, -1)])
    env = UserEnvironment(data, users, EnvironmentConfig(num_users=3, rho=1.0, slate_size=4))
    assert (greedy_slates(env, env.request, 20, is_improved=True) > 10).all()
    slate_BK = best_slates(env, env.request, torch.Generator().manual_seed(0))
    assert ((slate_BK > 10).sum(dim=1) == 1).all()


def test_samples_have_the_exact_mean_and_the_chains_agree(six: SlateData) -> None:
    env, beta = small(six, 4_000, STRONG), 12.0
    wanted = exact(env, beta)
    reward = {slate: reward_by_hand(env, slate) for slate in wanted}
    mean = sum(p * reward[slate] for slate, p in wanted.items())
    deviation = math.sqrt(sum(p * (reward[slate] - mean) ** 2 for slate, p in wanted.items()))
    samples = sample_lists(env, env.request, beta, torch.Generator().manual_seed(0))
    drawn = env.expected_rewards(env.request, samples.slate_BK)
    assert abs(float(drawn.mean()) - mean) < 4 * deviation / 4_000**0.5
    expected = sum(math.sqrt(2 * p * (1 - p) / (math.pi * 4_000)) for p in wanted.values()) / 2
    assert total_variation(samples.slate_BK, wanted) < 1.3 * expected  # that of so many independent draws
    assert samples.has_converged
    assert abs(samples.reward_gap) < 4 * samples.gap_error < 0.01
    assert 0.1 < samples.change_rate < 1
    again = sample_lists(env, env.request, beta, torch.Generator().manual_seed(0))
    assert torch.equal(again.slate_BK, samples.slate_BK)


def test_chains_that_are_too_short_are_seen(six: SlateData) -> None:
    """After a step or two, greedy slates are better than random ones."""
    env = small(six, 2_000, STRONG)
    short = sample_lists(env, env.request, 12.0, torch.Generator().manual_seed(0), num_sweeps=1, num_candidates=1)
    assert short.reward_gap > 0.01
    assert not short.has_converged
    alone = small(six, 1, STRONG)
    one = sample_lists(alone, alone.request, 12.0, torch.Generator().manual_seed(0))
    assert math.isnan(one.gap_error)
    assert not one.has_converged  # nothing is known


def test_all_items_may_be_in_a_slate(six: SlateData) -> None:
    """Then chains move by exchanging positions alone."""
    env = small(six, 100, {"rho": 0.0, "position_decay": 0.5}, 6)
    samples = sample_lists(env, env.request, 200.0, torch.Generator().manual_seed(0))
    own = SlateValues.of(env, env.request).item_rewards()[0]
    best = own.argsort(descending=True)[:6].tolist()
    assert samples.change_rate == 0
    assert float((samples.slate_BK[:, 0] == best[0]).double().mean()) > 0.9


class OwnUsers(CautiousUsers):
    """Users who differ from each other in what they like and in how much of it is believed."""

    def probabilities(self, state: Tensor, item_BC: Tensor) -> Tensor:
        return super().probabilities(state, item_BC) * (0.3 + item_BC * state[:, None] % 7 / 10)[:, :, None]

    def trust(self, state: Tensor, item_BC: Tensor) -> Tensor:
        return super().trust(state, item_BC) * (0.5 + item_BC * state[:, None] % 5 / 10)


class PositionUsers(OwnUsers):
    """At each position the probabilities are 0.8 of those at the one before."""

    def slate_probabilities(self, state: Tensor, slate_BK: Tensor) -> Tensor:
        share_K = 0.8 ** torch.arange(slate_BK.shape[1])
        return self.probabilities(state, slate_BK) * share_K[:, None]


@pytest.mark.parametrize("users_class", [FixedUsers, OwnUsers, PositionUsers])
@pytest.mark.parametrize("effects", [{"rho": 0.4}, STRONG])
def test_values_are_those_of_the_environment(
    data: SlateData, users_class: type[FixedUsers], effects: dict[str, float]
) -> None:
    users = users_class(data)
    env = UserEnvironment(data, users, EnvironmentConfig.parse({"num_users": 5, "slate_size": 4, **effects}, "users"))
    values = SlateValues.of(env, env.request)
    generator = torch.Generator().manual_seed(3)
    slate_BMK = torch.stack([random_slates(env, env.request, generator) for _ in range(7)], dim=1)
    wanted_BM = torch.stack([env.expected_rewards(env.request, slate_BK) for slate_BK in slate_BMK.unbind(1)], dim=1)
    torch.testing.assert_close(values.rewards(slate_BMK), wanted_BM)
    assert values.is_ordered == (users_class is PositionUsers or effects is STRONG)
    some = values.of_requests(torch.tensor([3, 1]))
    torch.testing.assert_close(some.rewards(slate_BMK[[3, 1]]), wanted_BM[[3, 1]])
    own_BN = values.item_rewards()
    alone = EnvironmentConfig(num_users=5, slate_size=1, rho=0.0)
    first = UserEnvironment(data, users, alone).expected_rewards(env.request, torch.full((5, 1), 7))
    torch.testing.assert_close(own_BN[:, 7], first)
    assert (own_BN[:, 0] == -torch.inf).all()


def test_a_model_may_say_that_positions_make_no_difference(data: SlateData) -> None:
    users = PositionUsers(data)
    users.has_positions = False  # type: ignore[attr-defined]
    env = UserEnvironment(data, users, EnvironmentConfig(num_users=5, slate_size=4))
    assert not SlateValues.of(env, env.request).is_ordered


def random_items(num_items: int) -> Tensor:
    """Return 20 candidates of each of 12 users."""
    return torch.rand(12, num_items, generator=torch.Generator().manual_seed(1)).topk(20, dim=1).indices + 1


def test_each_user_has_a_search_of_their_own(data: SlateData) -> None:
    """Searches end in different rounds, and each is that of a user who is alone."""
    config = EnvironmentConfig.parse({"num_users": 12, "slate_size": 4, **STRONG}, "users")
    env = UserEnvironment(data, OwnUsers(data), config)
    values, item_BC = SlateValues.of(env, env.request), random_items(data.num_items)
    start_BK = random_slates(env, env.request, torch.Generator().manual_seed(0))
    done_BK = improved_slates(values, start_BK, item_BC)
    start_BK = torch.cat([done_BK[:6], start_BK[6:]])  # of six users whose searches end in the first round
    together = improved_slates(values, start_BK, item_BC)
    assert torch.equal(together[:6], done_BK[:6])
    for user in range(12):
        row = torch.tensor([user])
        assert torch.equal(improved_slates(values.of_requests(row), start_BK[row], item_BC[row])[0], together[user])


def test_an_empty_position_changes_nothing(data: SlateData, cautious_users: CautiousUsers) -> None:
    cautious_users.base_NR[0], cautious_users.trust_N[0] = 0.9, 1.0
    config = EnvironmentConfig.parse({"num_users": 5, "slate_size": 3, **STRONG, "rho": 0.0}, "users")
    env = UserEnvironment(data, cautious_users, config)
    shorter = UserEnvironment(data, cautious_users, config.model_copy(update={"slate_size": 2}))
    two = torch.tensor([[40, 50]]).expand(5, -1)
    three = torch.tensor([[[40, 50, 0]]]).expand(5, -1, -1)
    reward_B1 = SlateValues.of(env, env.request).rewards(three)
    torch.testing.assert_close(reward_B1[:, 0] * 3, shorter.expected_rewards(env.request, two) * 2)
    similar = UserEnvironment(data, cautious_users, EnvironmentConfig(num_users=5, slate_size=2, rho=1.0))
    with_empty = SlateValues.of(similar, env.request).rewards(torch.tensor([[[50, 0]]]).expand(5, -1, -1))
    trust = float(cautious_users.trust_N[50])
    wanted = float(cautious_users.base_NR[50] @ data.weight_R) * trust / 2
    torch.testing.assert_close(with_empty[:, 0], torch.full((5,), wanted))


@pytest.mark.parametrize("effects", EFFECTS.values(), ids=EFFECTS.keys())
def test_local_search_ends_where_no_change_is_a_gain(six: SlateData, effects: dict[str, float]) -> None:
    env = small(six, 3, effects)
    values = SlateValues.of(env, env.request)
    slates = list(itertools.permutations(range(1, 7), 3))
    reward = {slate: reward_by_hand(env, slate) for slate in slates}
    start_BK = torch.tensor([slates[7], slates[50], slates[119]])
    item_BC = torch.arange(1, 7).expand(3, -1)
    for start, end in zip(start_BK.tolist(), improved_slates(values, start_BK, item_BC).tolist(), strict=True):
        assert reward[tuple(end)] >= reward[tuple(start)] - 1e-6
        near = [other for other in slates if is_near(other, tuple(end))]
        assert len(near) > 9
        assert reward[tuple(end)] >= max(reward[other] for other in near) - 2e-6


def is_near(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a single change leads from one slate to the other: another item, or two exchanged positions."""
    different = [place for place in range(3) if one[place] != other[place]]
    return len(different) == 1 or (len(different) == 2 and sorted(one) == sorted(other))


@pytest.mark.parametrize("effects", EFFECTS.values(), ids=EFFECTS.keys())
def test_the_greedy_oracle_follows_any_effects_and_is_improved(six: SlateData, effects: dict[str, float]) -> None:
    env = small(six, 2, effects)
    chosen: tuple[int, ...] = ()
    for _ in range(3):
        rest = [item for item in range(1, 7) if item not in chosen]
        chosen = max(((*chosen, item) for item in rest), key=lambda some: reward_of_part(env, some))
    greedy = greedy_slates(env, env.request)[0].tolist()
    assert greedy == list(chosen)
    improved = greedy_slates(env, env.request, is_improved=True)[0].tolist()
    best = max(reward_by_hand(env, slate) for slate in itertools.permutations(range(1, 7), 3))
    assert reward_by_hand(env, improved) >= reward_by_hand(env, greedy) - 1e-6
    assert reward_by_hand(env, improved) == pytest.approx(best, abs=1e-5)  # so it is in all of these


def reward_of_part(env: UserEnvironment, part: tuple[int, ...]) -> float:
    """The expected reward of a slate whose other positions are empty; influence is that of a whole slate."""
    size, length = env.config.slate_size, len(part)
    changes = {"rho": env.config.rho * (length - 1) / (size - 1), "slate_size": length}
    shorter = UserEnvironment(env.data, env.model, env.config.model_copy(update=changes))
    return reward_by_hand(shorter, part) * length / size


def test_the_general_greedy_rule_is_the_old_one_where_similarity_is_all(data: SlateData, users: FixedUsers) -> None:
    for includes_self in (False, True):
        users.influence_includes_self = includes_self  # type: ignore[attr-defined]
        env = UserEnvironment(data, users, EnvironmentConfig(num_users=3, rho=0.6, slate_size=4))
        values = SlateValues.of(env, env.request)
        item_BC = values.item_rewards().topk(30, dim=1).indices
        assert torch.equal(built_slates(values, item_BC, 4), greedy_slates(env, env.request, 30))
        greedy, improved = (greedy_slates(env, env.request, 30, is_improved=value) for value in (False, True))
        gain_B = env.expected_rewards(env.request, improved) - env.expected_rewards(env.request, greedy)
        assert (gain_B >= -1e-6).all()
        assert torch.equal(improved, improved_slates(values, greedy, item_BC))

"""List effects, each on numbers worked out by hand, and how they compose."""

import itertools
import math

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.simulator.categories import ItemCategories
from gfn4rec.simulator.effects import (
    ListEffects,
    attraction,
    complemented,
    examination,
    looked_at,
    saturated,
)
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.gym_environment import make_environment
from gfn4rec.simulator.outlook import Outlook
from tests.simulator.by_hand import by_hand
from tests.simulator.conftest import CautiousUsers, FixedUsers

# Items 1 to 6; categories 1 and 2 are partners, as are 3 and 4; category 5 has no partner.
CATEGORIES = ItemCategories.made_of([(), (1,), (2,), (1, 3), (5,), (), (5, 4)])


def test_items_share_a_category_if_they_have_one_in_common() -> None:
    assert CATEGORIES.num_earlier(torch.tensor([1, 3, 2, 1])).tolist() == [0, 1, 0, 2]
    assert CATEGORIES.num_earlier(torch.tensor([3, 6, 4, 1])).tolist() == [0, 0, 1, 1]
    assert CATEGORIES.num_earlier(torch.tensor([5, 5, 0, 0])).tolist() == [0, 0, 0, 0]  # no category is none in common


def test_complements_have_partner_categories() -> None:
    assert CATEGORIES.has_complement(torch.tensor([1, 2, 4])).tolist() == [True, True, False]
    assert CATEGORIES.has_complement(torch.tensor([1, 3, 4])).tolist() == [False, False, False]
    assert CATEGORIES.has_complement(torch.tensor([3, 5, 6])).tolist() == [True, False, True]  # 3 and 4
    assert CATEGORIES.has_complement(torch.tensor([[4, 6], [5, 0]])).tolist() == [[False, False], [False, False]]
    own_partner = ItemCategories.made_of([(), (1, 2), (3,)])
    assert own_partner.has_complement(torch.tensor([1, 2])).tolist() == [False, False]  # no item is its own complement
    assert own_partner.has_complement(torch.tensor([1, 1])).tolist() == [True, True]


def test_many_categories_are_compared_as_few() -> None:
    """Sets of categories are bits of several integers; what they say is what the numbers say."""
    generator = torch.Generator().manual_seed(0)
    value_NM = torch.randint(0, 201, (300, 16), generator=generator) * (torch.rand(300, 16, generator=generator) < 0.3)
    value_NM[0] = 0
    value_NM[1, :4], value_NM[2, :4] = torch.tensor([61, 62, 123, 200]), torch.tensor([0, 63, 124, 0])
    categories = ItemCategories(value_NM)
    slate_BK = torch.randint(0, 300, (400, 5), generator=generator)
    slate_BK[0] = torch.tensor([1, 2, 0, 1, 2])
    sets = [{value for value in row if value} for row in value_NM.tolist()]
    partners = [{value + 1 if value % 2 else value - 1 for value in row} for row in sets]
    for slate, num_earlier, has_complement in zip(
        slate_BK.tolist(),
        categories.num_earlier(slate_BK).tolist(),
        categories.has_complement(slate_BK).tolist(),
        strict=True,
    ):
        shares = [sum(bool(sets[item] & sets[earlier]) for earlier in slate[:k]) for k, item in enumerate(slate)]
        assert num_earlier == shares
        joined = [
            any(partners[item] & sets[other] for j, other in enumerate(slate) if j != k) for k, item in enumerate(slate)
        ]
        assert has_complement == joined


def test_categories_of_a_data_set(data: SlateData) -> None:
    """`category` is the first feature; its names are sorted with their numbers by value, the unknown one is none."""
    raw = data.items["category"].to_numpy()
    vocabulary = data.manifest.item_features[0].vocabulary
    names = sorted(vocabulary, key=lambda name: int(name.removeprefix("category ")))
    categories = ItemCategories.of(data)
    wanted = [0, *(0 if value < 2 else names.index(vocabulary[value - 2]) + 1 for value in raw)]
    assert categories.value_NM[:, 0].tolist() == wanted
    assert len(names) == 6
    partner = {1: 2, 2: 1, 3: 4, 4: 3, 5: 6, 6: 5}
    pairs = torch.tensor(list(itertools.combinations(range(data.num_items + 1), 2)))
    joined = [partner.get(wanted[one]) == wanted[other] for one, other in pairs.tolist()]
    assert categories.has_complement(pairs).tolist() == [[value, value] for value in joined]
    tags = ItemCategories.of(data, "tags")
    encoded = data.item_features.multi["tags"]
    entry = next(entry for entry in data.manifest.item_features if entry.name == "tags")
    for item in range(1, data.num_items + 1):
        have = {int(entry.vocabulary[value - 2].removeprefix("tag ")) for value in encoded[item].tolist() if value > 1}
        assert {value - 1 for value in tags.value_NM[item].tolist() if value} == have


def test_names_are_sorted_as_people_sort_them(data: SlateData, monkeypatch: pytest.MonkeyPatch) -> None:
    """With twelve categories `tag 10` comes after `tag 9`, so that neighbours are partners."""
    vocabulary = ("tag 10", "tag 9", "10", "9", "tag 2", "a")
    entry = data.manifest.item_features[0].model_copy(update={"vocabulary": vocabulary})
    manifest = data.manifest.model_copy(update={"item_features": (entry, *data.manifest.item_features[1:])})
    monkeypatch.setattr(data, "manifest", manifest)
    column = torch.tensor([0, 2, 3, 4, 5, 6, 7, 1])
    monkeypatch.setitem(data.item_features.categorical, "category", column)
    assert ItemCategories.of(data).value_NM[:, 0].tolist() == [0, 6, 5, 2, 1, 4, 3, 0]


@pytest.mark.parametrize("name", ["length", "categories"])
def test_a_feature_without_categories_is_refused(data: SlateData, users: FixedUsers, name: str) -> None:
    with pytest.raises(UserError, match=f"category {name}: synthetic-tiny has no such item feature with categories; "):
        UserEnvironment(data, users, EnvironmentConfig(category=name, slate_size=3))


def test_a_data_set_without_categories_has_no_saturation(
    data: SlateData, users: FixedUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = tuple(entry for entry in data.manifest.item_features if entry.kind == "numeric")
    monkeypatch.setattr(data, "manifest", data.manifest.model_copy(update={"item_features": lengths}))
    for effects in ({"saturation": 0.1}, {"complements": 0.1}):
        with pytest.raises(UserError, match="no item feature has categories, so saturation and complements have no"):
            UserEnvironment(data, users, EnvironmentConfig.parse(effects, "users"))
    UserEnvironment(data, users, EnvironmentConfig(cascade=0.1, position_decay=0.1))  # which need none


@pytest.mark.parametrize(
    "wrong", [{"saturation": 1.1}, {"saturation": -0.1}, {"complements": -1}, {"cascade": 2}, {"position_decay": -1}]
)
def test_impossible_strengths_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"--effect: {next(iter(wrong))}: Input should be"):
        ListEffects.parse(wrong, "--effect")


def test_what_effects_need() -> None:
    for name, has_categories, has_examination, is_ordered in (
        ("saturation", True, False, True),
        ("complements", True, False, False),
        ("position_decay", False, True, True),
        ("cascade", False, True, True),
    ):
        effects = ListEffects.parse({name: 0.5, "category": "tags"}, "effects")
        assert (effects.has_categories, effects.has_examination, effects.is_ordered, effects.is_any) == (
            has_categories,
            has_examination,
            is_ordered,
            True,
        )
        assert effects.strengths() == {name: 0.5, "category": "tags"}
    assert not ListEffects(category="tags").is_any
    assert ListEffects(category="tags").strengths() == {}


def test_saturation_by_hand() -> None:
    probability = torch.tensor([[0.8, 0.2], [0.5, 0.4], [0.4, 1.0]])
    after = saturated(probability, torch.tensor([0, 1, 2]), 0.5)
    torch.testing.assert_close(after, torch.tensor([[0.8, 0.2], [0.25, 0.2], [0.1, 0.25]]))
    nothing_left = saturated(probability, torch.tensor([0, 1, 2]), 1.0)
    torch.testing.assert_close(nothing_left, torch.tensor([[0.8, 0.2], [0.0, 0.0], [0.0, 0.0]]))


def test_complements_by_hand() -> None:
    probability = torch.tensor([[0.8, 0.2], [0.5, 0.4]])
    after = complemented(probability, torch.tensor([True, False]), 0.25)
    torch.testing.assert_close(after, torch.tensor([[1.0, 0.25], [0.5, 0.4]]))


def test_examination_by_hand() -> None:
    """Any response: 1 - 0.5 * 0.8 = 0.6 at the first position, 0.5 at the second."""
    worth = torch.tensor([[0.5, 0.2], [0.5, 0.0], [0.9, 0.9]])
    decay = examination(worth, ListEffects(position_decay=0.1))
    torch.testing.assert_close(decay, torch.tensor([1.0, 0.9, 0.81]))
    cascade = examination(worth, ListEffects(cascade=0.5))
    torch.testing.assert_close(cascade, torch.tensor([1.0, 0.7, 0.525]))
    both = examination(worth, ListEffects(position_decay=0.1, cascade=0.5))
    torch.testing.assert_close(both, torch.tensor([1.0, 0.63, 0.42525]))
    torch.testing.assert_close(examination(worth, ListEffects()), torch.ones(3))


def test_who_stops_looks_at_nothing_more() -> None:
    response = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    effects = ListEffects(position_decay=0.2, cascade=0.5)  # goes on below 0.4 after a response, else below 0.8
    looks = [
        ([0.39, 0.79, 0.39, 0.0], [1, 1, 1, 1]),
        ([0.41, 0.0, 0.0, 0.0], [1, 0, 0, 0]),
        ([0.39, 0.81, 0.0, 0.0], [1, 1, 0, 0]),
        ([0.0, 0.79, 0.41, 0.0], [1, 1, 1, 0]),
    ]
    for uniform, wanted in looks:
        assert looked_at(response, torch.tensor(uniform), effects).tolist() == wanted


def exact_joint(worth: list[float], effects: ListEffects) -> dict[tuple[int, ...], float]:
    """The probability of each tuple of responses to a behaviour, by walking down the slate."""
    joint: dict[tuple[int, ...], float] = {}

    def walk(prefix: tuple[int, ...], probability: float) -> None:
        place = len(prefix)
        if place == len(worth):
            joint[prefix] = joint.get(prefix, 0.0) + probability
            return
        for response, chance in ((1, worth[place]), (0, 1 - worth[place])):
            after = (*prefix, response)
            goes_on = (1 - effects.position_decay) * (1 - effects.cascade * response)
            walk(after, probability * chance * goes_on)
            ended = after + (0,) * (len(worth) - len(after))
            joint[ended] = joint.get(ended, 0.0) + probability * chance * (1 - goes_on)

    walk((), 1.0)
    return joint


@pytest.mark.parametrize(("decay", "cascade"), [(0.2, 0.0), (0.0, 0.7), (0.2, 0.7), (0.0, 1.0)])
def test_drawn_responses_have_the_joint_distribution(decay: float, cascade: float) -> None:
    worth, effects, num = [0.5, 0.3, 0.8], ListEffects(position_decay=decay, cascade=cascade), 100_000
    attraction_BKR = torch.tensor(worth)[None, :, None].expand(num, -1, -1)
    outlook = Outlook(attraction_BKR, attraction_BKR, torch.zeros(num, 3), effects)
    generator = torch.Generator().manual_seed(0)
    response_BKR = outlook.draw_responses(lambda shape: torch.rand(num, *shape, generator=generator))
    joint = exact_joint(worth, effects)
    assert math.fsum(joint.values()) == pytest.approx(1)
    for outcome in itertools.product((0, 1), repeat=3):
        share = float((response_BKR[:, :, 0] == torch.tensor(outcome)).all(dim=1).double().mean())
        p = joint.get(outcome, 0.0)
        assert abs(share - p) <= 4.5 * (p * (1 - p) / num) ** 0.5
    marginal = [sum(p for outcome, p in joint.items() if outcome[place]) for place in range(3)]
    torch.testing.assert_close(outlook.probabilities()[0, :, 0], torch.tensor(marginal))


@pytest.mark.parametrize("category", [None, "tags"])
def test_effects_compose_in_their_order(data: SlateData, cautious_users: CautiousUsers, category: str | None) -> None:
    config = EnvironmentConfig(
        num_users=300,
        slate_size=5,
        rho=0.3,
        saturation=0.4,
        complements=0.8,
        position_decay=0.1,
        cascade=0.6,
        category=category,
    )
    cautious_users.trust_N = cautious_users.trust_N.sqrt()
    env = UserEnvironment(data, cautious_users, config)
    draw = torch.rand(300, data.num_items, generator=torch.Generator().manual_seed(4))
    slate_BK = draw.topk(5, dim=1).indices + 1
    outlook = env.outlook(env.request, slate_BK)
    wanted = [by_hand(env, slate) for slate in slate_BK.tolist()]
    torch.testing.assert_close(outlook.probabilities(), torch.tensor(wanted), atol=1e-6, rtol=1e-5)
    assert (outlook.raw > outlook.attraction).any()  # clipped after all factors, and only there
    reward = (torch.tensor(wanted) @ data.weight_R).mean(dim=1)
    torch.testing.assert_close(env.expected_rewards(env.request, slate_BK), reward, atol=1e-5, rtol=1e-5)
    feedback = env.step(slate_BK)
    torch.testing.assert_close(feedback.expected_reward_B, reward, atol=1e-5, rtol=1e-5)


def test_the_second_effect_is_clipped_after_the_first() -> None:
    """0.8 with a complement and an earlier item of the category: 0.8 * 1.5 * 0.5, not min(1, 0.8 * 1.5) * 0.5."""
    categories = ItemCategories.made_of([(), (1,), (1,), (2,)])
    effects = ListEffects(saturation=0.5, complements=0.5)
    raw = attraction(torch.full((3, 1), 0.8), torch.tensor([1, 2, 3]), effects, categories)
    torch.testing.assert_close(raw, torch.tensor([[1.2], [0.6], [1.2]]))


def test_no_effect_draws_what_was_drawn_before(data: SlateData, users: FixedUsers) -> None:
    """The stream of an environment without examination has a number per response, and nothing else."""
    env = UserEnvironment(data, users, EnvironmentConfig(num_users=8, rho=0.1, slate_size=3))
    slate_BK = torch.tensor([[60, 30, 10]]).expand(8, -1) % data.num_items + 1
    before = env.state_dict()["generator"].clone()
    feedback = env.step(slate_BK)
    generator = torch.Generator()
    generator.set_state(before)
    flips_BKR = torch.rand(8, 3, len(data.behaviours), generator=generator)
    similarity = feedback.similarity_BK[:, :, None]
    wanted = flips_BKR < (users.base_NR[slate_BK] - 0.1 * similarity).clamp(0, 1)
    assert torch.equal(feedback.response_BKR, wanted.float())
    assert torch.equal(generator.get_state(), env.state_dict()["generator"])


def test_the_steps_of_an_environment_with_a_certain_stop(data: SlateData, users: FixedUsers) -> None:
    """With a cascade of 1 a user responds to one item at most, and what is drawn is expected."""
    users.base_NR = torch.full_like(users.base_NR, 0.2)
    config = EnvironmentConfig(num_users=20_000, rho=0.0, slate_size=3, cascade=1.0)
    env = UserEnvironment(data, users, config)
    feedback = env.step(torch.tensor([[1, 2, 3]]).expand(20_000, -1))
    assert int(feedback.response_BKR.any(dim=2).sum(dim=1).max()) == 1
    nothing = 0.8 ** len(data.behaviours)
    share = [0.2, 0.2 * nothing, 0.2 * nothing**2]
    expected = torch.tensor(share) * data.weight_R.sum()
    torch.testing.assert_close(feedback.expected_item_reward_BK[0], expected)
    drawn = feedback.response_BKR.double().mean(dim=(0, 2))
    assert (drawn - torch.tensor(share).double()).abs().max() < 4.5 * (0.2 / 20_000) ** 0.5
    again = UserEnvironment(data, users, config)
    assert torch.equal(again.step(torch.tensor([[1, 2, 3]]).expand(20_000, -1)).response_BKR, feedback.response_BKR)


def test_effects_reach_the_gymnasium_environment(data: SlateData, users: FixedUsers) -> None:
    config = EnvironmentConfig(num_users=4, rho=0.0, slate_size=3, position_decay=1.0)
    env = make_environment(data, users, config)
    env.reset(seed=0)
    *_, info = env.step(torch.tensor([[3, 2, 1]]).expand(4, -1).numpy() + data.num_items - 4)
    assert (info["expected_item_reward"][:, 0] > 0).all()
    assert not info["expected_item_reward"][:, 1:].any()
    assert not info["response"][:, 1:].any()
    assert info["clipped_share"] == 0  # no item was clipped, though most are never looked at

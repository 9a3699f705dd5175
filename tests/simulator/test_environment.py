"""The environment: known probabilities give known rewards."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from pydantic import ValidationError

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.errors import UserError
from gfn4rec.schema import Request
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.gym_environment import make_environment
from gfn4rec.simulator.influence import slate_similarity
from gfn4rec.simulator.protocol import UserModel
from tests.simulator.conftest import CautiousUsers, FixedUsers

CONFIG = EnvironmentConfig(num_users=8, rho=0.1, slate_size=3, episode_length=2)


def environment(
    data: SlateData, users: UserModel, config: EnvironmentConfig = CONFIG, seed: int = 0
) -> UserEnvironment:
    return UserEnvironment(data, users, config, seed)


def slates(data: SlateData, generator: torch.Generator, config: EnvironmentConfig = CONFIG) -> torch.Tensor:
    draw = torch.rand(config.num_users, data.num_items, generator=generator)
    return draw.topk(config.slate_size, dim=1).indices + 1


def test_similarity_by_hand() -> None:
    embedding = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    slate = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(slate_similarity(embedding, slate), torch.tensor([[0.3, 0.4, 0.7]]))
    with_self = torch.tensor([[1.6 / 3, 1.8 / 3, 2.4 / 3]])
    torch.testing.assert_close(slate_similarity(embedding, slate, include_self=True), with_self)
    assert slate_similarity(embedding, torch.tensor([[2]])).tolist() == [[0.0]]


def test_somebody_elses_simulator_fits(data: SlateData, users: FixedUsers) -> None:
    assert isinstance(users, UserModel)
    feedback = environment(data, users).step(slates(data, torch.Generator().manual_seed(0)))
    assert feedback.response_BKR.shape == (8, 3, len(data.behaviours))


def test_trust_multiplies_what_is_left_by_influence(data: SlateData, cautious_users: CautiousUsers) -> None:
    env = environment(data, cautious_users, CONFIG.model_copy(update={"rho": 0.3}))
    slate_BK = slates(data, torch.Generator().manual_seed(2))
    outlook = env.outlook(env.request, slate_BK)
    raw_BKR, probability_BKR, similarity_BK = outlook.raw, outlook.probabilities(), outlook.similarity
    for row, place in ((0, 0), (3, 2), (7, 1)):
        item = int(slate_BK[row, place])
        share, trust = item / data.num_items, (item / data.num_items) ** 2
        left = share - 0.3 * float(similarity_BK[row, place])
        assert float(raw_BKR[row, place, 0]) == pytest.approx(trust * left, abs=1e-6)
        assert float(probability_BKR[row, place, 0]) == pytest.approx(trust * min(1.0, max(0.0, left)), abs=1e-6)
    # The last item is like no other, so its responses are certain, if it is believed at all.
    cautious_users.item_embedding_ND[data.num_items] *= -1
    cautious_users.trust_N[data.num_items] = 0.5
    slate_BK = torch.tensor([[data.num_items, 1, 2]]).expand(8, -1)
    outlook = env.outlook(env.request, slate_BK)
    assert float(outlook.raw[0, 0, 0]) > 0.51
    assert float(outlook.probabilities()[0, 0, 0]) == pytest.approx(0.5)


def test_influence_lowers_the_expected_reward_by_rho_times_similarity(data: SlateData, users: FixedUsers) -> None:
    """Without clipping, by rho x similarity x the sum of the weights; and the share that is clipped is reported."""
    users.base_NR = users.base_NR * 0.4 + 0.3
    slate = slates(data, torch.Generator().manual_seed(1))
    plain, influenced = (
        environment(data, users, CONFIG.model_copy(update={"rho": rho})).step(slate) for rho in (0.0, 0.1)
    )
    drop = plain.expected_item_reward_BK - influenced.expected_item_reward_BK
    similarity = slate_similarity(users.item_embedding_ND, slate)
    torch.testing.assert_close(drop, 0.1 * similarity * data.weight_R.sum(), atol=1e-6, rtol=0)
    assert similarity.min() > 0
    assert influenced.clipped_share == 0.0
    clipped = environment(data, users, CONFIG.model_copy(update={"rho": 50.0})).step(slate)
    assert clipped.clipped_share == 1.0
    assert clipped.expected_reward_B.tolist() == [0.0] * 8


def test_unlike_items_cannot_push_a_probability_beyond_one(data: SlateData, users: FixedUsers) -> None:
    users.base_NR = torch.ones_like(users.base_NR)
    users.item_embedding_ND = torch.zeros(data.num_items + 1, 2)
    users.item_embedding_ND[1], users.item_embedding_ND[2] = torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0])
    env = environment(data, users, EnvironmentConfig(num_users=8, slate_size=2, rho=0.5))
    feedback = env.step(torch.tensor([[1, 2]]).repeat(8, 1))
    assert feedback.similarity_BK[0].tolist() == [-1.0, -1.0]
    torch.testing.assert_close(feedback.expected_reward_B, data.weight_R.sum().expand(8))
    assert feedback.clipped_share == 1.0


def test_responses_are_coin_flips_with_the_stated_probabilities(data: SlateData, users: FixedUsers) -> None:
    config = EnvironmentConfig(num_users=4000, rho=0.0, slate_size=3)
    feedback = environment(data, users, config).step(torch.tensor([[10, 30, 50]]).repeat(4000, 1))
    expected = users.base_NR[[10, 30, 50]]
    deviation = (expected * (1 - expected) / 4000).sqrt()
    assert ((feedback.response_BKR.mean(dim=0) - expected).abs() < 5 * deviation).all()
    torch.testing.assert_close(feedback.item_reward_BK, feedback.response_BKR @ data.weight_R)
    torch.testing.assert_close(feedback.reward_B, feedback.item_reward_BK.mean(dim=1))
    torch.testing.assert_close(feedback.expected_item_reward_BK[0], expected @ data.weight_R)


def test_histories_roll_forward_and_users_are_replaced_after_an_episode(data: SlateData, users: FixedUsers) -> None:
    env = environment(data, users)
    generator = torch.Generator().manual_seed(0)
    before = env.request
    slate = slates(data, generator)
    feedback = env.step(slate)
    after = feedback.next_request
    assert torch.equal(after.history_BH, torch.cat([before.history_BH, slate], dim=1)[:, 3:])
    assert torch.equal(after.response_BHR, torch.cat([before.response_BHR, feedback.response_BKR], dim=1)[:, 3:])
    assert torch.equal(after.user_B, before.user_B)
    assert feedback.final_request is None
    second = slates(data, generator)
    last = env.step(second)
    assert last.final_request is not None
    assert torch.equal(last.final_request.history_BH[:, -3:], second)
    assert not torch.equal(last.next_request.history_BH, last.final_request.history_BH)
    assert env.step(slates(data, generator)).final_request is None


def test_only_responded_items_join_histories_of_responses(users: FixedUsers, tmp_path: Path) -> None:
    """The first user responds to nothing, the second to one item of three, the third to all, the fourth is new."""
    prepare(generate(PRESETS["tiny"], seed=1)[1], PrepareConfig(history="responded"), tmp_path / "data")
    data = SlateData.open(tmp_path / "data", history_length=4)
    config = CONFIG.model_copy(update={"num_users": 4})
    vector_env = make_environment(data, users, config)
    env = vector_env.environment
    assert env.request.response_BHR.any(dim=2).equal(env.request.history_BH > 0)
    click, hate = torch.tensor([1.0, 0, 0, 0]), torch.tensor([0, 0, 0, 1.0])
    history_BH = torch.tensor([[0, 0, 20, 21], [0, 22, 23, 24], [25, 26, 27, 28], [0, 0, 0, 0]])
    env.request = Request(torch.tensor([1, 2, 3, 4]), history_BH, hate * (history_BH > 0)[:, :, None])
    # An item without an even number is never clicked, one with an even number always.
    users.base_NR = click * (torch.arange(data.num_items + 1) % 2 == 0)[:, None]
    env.config = config.model_copy(update={"rho": 0.0})
    observation, *_ = vector_env.step(np.array([[1, 3, 5], [1, 2, 3], [2, 4, 6], [7, 8, 10]]))
    after = [[0, 0, 20, 21], [22, 23, 24, 2], [28, 2, 4, 6], [0, 0, 8, 10]]
    assert env.request.history_BH.tolist() == observation["history"].tolist() == after
    clicked = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1]]
    hated = [[0, 0, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert env.request.response_BHR[:, :, 0].tolist() == clicked
    assert env.request.response_BHR[:, :, 3].tolist() == hated
    assert env.request.response_BHR.sum() == sum(map(sum, clicked)) + sum(map(sum, hated))


def test_new_users_come_from_the_whole_log(data: SlateData, users: FixedUsers) -> None:
    request = environment(data, users, EnvironmentConfig(num_users=5000, slate_size=3)).request
    count = torch.bincount(request.user_B, minlength=data.num_users + 1)[1:]
    share = torch.diff(data.first_row_U[1:]) / data.num_rows
    assert (count / 5000 - share).abs().max() < 0.02
    assert (request.history_BH.gt(0).sum(dim=1) < 10).any()  # some are at the beginning of their log


def test_one_seed_gives_one_sequence_whatever_runs_beside_it(data: SlateData, users: FixedUsers) -> None:
    sequences = []
    for noise in (0, 7):
        env = environment(data, users, seed=5)
        generator = torch.Generator().manual_seed(9)
        sequence = []
        for _ in range(50):
            torch.rand(noise)  # somebody else draws from the global generator
            feedback = env.step(slates(data, generator))
            sequence += [feedback.response_BKR, feedback.next_request.history_BH, feedback.next_request.response_BHR]
        sequences.append(sequence)
    assert all(torch.equal(first, second) for first, second in zip(*sequences, strict=True))
    env = environment(data, users, seed=6)
    assert not torch.equal(env.step(slates(data, torch.Generator().manual_seed(9))).response_BKR, sequences[0][0])


def test_its_state_can_be_saved_and_restored(data: SlateData, users: FixedUsers) -> None:
    env = environment(data, users)
    generator = torch.Generator().manual_seed(0)
    env.step(slates(data, generator))
    state = {name: tensor.clone() for name, tensor in env.state_dict().items()}
    actions = [slates(data, generator) for _ in range(4)]
    first = [env.step(action).response_BKR for action in actions]
    other = environment(data, users, seed=99)
    other.load_state_dict(state)
    assert all(torch.equal(a, other.step(action).response_BKR) for a, action in zip(first, actions, strict=True))


@pytest.mark.parametrize(
    ("slate", "message"),
    [
        ([1, 2, 1], "slate 0 shows item 1 twice"),
        ([1, 0, 2], r"slate 0 shows padding .item 0. at position 1"),
        ([1, 2, 10_000], "slate 0 shows item 10000, which is not in the catalogue; ids run from 1 to"),
        ([1, 2, -4], "slate 0 shows item -4"),
        ([1, 2], r"slates of shape \(8, 2\), but \(8, 3\) is expected"),
    ],
)
def test_wrong_slates_are_refused(data: SlateData, users: FixedUsers, slate: list[int], message: str) -> None:
    env = environment(data, users)
    before = env.state_dict()["generator"].clone()
    with pytest.raises(UserError, match=message):
        env.step(torch.tensor([slate]).repeat(8, 1))
    assert torch.equal(before, env.state_dict()["generator"])


def test_wrong_settings_are_refused(data: SlateData, users: FixedUsers) -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        EnvironmentConfig(rho=-0.1)
    with pytest.raises(UserError, match="slate_size 500: the data set has only \\d+ items"):
        environment(data, users, EnvironmentConfig(slate_size=500))


def test_the_gymnasium_interface(data: SlateData, users: FixedUsers) -> None:
    env = make_environment(data, users, CONFIG)
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    observation, info = env.reset(seed=3)
    assert info == {}
    assert env.observation_space.contains(observation)
    rng = np.random.default_rng(0)
    for step in range(1, 7):
        action = np.stack([rng.permutation(data.num_items)[:3] + 1 for _ in range(8)])
        assert env.action_space.contains(action)
        observation, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(observation)
        assert reward.shape == (8,)
        assert not terminated.any()
        assert truncated.all() == truncated.any() == (step % 2 == 0)
        assert ("final_obs" in info) == (step % 2 == 0)
        if "final_obs" in info:
            assert env.observation_space.contains(info["final_obs"])
            assert info["_final_obs"].all()
            assert np.array_equal(info["final_obs"]["history"][:, -3:], action)
        np.testing.assert_allclose(reward, info["item_reward"].mean(axis=1), rtol=1e-6)
        assert info["response"].shape == (8, 3, len(data.behaviours))
        np.testing.assert_allclose(info["expected_reward"], info["expected_item_reward"].mean(axis=1), rtol=1e-5)
    first, _ = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    assert all(np.array_equal(first[name], again[name]) for name in first)

"""The steps of the online loop, one by one: what is asked, remembered, sampled and measured."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from gfn4rec.policies.base import Policy
from gfn4rec.schema import Proposal, Request, Sampling, SlateBatch
from gfn4rec.training.learner import Learner
from gfn4rec.training.online import is_evaluated, train_online
from gfn4rec.training.opened_run import Users
from gfn4rec.training.recording import MetricsLine
from gfn4rec.training.replay import ReplayBuffer
from gfn4rec.training.run import Run
from tests.training.conftest import new_policy, small_settings


class Witness:
    """Sees what a policy is asked, what the replay buffer is given, and how it is sampled."""

    def __init__(self, policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[Request, Tensor, Sampling]] = []
        self.stored: list[tuple[Request, Tensor]] = []
        self.sampled: set[tuple[int, float]] = set()  # capacity, share of the newest
        recommend, add, sample = policy.recommend, ReplayBuffer.add, ReplayBuffer.sample

        def recommended(
            request: Request, generator: torch.Generator, sampling: Sampling, candidates: Tensor | None = None
        ) -> Proposal:
            proposal = recommend(request, generator, sampling, candidates)
            if candidates is None:  # else for test slates of the log, which have candidates
                self.asked.append((request, proposal.slate_BK, sampling))
            return proposal

        def added(buffer: ReplayBuffer, request: Request, slate_BK: Tensor, response_BKR: Tensor) -> None:
            self.stored.append((request, slate_BK))
            add(buffer, request, slate_BK, response_BKR)

        def sampled(buffer: ReplayBuffer, size: int, newest_share: float, generator: torch.Generator) -> SlateBatch:
            self.sampled.add((buffer.capacity, newest_share))
            return sample(buffer, size, newest_share, generator)

        monkeypatch.setattr(policy, "recommend", recommended)
        monkeypatch.setattr(ReplayBuffer, "add", added)
        monkeypatch.setattr(ReplayBuffer, "sample", sampled)


@pytest.fixture
def watch(users: Users, new_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Witness]:
    """Train for twelve steps with some settings, and tell what was seen."""

    def train(seed: int = 0, **changes: Any) -> Witness:
        settings = small_settings("cf", changes=changes)
        run = new_run(settings.model_copy(update={"seed": seed}), f"seed {seed}")
        policy = new_policy(users.data, run.manifest.settings)
        witness = Witness(policy, monkeypatch)
        train_online(run, policy, users)
        return witness

    return train


def test_a_slate_is_remembered_with_the_request_it_answered(watch: Callable[..., Witness]) -> None:
    witness = watch(temperature=0.9)
    shown = [(request, slate_BK) for request, slate_BK, how in witness.asked if how.temperature == 0.9]
    assert len(shown) == len(witness.stored) == 12
    for (request, slate_BK), (stored, stored_slate_BK) in zip(shown, witness.stored, strict=True):
        assert torch.equal(stored.user_B, request.user_B)
        assert torch.equal(stored.history_BH, request.history_BH)
        assert torch.equal(stored.response_BHR, request.response_BHR)
        assert torch.equal(stored_slate_BK, slate_BK)


def test_the_replay_buffer_is_as_large_and_as_fresh_as_asked_for(watch: Callable[..., Witness]) -> None:
    assert watch(buffer_size=100, newest_share=0.25).sampled == {(100, 0.25)}


def test_evaluations_are_closer_where_most_is_learned() -> None:
    looks = [step for step in range(1001) if is_evaluated(step, 300)]
    assert looks == [0, 50, 100, 150, 200, 250, 300, 600, 900]
    assert [step for step in range(10) if is_evaluated(step, 4)] == [0, 1, 2, 3, 4, 8]


def test_an_evaluation_shows_greedy_and_sampled_slates_to_all_users(watch: Callable[..., Witness]) -> None:
    """Two batches of each at step 0 and after steps 3, 4, 5, 10 and 12, and three at the end, for sixteen users.

    The metrics after steps 1 and 2, before anything is learned, are those of step 0.
    """
    witness = watch(temperature=2.0, epsilon=0.5)
    shown = [how for *_, how in witness.asked if how.temperature != 2.0]
    greedy, sampled = Sampling(greedy=True), Sampling()
    assert shown == [greedy, greedy, sampled, sampled] * 6 + [greedy] * 3 + [sampled] * 3
    assert {len(slate_BK) for _, slate_BK, _ in witness.asked} == {16}


def test_evaluations_are_for_the_same_users_in_a_run_and_for_others_under_another_seed(
    watch: Callable[..., Witness],
) -> None:
    first = []
    for seed in (0, 1):
        users = [request.user_B.tolist() for request, _, how in watch(seed=seed).asked if how.greedy]
        assert users[0] == users[2] == users[-3]  # at the beginning, after a step, and in the final evaluation
        first.append(users[0])
    assert first[0] != first[1]


@pytest.mark.parametrize(
    ("temperature", "how"), [(0.0, Sampling(greedy=True, epsilon=0.5)), (0.3, Sampling(0.3, epsilon=0.5))]
)
def test_what_is_shown_while_learning(watch: Callable[..., Witness], temperature: float, how: Sampling) -> None:
    witness = watch(temperature=temperature, epsilon=0.5)
    assert [each for *_, each in witness.asked].count(how) == 12


def test_the_cosine_ends_with_the_last_learning_step(
    watch: Callable[..., Witness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten steps follow the two of the warm-up; with three learning steps each, half of the way are fifteen."""
    learn, rates = Learner.learn, list[float]()

    def learned(self: Learner, batch: SlateBatch) -> MetricsLine:
        metrics = learn(self, batch)
        rates.append(self.learning_rate())  # of the step after this one
        return metrics

    monkeypatch.setattr(Learner, "learn", learned)
    watch(schedule="cosine", learning_rate=0.01, final_share=0.1, learning_steps=3)
    assert len(rates) == 30
    assert rates[14] == pytest.approx(0.01 * (0.1 + 0.9 / 2))
    assert rates[29] == pytest.approx(0.01 * 0.1)

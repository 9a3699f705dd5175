"""The live learner: what it learns depends on the samples and their order, not on reading, kills or restarts."""

import json
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live import learning
from gfn4rec.live.config import LearnerSettings
from gfn4rec.live.learning import LearnerStatus, LiveLearner, learner_config, read_status
from gfn4rec.live.store.decisions import samples_after
from gfn4rec.live.store.state import add_version
from gfn4rec.live.versions import Versions
from gfn4rec.policies.base import Loss
from gfn4rec.policies.cf import CF
from gfn4rec.training.config import OnlineConfig, resolve_settings
from tests.live.growth.shop import Shop, everything, open_shop, raw_features, small_policy

NUM_SAMPLES = 90
SETTINGS = LearnerSettings(samples_per_step=8, warmup_samples=0, learning_batch=20)
STEPS = (24, 32, 40, 48, 56, 64, 72, 80, 88)
"""The samples after which it learns: the first 20 fill a batch."""
SKIPPED = (40, 72)
NewLearner = Callable[..., LiveLearner]


@pytest.fixture(scope="module")
def shop(data: SlateData, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """90 samples; an item was added after 30 of them, and the features of one of the log were changed after 60."""
    with open_shop(data, tmp_path_factory.mktemp("shop"), small_policy(data, "cf")) as opened:
        users = [str(user) for user in data.users["id"].to_list()[:10]]
        for number in range(9):
            if number == 3:
                opened.service.put_item("new", None, raw_features(data, 1))
            if number == 6:
                opened.service.put_item(opened.service.items.at(55).id, None, raw_features(data, 2))
            among = [opened.service.items.at(place).id for place in range(len(opened.service.items), 50, -1)]
            opened.respond(opened.ask(users, candidates=tuple(among)), among[::3].__contains__)
            opened.close_all()
        yield opened


@contextmanager
def not_finite_after(*samples: int) -> Iterator[None]:
    """Make the loss NaN at the steps after these samples."""
    compute, learn = CF.loss, LiveLearner._learn
    cursor = 0

    def note(learner: LiveLearner) -> None:
        nonlocal cursor
        cursor = learner.cursor
        learn(learner)

    def loss(policy: CF, *arguments: Any) -> Loss:
        result = compute(policy, *arguments)
        return replace(result, loss=result.loss * math.nan) if cursor in samples else result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveLearner, "_learn", note)
        patch.setattr(CF, "loss", loss)
        yield


@pytest.fixture(scope="module")
def expected(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """What a learner ends with that reads all samples at once and is never stopped; two of its steps are skipped."""
    learner = shop.learner("cf", SETTINGS, tmp_path_factory.mktemp("whole"))
    with not_finite_after(*SKIPPED):
        assert learner.take() == NUM_SAMPLES
    return everything(learner)


@pytest.fixture
def new_learner(shop: Shop, tmp_path: Path) -> NewLearner:
    """Begin to learn in a directory, or go on there at its checkpoint."""

    def new(settings: LearnerSettings = SETTINGS, name: str = "learner") -> LiveLearner:
        return shop.learner("cf", settings, tmp_path / name)

    return new


def assert_same(learner: LiveLearner, expected: dict[str, Tensor]) -> None:
    """Check that weights, optimiser, buffer and random generators are the same to the last bit."""
    found = everything(learner)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("count", [1, 7, 8])
def test_one_step_per_so_many_samples_however_they_are_read(
    new_learner: NewLearner, expected: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(learning, "_READ_AT_ONCE", count)
    learner = new_learner()
    with not_finite_after(*SKIPPED):
        while learner.take():
            made = [step for step in STEPS if step <= learner.cursor and step not in SKIPPED]
            assert learner.learner.num_learned == len(made)
            assert learner.pending == learner.cursor % 8
    assert_same(learner, expected)
    assert (learner.cursor, learner.pending, learner.skipped) == (NUM_SAMPLES, 2, 2)


@pytest.mark.parametrize("seed", range(4))
def test_a_learner_that_is_killed_at_any_point_ends_the_same(
    new_learner: NewLearner, expected: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance, learner, num_kills = random.Random(seed), new_learner(), 0
    with not_finite_after(*SKIPPED):
        while learner.cursor < NUM_SAMPLES:
            monkeypatch.setattr(learning, "_READ_AT_ONCE", chance.randint(1, 25))
            learner.take()
            if chance.random() < 0.6:
                learner.save()
            if chance.random() < 0.4:
                learner, num_kills = new_learner(), num_kills + 1
        learner.save()
        learner = new_learner()
        assert num_kills >= 2
        assert_same(learner, expected)
    assert (learner.cursor, learner.pending, learner.skipped) == (NUM_SAMPLES, 2, 2)
    assert learner.learner.num_learned == len(STEPS) - len(SKIPPED)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    new_learner: NewLearner, expected: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "_READ_AT_ONCE", 25)
    learner = new_learner()
    with not_finite_after(*SKIPPED):
        for _ in range(3):
            learner.take()
            learner.save()
        (newest,) = learner._checkpoints.directory.glob("*75")
        (newest / "replay.safetensors").write_bytes(b"")
        learner = new_learner()
        assert learner.cursor == 50
        while learner.take():
            pass
    assert_same(learner, expected)


def test_what_is_remembered_is_what_users_were_shown_and_did(shop: Shop, new_learner: NewLearner) -> None:
    learner = new_learner()
    learner.take()
    with shop.store.read() as connection:
        samples = samples_after(connection, 0, 1000)
    assert [sample.seq for sample in samples] == list(range(1, NUM_SAMPLES + 1))
    numbers = {item.id: item.number for item in map(shop.service.items.at, range(1, 62))}
    users = [str(user) for user in shop.data.users["id"].to_list()]
    click = shop.data.behaviours.index("click")
    memory = learner.learner.state_dict()["replay"]
    assert memory["slate"].tolist() == [[numbers[item] for item in sample.slate] for sample in samples]
    assert memory["user"].tolist() == [users.index(str(sample.user)) + 1 for sample in samples]
    clicks = [[int("click" in names) for names in sample.responses] for sample in samples]
    assert memory["slate_response"][:, :, click].tolist() == clicks
    assert 0 < sum(map(sum, clicks)) == int(memory["slate_response"].sum())
    histories = [[numbers[item] for item, _ in sample.history] for sample in samples]
    assert [[number for number in row if number] for row in memory["history"].tolist()] == histories


def test_a_request_to_end_is_followed_after_the_step_at_hand(new_learner: NewLearner) -> None:
    learner, answers = new_learner(), iter([False, False, False, True])
    assert learner.take(lambda: next(answers)) == 24
    assert (learner.cursor, learner.learner.num_learned) == (24, 1)
    assert learner.take(lambda: True) == 0
    assert learner.cursor == 24


def test_steps_whose_loss_is_not_finite_are_skipped_and_counted(new_learner: NewLearner) -> None:
    learner, answers = new_learner(), iter([False] * 6 + [True])
    with not_finite_after(32, 40):
        learner.take(lambda: next(answers))
        assert (learner.cursor, learner.skipped, learner.learner.num_learned) == (40, 2, 1)
        learner.save()
    assert all(bool(weight.isfinite().all()) for weight in learner.policy.state_dict().values())
    learner.report()
    status = read_status(learner.directory)
    assert status is not None
    assert (status.step, status.cursor, status.skipped, status.samples_per_step) == (1, 40, 2, 8)
    assert status.loss == learner.loss is not None
    resumed = new_learner()
    assert (resumed.cursor, resumed.skipped) == (40, 2)
    # A version knows nothing of the samples whose step was skipped, whether it is published now or later.
    assert [each.publish().trained_to_seq for each in (learner, resumed)] == [24, 24]
    assert not resumed.has_news
    assert not new_learner().has_news


def test_a_version_has_the_weights_and_says_what_they_know(
    shop: Shop, new_learner: NewLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses: list[float | None] = []
    learn = LiveLearner._learn

    def note(learner: LiveLearner) -> None:
        learn(learner)
        losses.append(learner.loss)

    monkeypatch.setattr(LiveLearner, "_learn", note)
    learner = new_learner()
    assert not learner.has_news
    learner.take()
    assert learner.has_news
    manifest = learner.publish()
    assert not learner.has_news
    numbers = (manifest.number, manifest.parent, manifest.trained_to_seq, manifest.step)
    assert numbers == (2, 1, 88, 9)  # version 1 is the run's, and in the store
    assert (manifest.revision, manifest.num_items) == (2, 61)
    assert len(losses) == 9
    assert manifest.loss == pytest.approx(sum(loss for loss in losses if loss is not None) / 9)
    _, policy = Versions(learner.directory / "versions").load(2, shop.policy_for)
    for name, value in learner.policy.state_dict().items():
        assert torch.equal(policy.state_dict()[name], value), name
    assert (learner.publish().number, learner.loss) == (3, None)


def test_versions_are_numbered_after_all_that_the_store_knows(data: SlateData, tmp_path: Path) -> None:
    with open_shop(data, tmp_path, small_policy(data, "cf")) as shop:
        row = shop.versions.manifest(1).row("rejected", "it was bad")
        shop.store.write(lambda connection: add_version(connection, replace(row, version=6))).result()
        learner = shop.learner("cf")
        assert [learner.publish().number for _ in range(2)] == [7, 8]  # the weights of 2 to 6 have been deleted
        shop.versions.delete(7)
        assert shop.learner("cf").publish().number == 9


def test_nothing_is_published_until_what_was_lost_is_learned_again(new_learner: NewLearner) -> None:
    """It published what it knew of 40 samples, and was killed before any checkpoint."""
    learner, answers = new_learner(), iter([False] * 6 + [True])  # to 8, 16, 24, the new item, 32 and 40
    learner.take(lambda: next(answers))
    assert learner.publish().trained_to_seq == 40
    again = new_learner()
    assert (again.cursor, again.has_news) == (0, False)
    for count, has_news in ((5, False), (1, False), (1, True)):
        answers = iter([False] * count + [True])
        again.take(lambda answers=answers: next(answers))  # type: ignore[misc]
        assert again.has_news == has_news
    assert again.publish().trained_to_seq == 48


@pytest.mark.parametrize(("warmup", "first"), [(0, 24), (24, 24), (25, 32), (40, 40)])
def test_the_first_step_comes_after_the_warm_up(
    new_learner: NewLearner, monkeypatch: pytest.MonkeyPatch, warmup: int, first: int
) -> None:
    monkeypatch.setattr(learning, "_READ_AT_ONCE", 1)
    learner = new_learner(SETTINGS.model_copy(update={"warmup_samples": warmup}))
    while not learner.learner.num_learned:
        assert learner.take() == 1
    assert learner.cursor == first
    assert first < NUM_SAMPLES
    learner.take()


def test_other_samples_per_step_than_those_of_the_checkpoint_are_refused(new_learner: NewLearner) -> None:
    learner = new_learner()
    learner.take()
    learner.save()
    where = learner.directory / "learner" / "checkpoints"
    with pytest.raises(UserError) as error:
        new_learner(SETTINGS.model_copy(update={"samples_per_step": 9}))
    message = f"{where}: made with 8 samples per step, not 9; keep 8, or delete it to begin again"
    assert str(error.value) == message
    with pytest.raises(UserError) as error:
        new_learner(SETTINGS.model_copy(update={"warmup_samples": 9}))
    assert str(error.value) == f"{where}: made with 0 samples of warm-up, not 9; keep 0, or delete it to begin again"
    other = SETTINGS.model_copy(update={"publish_seconds": 1.0, "learning_rate": 1e-9, "learning_batch": 9})
    assert new_learner(other).cursor == NUM_SAMPLES


def test_a_checkpoint_that_knows_more_than_the_store_is_refused(new_learner: NewLearner) -> None:
    learner = new_learner()
    learner.take()
    learner.save()
    assert new_learner().cursor == NUM_SAMPLES
    learner.cursor += 1
    learner.save()
    where = learner.directory / "learner" / "checkpoints"
    with pytest.raises(UserError) as error:
        new_learner()
    assert str(error.value) == f"{where}: has read 91 samples, but the store has 90; delete it to begin again"


def test_a_checkpoint_of_another_policy_is_refused(shop: Shop, new_learner: NewLearner) -> None:
    learner = new_learner()
    learner.save()
    where = learner.directory / "learner" / "checkpoints"
    smaller = small_policy(shop.data, "cf", hidden_dims=(4,))
    with pytest.raises(UserError) as error:
        LiveLearner(shop.data, smaller, learner_config("cf", SETTINGS), SETTINGS, shop.store, learner.directory, seed=0)
    assert str(error.value).startswith(f"{where}: ")
    assert "\n" not in str(error.value)


def test_what_is_not_set_is_as_in_the_online_training_of_the_policy() -> None:
    training = resolve_settings("online", "gfn-prior").training
    assert isinstance(training, OnlineConfig)
    assert training.schedule != "constant" or training.learning_steps == 1
    config = learner_config("gfn-prior", LearnerSettings())
    assert (config.learning_batch, config.learning_rate) == (training.learning_batch, training.learning_rate)
    assert (config.clip_norm, config.buffer_size) == (training.clip_norm, training.buffer_size)
    assert (config.schedule, config.learning_steps, config.tensorboard) == ("constant", 1, False)
    config = learner_config("gfn-prior", LearnerSettings(learning_batch=7, learning_rate=0.5))
    assert (config.learning_batch, config.learning_rate) == (7, 0.5)
    assert config.clip_norm == training.clip_norm


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b'{"step": 3}', b"\xff"])
def test_a_report_that_cannot_be_read_is_none(tmp_path: Path, content: bytes | None) -> None:
    (tmp_path / "learner").mkdir()
    if content is not None:
        (tmp_path / "learner" / "status.json").write_bytes(content)
    assert read_status(tmp_path) is None
    report = LearnerStatus(step=3, cursor=96, loss=0.5, samples_per_step=32, skipped=0, updated=1_000.0)
    (tmp_path / "learner" / "status.json").write_text(json.dumps(asdict(report)))
    assert read_status(tmp_path) == report

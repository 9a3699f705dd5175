"""The learner as a process: it reads, publishes and saves until it is asked to end, and there is only one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live import running
from gfn4rec.live.checkpoints import Checkpoints
from gfn4rec.live.config import LearnerSettings
from gfn4rec.live.host import Place
from gfn4rec.live.learning import LiveLearner, read_status
from gfn4rec.live.store.writer import StoreError
from gfn4rec.live.versions import Versions
from gfn4rec.storage import make_directory
from tests.live.growth.shop import Shop, open_shop, small_policy

NEVER = 1e9
SETTINGS = LearnerSettings(
    samples_per_step=4, warmup_samples=0, learning_batch=4, publish_seconds=NEVER, checkpoint_seconds=NEVER
)
AT_ONCE = SETTINGS.model_copy(update={"publish_seconds": 1e-9, "checkpoint_seconds": 1e-9})


@pytest.fixture
def shop(data: SlateData, tmp_path: Path) -> Iterator[Shop]:
    """A shop with ten samples."""
    with open_shop(data, tmp_path / "shop", small_policy(data, "cf")) as opened:
        opened.ask([None] * 10)
        opened.close_all()
        yield opened


def learn_for(rounds: int, learner: LiveLearner, settings: LearnerSettings) -> list[tuple[int, int, float | None]]:
    """Learn until so many reports were made, and return them."""
    reports: list[tuple[int, int, float | None]] = []
    make_directory(learner.directory / "learner")
    running._learn_until(lambda: len(reports) >= rounds, learner, settings, lambda *values: reports.append(values))
    return reports


def test_it_saves_what_it_has_learned_when_it_is_asked_to_end(shop: Shop, tmp_path: Path) -> None:
    learner = shop.learner("cf", SETTINGS, tmp_path / "it")
    assert learn_for(1, learner, SETTINGS) == [(2, 10, learner.loss)]
    assert Versions(tmp_path / "it" / "versions").numbers() == []
    status = read_status(tmp_path / "it")
    assert status is not None
    assert (status.step, status.cursor) == (2, 10)
    checkpoints = Checkpoints(tmp_path / "it" / "learner" / "checkpoints")
    loaded = checkpoints.load()
    assert loaded is not None
    assert (loaded[0].cursor, loaded[0].pending) == (10, 2)
    before = {path: path.stat().st_mtime_ns for path in checkpoints.directory.iterdir()}
    learn_for(1, shop.learner("cf", SETTINGS, tmp_path / "it"), SETTINGS)  # nothing new, so nothing is saved
    assert {path: path.stat().st_mtime_ns for path in checkpoints.directory.iterdir()} == before


def test_it_publishes_and_saves_while_it_runs_if_there_is_news(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_PAUSE", 0.0)
    monkeypatch.setattr("gfn4rec.live.learning._READ_AT_ONCE", 5)
    learner = shop.learner("cf", AT_ONCE, tmp_path / "it")
    saved: list[int] = []
    monkeypatch.setattr(learner, "save", lambda: saved.append(learner.cursor))
    reports = learn_for(4, learner, AT_ONCE)
    assert [report[:2] for report in reports] == [(1, 5), (2, 10), (2, 10), (2, 10)]
    assert saved == [5, 10]
    versions = Versions(tmp_path / "it" / "versions")
    assert [versions.manifest(number).trained_to_seq for number in versions.numbers()] == [4, 8]


def test_a_store_that_cannot_be_read_is_tried_again(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_PAUSE", 0.0)
    learner = shop.learner("cf", SETTINGS, tmp_path / "it")
    take, failures = learner.take, iter([True, True, False])

    def fail_twice(_: object) -> int:
        if next(failures):
            raise StoreError("the server is gone")
        return take()

    monkeypatch.setattr(learner, "take", fail_twice)
    assert learn_for(1, learner, SETTINGS) == [(2, 10, learner.loss)]


def test_there_is_one_learner_in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_PAUSE", 0.001)
    place = Place(tmp_path, tmp_path, "")
    first = FileLock(tmp_path / "lock")
    assert running._acquire(first, lambda: False, place)
    second = FileLock(tmp_path / "lock")
    monkeypatch.setattr(running, "_SECONDS_FOR_LOCK", 0.0)
    with pytest.raises(UserError) as error:
        running._acquire(second, lambda: False, place)
    assert str(error.value) == f"{tmp_path}: another learner is at work there; stop it first"
    monkeypatch.setattr(running, "_SECONDS_FOR_LOCK", 1000.0)
    answers = iter([False, False, True])
    assert not running._acquire(second, lambda: next(answers), place)  # asked to end while it waits
    answers = iter([False, False, False])

    def release_then() -> bool:
        is_over = next(answers)
        first.release()
        return is_over

    assert running._acquire(second, release_then, place)
    assert second.is_locked
    second.release()

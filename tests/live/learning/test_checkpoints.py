"""The learner's checkpoints: the newest whole one counts, the two latest are kept."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gfn4rec.errors import UserError
from gfn4rec.live.checkpoints import Checkpoints, LearnerManifest
from gfn4rec.live.config import LearnerSettings

SETTINGS = LearnerSettings(samples_per_step=3, warmup_samples=0, learning_rate=0.25)
MANIFEST, WEIGHTS, BUFFER = "manifest.json", "policy.safetensors", "replay.safetensors"


def save(checkpoints: Checkpoints, cursor: int, value: float = 1.0) -> None:
    """Write a checkpoint whose tensors hold its cursor and a value."""
    manifest = LearnerManifest(
        cursor=cursor, pending=cursor % 3, learned_to=cursor - 1, skipped=4, revision=5, settings=SETTINGS
    )
    parts = {"policy": {"weight": torch.tensor([cursor, value])}, "replay": {"slate": torch.tensor([[1, 2]])}}
    checkpoints.save(manifest, parts)


def names(checkpoints: Checkpoints) -> list[str]:
    """Return the names of all that is in the directory."""
    return sorted(path.name for path in checkpoints.directory.iterdir())


def cursor_of(checkpoints: Checkpoints) -> int:
    """Return the cursor of the checkpoint that is loaded, after a check that its tensors are those of it."""
    loaded = checkpoints.load()
    assert loaded is not None
    manifest, parts = loaded
    assert manifest.cursor == parts["policy"]["weight"][0]
    return manifest.cursor


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    """A directory that does not exist yet."""
    return Checkpoints(tmp_path / "checkpoints")


def test_what_was_saved_is_loaded(checkpoints: Checkpoints) -> None:
    assert checkpoints.load() is None
    save(checkpoints, 7)
    loaded = checkpoints.load()
    assert loaded is not None
    manifest, parts = loaded
    values = (manifest.cursor, manifest.pending, manifest.learned_to, manifest.skipped, manifest.revision)
    assert (*values, manifest.settings) == (7, 1, 6, 4, 5, SETTINGS)
    assert {name: [*tensors] for name, tensors in parts.items()} == {"policy": ["weight"], "replay": ["slate"]}
    assert torch.equal(parts["policy"]["weight"], torch.tensor([7.0, 1.0]))
    assert torch.equal(parts["replay"]["slate"], torch.tensor([[1, 2]]))


def test_the_last_two_are_kept_and_the_newest_counts(checkpoints: Checkpoints) -> None:
    for cursor in (8, 90, 100, 1_000):  # not in the order of their letters
        save(checkpoints, cursor)
        assert cursor_of(checkpoints) == cursor
    assert names(checkpoints) == ["000000000100", "000000001000"]
    save(checkpoints, 1_000, value=2.0)  # again, with more learned
    loaded = checkpoints.load()
    assert loaded is not None
    assert loaded[1]["policy"]["weight"].tolist() == [1_000.0, 2.0]
    assert names(checkpoints) == ["000000000100", "000000001000"]


def empty(path: Path) -> None:
    """Delete all files of a directory."""
    for file in path.iterdir():
        file.unlink()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped bit": lambda path: (path / WEIGHTS).write_bytes((path / WEIGHTS).read_bytes()[:-1] + b"\x7f"),
    "a missing byte": lambda path: (path / BUFFER).write_bytes((path / BUFFER).read_bytes()[:-1]),
    "a missing file": lambda path: (path / BUFFER).unlink(),
    "no manifest": lambda path: (path / MANIFEST).unlink(),
    "half a manifest": lambda path: (path / MANIFEST).write_text((path / MANIFEST).read_text()[:60]),
    "an empty directory": empty,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_one_gives_way_to_the_one_before(
    checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for cursor in (1, 2):
        save(checkpoints, cursor)
    newest = checkpoints.directory / "000000000002"
    DAMAGES[name](newest)
    with caplog.at_level(logging.WARNING):
        assert cursor_of(checkpoints) == 1
    (message,) = caplog.messages
    assert message.startswith(str(newest))
    assert message.endswith("; the checkpoint before it is used")
    assert names(checkpoints) == ["000000000001"]  # the damaged one would count as one of two from now on
    save(checkpoints, 2)
    assert cursor_of(checkpoints) == 2
    for path in checkpoints.directory.iterdir():
        DAMAGES[name](path)
    with pytest.raises(UserError) as error:
        checkpoints.load()
    assert str(error.value).startswith(str(newest))
    assert str(error.value).endswith(f"; delete {checkpoints.directory} to learn from the first sample again")
    assert names(checkpoints) == ["000000000001", "000000000002"]


def test_what_a_killed_learner_has_left_is_no_checkpoint_and_is_deleted(checkpoints: Checkpoints) -> None:
    for cursor in (1, 2):
        save(checkpoints, cursor)
    for half in (".000000000003-abc", ".000000000002-old-xyz"):
        shutil.copytree(checkpoints.directory / "000000000002", checkpoints.directory / half)
    assert cursor_of(checkpoints) == 2
    assert names(checkpoints) == ["000000000001", "000000000002"]
    shutil.copytree(checkpoints.directory / "000000000001", checkpoints.directory / "000000000000")
    save(checkpoints, 3)  # it had been killed before it deleted the oldest
    assert names(checkpoints) == ["000000000002", "000000000003"]

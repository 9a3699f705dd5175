"""A lock keeps others out while its block runs, and a place that cannot be locked is one line."""

from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from gfn4rec.errors import UserError
from gfn4rec.experiments.jobs.locking import locked


def test_others_are_kept_out_while_the_block_runs_and_only_then(tmp_path: Path) -> None:
    other = FileLock(tmp_path / ".results.jsonl.lock", timeout=0)
    with locked(tmp_path / "results.jsonl"), pytest.raises(Timeout):
        other.acquire()
    with other:
        assert other.is_locked


def test_a_failing_block_gives_its_lock_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "results.jsonl"):
        _ = 1 / 0
    with FileLock(tmp_path / ".results.jsonl.lock", timeout=0) as other:
        assert other.is_locked


def test_a_place_that_cannot_be_locked_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".results.jsonl.lock").mkdir()
    problem = r"\.results\.jsonl\.lock: cannot be locked \(.+\); choose another place"
    with pytest.raises(UserError, match=problem), locked(tmp_path / "results.jsonl"):
        pass

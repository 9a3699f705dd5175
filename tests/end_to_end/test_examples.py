"""The examples run, and learn something."""

import importlib.util
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


def test_the_online_loop_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("online_loop", REPOSITORY / "examples" / "online_loop.py")
    assert spec is not None
    assert spec.loader is not None
    online_loop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(online_loop)
    assert online_loop.main(tmp_path, "synthetic-tiny", num_steps=60, warmup_steps=10) > 1.1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("step")] == ["step 50"]
    assert len(lines) == 4  # a step, the evaluation, two slates

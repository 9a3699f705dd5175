"""What every row of the table of published data sets promises; a new row is covered unedited."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gfn4rec.data.readers import SOURCES
from tests.conftest import Cli


@pytest.mark.parametrize("name", SOURCES)
def test_it_is_listed(cli: Cli, name: str) -> None:
    source = SOURCES[name]
    listed = json.loads(cli("data", "list", "--json").out)[name]
    assert listed == {"summary": source.summary, "url": source.archive.url, "raw": source.layout}
    assert f"{name}: {source.summary}\n" in cli("data", "list").out


@pytest.mark.parametrize("name", SOURCES)
def test_a_folder_without_its_files_is_one_line(fails: Callable[..., str], tmp_path: Path, name: str) -> None:
    prepare = ("data", "prepare", name, "--out", tmp_path / "out", "--raw")
    assert str(tmp_path / "raw") in fails(*prepare, tmp_path / "raw")
    (tmp_path / "raw").mkdir()
    assert str(tmp_path / "raw") in fails(*prepare, tmp_path / "raw")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [name for name, source in SOURCES.items() if not source.has_random_log])
def test_a_log_of_random_exposure_that_is_not_there(fails: Callable[..., str], tmp_path: Path, name: str) -> None:
    message = fails("data", "prepare", name, "--raw", tmp_path, "--out", tmp_path / "out", "--include-random")
    assert f"{name} has no log of random exposure; those that have one: kuairand-1k, " in message

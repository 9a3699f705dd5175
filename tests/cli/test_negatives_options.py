"""The options of `data prepare` for positive-only logs, and what the commands print of sampled items."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.conftest import Cli

Fails: TypeAlias = Callable[..., str]
PREPARE = ("--core", 1, "--slate-size", 2, "--behaviour", "click")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--negatives", 2), "--negatives 2: a slate of 2 needs at least one item of the log; lower it to at most 1"),
        (("--negatives", 1), "--negatives 1: user 1 has met all items; leave it out, or leave out this user"),
        (("--negatives", 1, "--slate-size", 1), "a slate of 1 needs at least one item of the log; raise --slate-size"),
        (("--negatives-by", "popularity"), "--negatives-by has no meaning without --negatives; leave it out"),
        (("--negatives-seed", 1), "--negatives-seed has no meaning without --negatives; leave it out"),
        (("--negatives", 2, "--slate-size", 9), "--slate-size 9, 2 of them sampled: no user has 7 distinct items"),
    ],
)
def test_numbers_of_sampled_items_that_cannot_be(
    fails: Fails, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    """Two users have met all six items."""
    lines = (f"{user},{item},{item},1\n" for user in (1, 2) for item in range(6))
    (tmp_path / "log.csv").write_text("user,item,time,click\n" + "".join(lines))
    assert message in fails("data", "prepare", tmp_path / "log.csv", "--out", tmp_path / "out", *PREPARE, *options)
    assert not (tmp_path / "out").exists()


def test_sampled_items_are_counted_and_marked(cli: Cli, tmp_path: Path) -> None:
    """Nobody responds to what was sampled, so a click in every row is no reason for a warning."""
    lines = (f"{user},{(user + place) % 20},{place},1\n" for user in range(20) for place in range(8))
    (tmp_path / "log.csv").write_text("user,item,time,click\n" + "".join(lines))
    sizes = ("--core", 1, "--slate-size", 3, "--negatives", 1, "--negatives-by", "popularity", "--negatives-seed", 3)
    prepare = ("data", "prepare", tmp_path / "log.csv", "--behaviour", "click", *sizes, "--out", tmp_path / "out")
    text = cli(*prepare).out
    assert "Warning" not in text
    assert re.search(r"rows in slates +160\n", text)
    assert re.search(r"items sampled by popularity +80\n", text)
    settings = json.loads(cli("data", "describe", tmp_path / "out", "--json").out)["settings"]
    assert (settings["negatives"], settings["negatives_by"], settings["negatives_seed"]) == (1, "popularity", 3)
    show = ("data", "show", tmp_path / "out", "--count", 5)
    for example in json.loads(cli(*show, "--json").out)["examples"]:
        assert sorted(event["is_sampled"] for event in example["slate"]) == [False, False, True]
        assert all(event["responses"] == ([] if event["is_sampled"] else ["click"]) for event in example["slate"])
        assert not any(event["is_sampled"] for event in example["history"])
    assert cli(*show).out.count("sampled") == 5


def test_shown_slates_take_no_sampled_items(cli: Cli, fails: Fails, tmp_path: Path) -> None:
    lines = (f"{row % 5},{row % 20},{row},1,{row % 5}\n" for row in range(100))
    (tmp_path / "log.csv").write_text("user,item,time,click,request\n" + "".join(lines))
    prepare = ("data", "prepare", tmp_path / "log.csv", *PREPARE, "--slate-column", "request", "--out", tmp_path / "o")
    line = fails(*prepare, "--negatives", 1)
    assert "--negatives 1: the log says which items were shown together, so its slates have the items that" in line
    assert "; leave out --negatives, or the column of slates (--slate-column)" in line
    (warning,) = json.loads(cli(*prepare, "--json").out)["warnings"]
    assert warning.endswith("; add rows of items that were shown without click")

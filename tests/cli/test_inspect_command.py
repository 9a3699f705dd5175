"""`gfn4rec data inspect` as a user types it."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import xlsxwriter

from gfn4rec.cli import inspect_log
from gfn4rec.data import inspection
from tests.conftest import Cli
from tests.data.inspection_example import CLICKS, IMPRESSIONS, RATINGS, make_log, write

Fails = Callable[..., str]


def test_what_is_printed(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "u.data", make_log(RATINGS), has_header=False, separator="\t")
    result = cli("data", "inspect", path)
    assert (result.code, result.err) == (0, "")
    lines = [line.rstrip() for line in result.out.splitlines()]
    assert lines[:7] == [
        f"{path}: text separated by tabs, utf-8, without header line",
        "600 rows, the whole file",
        "",
        "column  type     distinct  empty  role    examples",
        "1       integer  20               user    0, 1, 2",
        "2       integer  30               item    0, 1, 2",
        "3       integer  5                rating  1, 2, 3",
    ]
    assert "like       3>=4      1       40.00%" in lines
    expected = "20 users, 30 items; 20 users have at least 6 rows (a slate), 20 at least 18 (train, val and test slate)"
    assert expected in lines
    assert lines[-3:-1] == ["Prepare the log with:", ""]
    assert lines[-1].startswith("gfn4rec data prepare ")
    assert cli(*shlex.split(lines[-1])[1:], "--out", tmp_path / "out").code == 0


def test_json_is_one_object(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", make_log(IMPRESSIONS))
    found = json.loads(cli("data", "inspect", path, "--json").out)
    assert (found["format"], found["separator"], found["encoding"], found["has_header"]) == ("text", ",", "utf-8", True)
    expected = {"name": "user", "type": "integer", "distinct": 20, "share_empty": 0, "role": "user"}
    assert found["columns"][0] == expected | {"examples": ["0", "1", "2"]}
    assert found["behaviours"][0] == {"name": "click", "response": "is_click", "weight": 1.0, "rate": 0.25}
    assert (found["missing"], found["problems"], found["warnings"]) == ([], [], [])
    assert (found["sizes"]["core"], found["sizes"]["slate_size"], found["sizes"]["users_with_split"]) == (20, 5, 20)
    assert shlex.split(found["command"])[:4] == ["gfn4rec", "data", "prepare", str(path)]


def test_a_part_of_a_file_says_so(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_log, "inspect_log", lambda path, layout: inspection.inspect_log(path, layout, 100))
    text = cli("data", "inspect", write(tmp_path / "log.csv", make_log(CLICKS))).out
    assert "Only the first 100 rows were read; all that follows is about these." in text


def test_problems_and_what_is_missing_are_printed(cli: Cli, tmp_path: Path) -> None:
    text = cli("data", "inspect", write(tmp_path / "log.csv", make_log(CLICKS, user="whom"))).out
    assert "Missing: no column of user ids was recognised; name it with --user-column.\n" in text
    assert "\nFill in what is missing:\n" in text
    log = make_log({**CLICKS, "timestamp": lambda row: f"{1 + row % 9}.2.2024"})
    text = cli("data", "inspect", write(tmp_path / "log.csv", log)).out
    assert "Problem: " in text
    assert "Warning: '1.2.2024' in 'timestamp' may begin with the day or the month; write 2024-01-31.\n" in text
    assert "click      click     1       ?" in text
    assert "\nOnce the problem is solved, prepare the log with:\n" in text


def test_options_replace_what_is_guessed(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", make_log({**RATINGS, "note": lambda _: "é,;"}), separator="|", encoding="cp1252")
    found = json.loads(cli("data", "inspect", path, "--separator", "|", "--encoding", "cp1252", "--json").out)
    assert (found["separator"], found["encoding"], found["warnings"]) == ("|", "cp1252", [])
    assert found["columns"][4]["examples"] == ["é,;"]
    assert cli(*shlex.split(found["command"])[1:], "--out", tmp_path / "out").code == 0
    headless = json.loads(cli("data", "inspect", path, "--no-header", "--separator", "|", "--json").out)
    assert (headless["has_header"], headless["num_rows"]) == (False, 601)


def test_sheets(cli: Cli, fails: Fails, tmp_path: Path) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "book.xlsx")) as book:
        for name in ("January", "February"):
            pl.DataFrame(make_log(RATINGS)).write_excel(book, worksheet=name)
    assert "has the sheets January, February; name one with --sheet" in fails("data", "inspect", tmp_path / "book.xlsx")
    text = cli("data", "inspect", tmp_path / "book.xlsx", "--sheet", "February").out
    assert f"{tmp_path / 'book.xlsx'}: Excel, sheet February, with a header line\n" in text
    pl.DataFrame(make_log(RATINGS)).write_excel(tmp_path / "one.xlsx")
    assert "one.xlsx: Excel, its only sheet, with a header line\n" in cli("data", "inspect", tmp_path / "one.xlsx").out


def test_mistakes(fails: Fails, tmp_path: Path) -> None:
    assert "gone.csv: no such file" in fails("data", "inspect", tmp_path / "gone.csv")
    assert "is a folder; name the log file in it" in fails("data", "inspect", tmp_path)
    path = write(tmp_path / "log.csv", make_log(RATINGS))
    assert "encoding: no such encoding; try utf-8" in fails("data", "inspect", path, "--encoding", "utf-9")
    pl.DataFrame(make_log(RATINGS)).write_parquet(tmp_path / "log.parquet")
    line = fails("data", "inspect", tmp_path / "log.parquet", "--no-header")
    assert "log.parquet: --no-header has no meaning for this format" in line

"""`gfn4rec data prepare --session-gap`, `--session-column` and `--history`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli

ROWS = "user,item,time,visit,click\n1,1,0,a,1\n1,2,10,a,0\n1,3,100,a,1\n1,4,110,b,0\n"
PREPARE = ("--core", 1, "--slate-size", 2, "--behaviour", "click")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(ROWS)
    return tmp_path / "log.csv"


def test_sessions_and_histories_are_reported(cli: Cli, log: Path, tmp_path: Path) -> None:
    options = ("--session-gap", 60, "--history", "responded")
    result = cli("data", "prepare", log, *PREPARE, *options, "--out", tmp_path / "out")
    assert result.code == 0, result.err
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert {"sessions 2", "rows with a response, for histories 2", "train 1"} <= set(lines)
    plain = cli("data", "prepare", log, *PREPARE, "--out", tmp_path / "plain").out.splitlines()
    assert not any(line.strip().startswith(("sessions ", "rows with a response")) for line in plain)


def test_show_prints_the_histories_that_are_used(cli: Cli, log: Path, tmp_path: Path) -> None:
    options = ("--slate-size", 1, "--session-column", "visit", "--history", "responded")
    assert cli("data", "prepare", log, *PREPARE[:2], *PREPARE[4:], *options, "--out", tmp_path / "out").code == 0
    shown = cli("data", "show", tmp_path / "out", "--split", "train", "--count", 9).out
    assert shown.count("history of 0 events") == 1
    assert shown.count("history of 1 events") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--session-gap", 0), "--session-gap 0: write a number of seconds above 0"),
        (("--session-gap", -1.5), "--session-gap -1.5: write a number of seconds above 0"),
        (("--session-gap", "nan"), "--session-gap nan: write a number of seconds above 0"),
        (("--session-gap", "inf"), "--session-gap inf: write a number of seconds above 0"),
        (("--session-gap", 9, "--order", "file"), "--session-gap needs times, and this log has none; leave it out"),
        (("--session-gap", 9, "--session-column", "visit"), "--session-gap has no meaning for a log with a column of"),
        (("--session-column", "vist"), "no column 'vist'; did you mean 'visit'?"),
        (("--session-column", "time"), "the columns of time and session are the same, 'time'"),
    ],
)
def test_bad_options(
    fails: Callable[..., str], log: Path, tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    assert message in fails("data", "prepare", log, *PREPARE, *options, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_published_data_have_no_sessions_of_their_own(fails: Callable[..., str], tmp_path: Path) -> None:
    error = fails("data", "prepare", "synthetic-tiny", "--session-column", "visit", "--out", tmp_path / "out")
    assert "--session-column has no meaning for synthetic-tiny; leave it out" in error

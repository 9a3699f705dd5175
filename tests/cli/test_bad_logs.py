"""Own logs that are read but wrong, and what `data prepare` says of them."""

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import xlsxwriter

from tests.conftest import Cli

Fails = Callable[..., str]

ROWS = [f"{user},{item},{item},0,0,r{user}-{item // 3},{item % 3},0.5" for user in (1, 2) for item in range(6)]
HEADER = "user,item,time,click,like,request,rank,p"
SIZES = ("--core", 1, "--slate-size", 2)


def write_sheet(path: Path, lines: list[str]) -> None:
    with xlsxwriter.Workbook(str(path)) as book:
        sheet = book.add_worksheet()
        for number, line in enumerate(lines):
            sheet.write_row(number, 0, line.split(","))


def test_an_impression_log_without_any_response(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("\n".join([HEADER, *ROWS]) + "\n")
    options = ("--slate-column", "request", "--behaviour", "click", "--behaviour", "like", *SIZES)
    prepared = cli("data", "prepare", tmp_path / "log.csv", *options, "--out", tmp_path / "out")
    line = "no row has any response, so there is nothing to learn: click, like never occur; check what counts as one"
    assert prepared.out.count("Warning: ") == 1
    assert f"Warning: {line}.\n" in prepared.out
    assert json.loads(cli("data", "describe", tmp_path / "out", "--json").out)["warnings"] == [line]


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        (
            "2,9,9,0,0,r1-0,9,0.5",
            ("--slate-column", "request"),
            "column 'request' has a slate of another user: {} line 14 ('r1-0'); give the slates of each user their own "
            "ids, as in USER-SLATE",
        ),
        (
            "1,9,9,0,0,r1-0,0,0.5",
            ("--slate-column", "request", "--position-column", "rank"),
            "column 'rank' repeats within a slate: {} line 14 (0.0)",
        ),
        ("1,9,9,0,0,r,0,0", ("--propensity-column", "p"), "column 'p' is no probability above 0: {} line 14 (0.0)"),
        ("1,9,9,0,0,r,0,1.5", ("--propensity-column", "p"), "column 'p' is no probability above 0: {} line 14 (1.5)"),
    ],
)
def test_slates_positions_and_propensities(
    fails: Fails, tmp_path: Path, row: str, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "log.csv").write_text("\n".join([HEADER, *ROWS, row]) + "\n")
    line = fails("data", "prepare", tmp_path / "log.csv", "--behaviour", "click", *SIZES, *options)
    assert message.format(tmp_path / "log.csv") in line


@pytest.mark.parametrize("name", ["log.csv", "quoted.csv", "log.xlsx"])
def test_columns_with_one_name(fails: Fails, tmp_path: Path, name: str) -> None:
    lines = [HEADER.replace("like", "click"), *ROWS]
    if name == "log.xlsx":
        write_sheet(tmp_path / name, lines)
    else:
        mark = '"' if name == "quoted.csv" else ""
        (tmp_path / name).write_text("".join(f"{mark}{line.replace(',', f'{mark},{mark}')}{mark}\n" for line in lines))
    line = fails("data", "prepare", tmp_path / name, "--behaviour", "click", *SIZES, "--out", tmp_path / "out")
    assert f"{name}: 2 columns are called 'click'; rename one of them" in line
    assert not (tmp_path / "out").exists()


def test_names_in_a_sheet_may_end_in_numbers(cli: Cli, tmp_path: Path) -> None:
    lines = [HEADER.replace("like", "click_1"), *ROWS]
    write_sheet(tmp_path / "log.xlsx", lines)
    command = ("data", "prepare", tmp_path / "log.xlsx", "--behaviour", "click_1", *SIZES, "--out", tmp_path / "out")
    assert cli(*command).code == 0


def test_an_archive_with_several_files(fails: Fails, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        for month in ("may", "june"):
            archive.writestr(f"{month}.csv", "\n".join([HEADER, *ROWS]) + "\n")
    line = fails("data", "prepare", tmp_path / "logs.zip", "--behaviour", "click")
    assert "logs.zip: holds may.csv, june.csv; unpack it and name one file, or several in a TOML file" in line
    assert "logs.zip: holds may.csv, june.csv; unpack it" in fails("data", "inspect", tmp_path / "logs.zip")


def test_a_compressed_log_gives_its_data_set_its_own_name(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress("\n".join([HEADER, *ROWS, ""]).encode()))
    options = ("--behaviour", "click", *SIZES, "--out", tmp_path / "out", "--json")
    assert json.loads(cli("data", "prepare", tmp_path / "log.csv.gz", *options).out)["name"] == "log"

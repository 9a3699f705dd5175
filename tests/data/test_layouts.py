"""The same log in every layout gives the same data set."""

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import xlsxwriter

from gfn4rec.data.interactions import Interactions
from gfn4rec.data.prepare import PrepareConfig, prepare
from gfn4rec.data.read import ReadOptions, read_data
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.errors import UserError

BEHAVIOURS = ("click", "like", "share", "hate")
NUMBERED: dict[str, Any] = {
    "user_column": "1",
    "item_column": "2",
    "time_column": "3",
    "behaviour": tuple(f"{name}={number}" for number, name in enumerate(BEHAVIOURS, start=4)),
    "no_header": True,
}
CONFIG = PrepareConfig(core=5)


@pytest.fixture(scope="module")
def log() -> pl.DataFrame:
    flags = pl.col(BEHAVIOURS).cast(pl.Int8)
    return generate(PRESETS["tiny"], seed=0)[1].log.with_columns(flags)


def zipped(path: Path, **files: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_", "."), text)


Write = Callable[[pl.DataFrame, Path], object]
LAYOUTS: dict[str, tuple[Write, dict[str, Any]]] = {
    "log.csv": (lambda log, path: log.write_csv(path), {}),
    "log.tsv": (lambda log, path: log.write_csv(path, separator="\t"), {}),
    "log.txt": (lambda log, path: log.write_csv(path, separator=";"), {}),
    "log.psv": (lambda log, path: log.write_csv(path, separator="|"), {}),
    "quoted.tsv": (lambda log, path: log.write_csv(path, separator="\t", quote_style="always"), {}),
    "headerless.csv": (lambda log, path: log.write_csv(path, include_header=False), NUMBERED),
    "headerless.tsv": (lambda log, path: log.write_csv(path, include_header=False, separator="\t"), NUMBERED),
    "log.csv.gz": (lambda log, path: path.write_bytes(gzip.compress(log.write_csv().encode())), {}),
    "log.csv.zip": (lambda log, path: zipped(path, log_csv=log.write_csv()), {}),
    "log.tsv.zip": (lambda log, path: zipped(path, log_tsv=log.write_csv(separator="\t")), {}),
    "lines.zip": (lambda log, path: zipped(path, log_jsonl=log.write_ndjson()), {}),
    "log.parquet": (lambda log, path: log.write_parquet(path), {}),
    "log.jsonl": (lambda log, path: log.write_ndjson(path), {}),
    "log.xlsx": (lambda log, path: log.write_excel(path), {}),
    "headerless.xlsx": (lambda log, path: log.write_excel(path, include_header=False), NUMBERED),
    "sheet.xlsx": (lambda log, path: log.write_excel(path, worksheet="January"), {"sheet": "January"}),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_the_same_data_set(log: pl.DataFrame, tmp_path: Path, name: str) -> None:
    write, options = LAYOUTS[name]
    write(log, tmp_path / name)
    read = read_data(str(tmp_path / name), ReadOptions(**({"behaviour": BEHAVIOURS} | options)))
    from_file = prepare(read, CONFIG, tmp_path / "file", "log")
    frame = Interactions.from_frame(log, behaviours={name: name for name in BEHAVIOURS})
    from_frame = prepare(frame, CONFIG, tmp_path / "frame", "log")
    assert from_file.files == from_frame.files
    assert from_file.statistics == from_frame.statistics


def read(path: Path, **options: Any) -> Interactions:
    return read_data(str(path), ReadOptions(**({"behaviour": ("click",)} | options)))


CSV = "user,item,time,click\n1,1,1,0\n1,2,2,1\n"


def test_archives_of_several_files_or_none(tmp_path: Path) -> None:
    zipped(tmp_path / "two.zip", a_csv=CSV, b_csv=CSV)
    with pytest.raises(UserError, match="two.zip: holds a.csv, b.csv; unpack it and name one file, or several in a T"):
        read(tmp_path / "two.zip")
    zipped(tmp_path / "none.zip")
    with pytest.raises(UserError, match="none.zip: holds nothing; unpack it"):
        read(tmp_path / "none.zip")
    (tmp_path / "broken.zip").write_bytes(b"PK no archive")
    with pytest.raises(UserError, match="broken.zip: not a complete zip file"):
        read(tmp_path / "broken.zip")
    with zipfile.ZipFile(tmp_path / "mac.zip", "w") as archive:
        archive.writestr("log.csv", CSV)
        archive.writestr("__MACOSX/._log.csv", "")
    assert read(tmp_path / "mac.zip").log.height == 2


def test_errors_in_archives_and_sheets_name_the_place(tmp_path: Path) -> None:
    zipped(tmp_path / "log.zip", log_csv=CSV + "1,3,3,yes\n")
    with pytest.raises(UserError, match="log.zip line 4: column 'click' is neither 0 nor 1: 'yes'"):
        read(tmp_path / "log.zip")
    rows = {"user": [1, 1], "item": [1, None], "time": [1, 2], "click": [0, 1]}
    pl.DataFrame(rows).write_excel(tmp_path / "log.xlsx")
    with pytest.raises(UserError, match="column 'item' has no value: .*log.xlsx row 3"):
        read(tmp_path / "log.xlsx")


def test_sheets(tmp_path: Path, log: pl.DataFrame) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "book.xlsx")) as book:
        log.write_excel(book, worksheet="January")
        log.head(10).write_excel(book, worksheet="February")
    with pytest.raises(UserError, match="book.xlsx: has the sheets January, February; name one with --sheet"):
        read(tmp_path / "book.xlsx")
    with pytest.raises(UserError, match="book.xlsx: no sheet 'Febuary'; did you mean 'February'?"):
        read(tmp_path / "book.xlsx", sheet="Febuary")
    assert read(tmp_path / "book.xlsx", sheet="February").log.height == 10
    (tmp_path / "text.xlsx").write_text(CSV)
    with pytest.raises(UserError, match="text.xlsx: not a readable Excel file"):
        read(tmp_path / "text.xlsx")


def test_a_sheet_may_end_in_blank_rows(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = {"user": [1, 1, None], "item": [1, 2, None], "time": [1, 2, None], "click": [0, 1, None]}
    frame = pl.DataFrame(rows).with_columns(comment=pl.lit(None, pl.String))
    with xlsxwriter.Workbook(str(tmp_path / "blank.xlsx")) as book:
        sheet = book.add_worksheet()
        for number, row in enumerate([frame.columns, *frame.rows()]):
            sheet.write_row(number, 0, row, book.add_format({"bold": True}))
    assert read(tmp_path / "blank.xlsx").log.rows() == [(1, 1, 1, False), (1, 2, 2, True)]
    assert capfd.readouterr().err == ""


def test_dates_in_a_sheet_are_times(tmp_path: Path) -> None:
    when = pl.Series(["2024-01-31 10:00:00", "2024-01-31 09:00:00"])
    frame = pl.DataFrame({"user": [1, 1], "item": [1, 2], "time": when.str.to_datetime(), "click": [0, 1]})
    frame.write_excel(tmp_path / "log.xlsx")
    assert read(tmp_path / "log.xlsx").log["time"].diff().to_list() == [None, -3_600_000_000]


def test_fractions_in_a_sheet_stay_fractions(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": [1, 1], "item": [1, 2], "time": [1, 2], "rating": [4.0, 4.5]})
    frame.write_excel(tmp_path / "log.xlsx")
    assert read(tmp_path / "log.xlsx", behaviour=("like=rating>=4.5",)).log.rows() == [
        (1, 1, 1, False),
        (1, 2, 2, True),
    ]


def test_a_file_without_header_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("7,1,100,0\n7,2,200,1\n")
    with pytest.raises(UserError, match="if the first line is no header, pass --no-header and name columns by number"):
        read(tmp_path / "log.csv")
    pl.DataFrame({"user": [1]}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(UserError, match="log.parquet: --no-header has no meaning for this format"):
        read(tmp_path / "log.parquet", no_header=True)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(UserError, match="empty.csv: is empty"):
        read(tmp_path / "empty.csv", no_header=True)

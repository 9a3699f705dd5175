"""A DataFrame is prepared in one call, to the same files as the CSV file of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from gfn4rec import Interactions, PrepareConfig, UserError, prepare
from gfn4rec.data.read import ReadOptions, read_data

ROWS: dict[str, list[Any]] = {
    "uid": [f"u{row % 3}" for row in range(36)],
    "vid": [row % 9 for row in range(36)],
    "ts": [1_700_000_000 - row for row in range(36)],
    "when": [f"2024-01-31 10:{59 - row:02d}:00" for row in range(36)],
    "is_click": [row % 2 for row in range(36)],
    "rating": [1 + row % 5 for row in range(36)],
}
CONFIG = PrepareConfig(core=2, slate_size=3)
BEHAVIOURS = {"click": "is_click", "like": "rating>=4"}

Make = Callable[[dict[str, list[Any]]], Any]


def polars_datetimes(rows: dict[str, list[Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows).with_columns(pl.col("when").str.to_datetime(time_unit="ms"))


def pandas_datetimes(rows: dict[str, list[Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows).assign(when=pd.to_datetime(rows["when"]))


@pytest.mark.parametrize(
    ("make", "time"),
    [
        (pl.DataFrame, "ts"),
        (pd.DataFrame, "ts"),
        (pl.DataFrame, "when"),
        (pd.DataFrame, "when"),
        (polars_datetimes, "when"),
        (pandas_datetimes, "when"),
        (pl.DataFrame, None),
        (pd.DataFrame, None),
    ],
)
def test_a_frame_gives_the_files_of_its_csv(make: Make, time: str | None, tmp_path: Path) -> None:
    names: dict[str, Any] = {"user": "uid", "item": "vid", "time": time, "behaviours": BEHAVIOURS}
    from_frame = prepare(make(ROWS), CONFIG, out=tmp_path / "frame", name="mine", **names, weights={"like": 2})
    pl.DataFrame(ROWS).write_csv(tmp_path / "log.csv")
    options = ReadOptions(
        user_column="uid",
        item_column="vid",
        time_column=time,
        order=None if time else "file",
        behaviour=tuple(f"{name}={response}" for name, response in BEHAVIOURS.items()),
        weight=("like=2",),
    )
    from_file = prepare(read_data(str(tmp_path / "log.csv"), options), CONFIG, tmp_path / "file", "mine")
    assert from_frame.files == from_file.files
    for name in from_file.files:
        assert (tmp_path / "frame" / name).read_bytes() == (tmp_path / "file" / name).read_bytes()
    assert (from_frame.statistics, from_frame.behaviours) == (from_file.statistics, from_file.behaviours)
    assert (from_frame.name, from_frame.settings, from_frame.timed) == ("mine", CONFIG, time is not None)


def test_the_default_config_and_name(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": [row % 20 for row in range(400)], "item": [row // 20 for row in range(400)]})
    frame = frame.with_columns(time=pl.int_range(pl.len()), click=pl.col("item") % 2)
    manifest = prepare(frame, out=tmp_path / "shop", behaviours={"click": "click"})
    assert (manifest.name, manifest.settings, manifest.statistics.slates) == ("shop", PrepareConfig(), 60)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"out": None}, "say where to write the data set, as in out="),
        ({"behaviours": None}, "say what counts as a response, as in behaviours="),
        ({"user": "uidd"}, "frame: no column 'uidd'; did you mean 'uid'?"),
    ],
)
def test_mistakes_end_in_one_line(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {"user": "uid", "item": "vid", "time": "ts", "behaviours": BEHAVIOURS}
    given = {name: value for name, value in ({"out": tmp_path / "out"} | names | columns).items() if value is not None}
    with pytest.raises(UserError) as error:
        prepare(pl.DataFrame(ROWS), **given)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_interactions_have_their_columns(tmp_path: Path) -> None:
    log = Interactions.from_frame(pl.DataFrame(ROWS), user="uid", item="vid", time="ts", behaviours=BEHAVIOURS)
    with pytest.raises(UserError, match="user= is for DataFrames; Interactions have their columns, leave it out"):
        prepare(log, CONFIG, tmp_path / "out", user="uid")

"""A log in a DataFrame is read as the same log in a file is."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Feature, FeatureTable, Interactions
from gfn4rec.data.prepare import PrepareConfig, prepare
from gfn4rec.data.read import ReadOptions, read_data
from gfn4rec.errors import UserError

NUM_ROWS = 24
COLUMNS: dict[str, list[Any]] = {
    "uid": [f"u{row % 3}" for row in range(NUM_ROWS)],
    "vid": [row % 8 for row in range(NUM_ROWS)],
    "when": [f"2024-01-31 10:{59 - row:02d}:00" for row in range(NUM_ROWS)],
    "ts": [1000 - row for row in range(NUM_ROWS)],
    "is_click": [row % 2 for row in range(NUM_ROWS)],
    "rating": [1.0 + row % 5 for row in range(NUM_ROWS)],
    "note": ["not needed"] * NUM_ROWS,
}
NAMES: dict[str, Any] = {"user": "uid", "item": "vid"}
BEHAVIOURS = {"click": "is_click", "like": "rating >= 4"}

Make = Callable[[dict[str, list[Any]]], Any]


class ArrowTable:
    """A table of another library, known by Arrow's interface alone."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._frame = pl.DataFrame(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def nullable(columns: dict[str, list[Any]]) -> pd.DataFrame:
    """A pandas frame with pandas' own types instead of those of numpy."""
    return pd.DataFrame(columns).convert_dtypes().astype({"uid": "category"})


MAKERS = [pd.DataFrame, pl.DataFrame, pl.LazyFrame, ArrowTable, nullable]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    pl.DataFrame(COLUMNS).write_csv(tmp_path / "log.csv")
    return tmp_path / "log.csv"


def from_csv(path: Path, time: str) -> Interactions:
    behaviour = tuple(f"{name}={response}" for name, response in BEHAVIOURS.items())
    options = ReadOptions(
        user_column="uid", item_column="vid", time_column=time, behaviour=behaviour, weight=("like=2",)
    )
    return read_data(str(path), options)


def assert_same(one: Interactions, other: Interactions) -> None:
    assert one.log.equals(other.log)
    assert one.log.schema == other.log.schema
    assert one.behaviours == other.behaviours
    assert (one.timed, one.rho, one.raw_columns) == (other.timed, other.rho, other.raw_columns)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("time", ["ts", "when"])
def test_a_frame_is_read_as_the_file_is(csv: Path, make: Make, time: str) -> None:
    read = Interactions.from_frame(make(COLUMNS), **NAMES, time=time, behaviours=BEHAVIOURS, weights={"like": 2})
    assert_same(read, from_csv(csv, time))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_datetimes_of_every_unit_are_those_of_the_file(csv: Path, unit: str, zone: str | None) -> None:
    when = pd.Series(pd.to_datetime(COLUMNS["when"])).dt.as_unit(unit).dt.tz_localize(zone)
    frames = [pd.DataFrame(COLUMNS).assign(when=when)]
    if unit != "s":
        column = pl.col("when").str.to_datetime(time_unit=unit).dt.replace_time_zone(zone)  # type: ignore[arg-type]
        frames.append(pl.DataFrame(COLUMNS).with_columns(column))
    for frame in frames:
        read = Interactions.from_frame(frame, **NAMES, time="when", behaviours=BEHAVIOURS, weights={"like": 2})
        assert_same(read, from_csv(csv, "when"))


def test_nanoseconds_that_matter_are_kept() -> None:
    frame = pl.DataFrame({"user": [1, 1], "item": [1, 2], "time": [1, 2], "click": [0, 1]})
    frame = frame.with_columns(pl.col("time").cast(pl.Datetime("ns")))
    assert Interactions.from_frame(frame, behaviours={"click": "click"}).log["time"].to_list() == [1, 2]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_decimals_of_databases_are_seconds(make: Make) -> None:
    times = [Decimal("1700000000.25"), Decimal("1700000000.50")]
    frame = make({"user": [1, 1], "item": [1, 2], "time": times, "click": [0, 1]})
    assert Interactions.from_frame(frame, behaviours={"click": "click"}).log["time"].to_list() == [
        1_700_000_000.25,
        1_700_000_000.5,
    ]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_rows_in_order_need_no_time(make: Make) -> None:
    read = Interactions.from_frame(make(COLUMNS), **NAMES, time=None, behaviours=BEHAVIOURS)
    assert not read.timed
    assert read.log["time"].to_list() == list(range(NUM_ROWS))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_from_a_frame_to_a_prepared_directory(csv: Path, tmp_path: Path, make: Make) -> None:
    titles = pl.DataFrame({"id": range(8), "genre": ["drama"] * 8})
    read = Interactions.from_frame(
        make(COLUMNS),
        **NAMES,
        time="ts",
        behaviours=BEHAVIOURS,
        weights={"like": 2},
        items=FeatureTable(titles.lazy(), (Feature("genre", "categorical"),)),
        rho=0.3,
    )
    config = PrepareConfig(core=1, slate_size=2)
    manifest = prepare(read, config, tmp_path / "shop")
    assert (manifest.name, manifest.rho, manifest.raw_files) == ("shop", 0.3, ())
    like = {"column": "rating", "comparison": ">=", "value": 4, "weight": 2}
    assert manifest.origin == {
        "log": {"user": "uid", "item": "vid", "time": "ts"},
        "behaviours": {"click": {"column": "is_click"}, "like": like},
    }
    data = SlateData.open(tmp_path / "shop")
    assert data.item_features.categorical.keys() == {"genre"}
    by_file = prepare(from_csv(csv, "ts"), config, str(tmp_path / "file"), "shop")
    assert by_file.files["log.parquet"] == manifest.files["log.parquet"]
    assert by_file.statistics == manifest.statistics


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"user": "uidd"}, "log: no column 'uidd'; did you mean 'uid'?"),
        ({}, {"time": "date"}, "or, if the rows are in order, pass time=None"),
        ({}, {"user": "vid"}, "log: the columns of user and item are the same, 'vid'"),
        ({}, {"behaviours": {"like": "raing>=4"}}, "log: no column 'raing'; did you mean 'rating'?"),
        ({}, {"behaviours": {"like": "rating=>4"}}, "behaviours['like'] = 'rating=>4': write COLUMN, "),
        ({}, {"behaviours": {"like": "rating>=x"}}, "behaviours['like'] = 'rating>=x': 'x' is not a number"),
        ({}, {"behaviours": {"like": "rating>=nan"}}, "'rating>=nan': 'nan' is not a number"),
        ({}, {"behaviours": {"time": "rating>=4"}}, "behaviour 'time': names must differ"),
        ({}, {"behaviours": {"late": "ts"}}, "behaviour 'late': column 'ts' holds the time already"),
        ({}, {"behaviours": {}}, "no behaviour given"),
        ({}, {"weights": {"lik": 2}}, "weights['lik']: there is no behaviour of this name"),
        ({}, {"weights": {"like": float("inf")}}, "behaviour 'like' has the weight inf"),
        ({"is_click": [2, *[0] * (NUM_ROWS - 1)]}, {}, "column 'is_click' is not 0 or 1: row 1 (2)"),
        ({"is_click": ["yes", *["0"] * (NUM_ROWS - 1)]}, {}, "log row 1: column 'is_click' is neither 0 nor 1: 'yes'"),
        ({"vid": [None, *range(NUM_ROWS - 1)]}, {}, "column 'vid' has no value: row 1"),
        ({"ts": [*range(NUM_ROWS - 1), None]}, {}, f"column 'ts' has no value: row {NUM_ROWS}"),
        ({"ts": [None, *[datetime(2024, 1, 31)] * (NUM_ROWS - 1)]}, {}, "column 'ts' has no value: row 1"),
        ({"uid": [1.5] * NUM_ROWS}, {}, "column 'uid' holds Float64; ids are integers or strings"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    make: Make, changes: dict[str, list[Any]], arguments: dict[str, Any], message: str
) -> None:
    defaults = {**NAMES, "time": "ts", "behaviours": BEHAVIOURS, "name": "log"}
    with pytest.raises(UserError) as error:
        Interactions.from_frame(make(COLUMNS | changes), **(defaults | arguments))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(UserError, match="frame: pass a pandas or polars DataFrame, not dict"):
        Interactions.from_frame(COLUMNS, behaviours=BEHAVIOURS)
    mixed = pd.DataFrame(COLUMNS).assign(uid=[1, *["x"] * (NUM_ROWS - 1)])
    with pytest.raises(UserError, match="frame: column 'uid' mixes values of several types; convert it to one"):
        Interactions.from_frame(mixed, **NAMES, time="ts", behaviours=BEHAVIOURS)
    twice = pd.concat([pd.DataFrame(COLUMNS), pd.DataFrame({"uid": COLUMNS["uid"]})], axis=1)
    with pytest.raises(UserError, match="frame: 2 columns are called 'uid'; rename one of them"):
        Interactions.from_frame(twice, **NAMES, time="ts", behaviours=BEHAVIOURS)

"""Slates that were really shown: their order, length and positions, and logs with one row per event."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Interactions
from gfn4rec.data.prepare import PrepareConfig, prepare
from gfn4rec.data.read import ReadOptions, read_data
from gfn4rec.errors import UserError

# Two users. Slates a and b of user 1 overlap in time; c is too short, d is too long. Rows are in no order.
SHOWN = """uid,request,vid,pos,ts,click,p
1,b,4,2,11,1,0.5
1,a,1,1,10,0,0.25
1,b,5,1,12,0,1
1,a,2,2,13,1,0.5
2,d,7,3,21,0,1
2,d,6,1,20,1,1
2,d,8,2,22,1,0.5
1,c,1,1,30,1,1
2,e,1,1,40,0,1
2,e,7,2,40,1,1
"""
OPTIONS: dict[str, Any] = {
    "user_column": "uid",
    "item_column": "vid",
    "time_column": "ts",
    "slate_column": "request",
    "behaviour": ("click",),
}
CONFIG = PrepareConfig(core=1, slate_size=2, test_slates=1, val_slates=0)


def prepared(folder: Path, text: str = SHOWN, **options: Any) -> SlateData:
    folder.mkdir(exist_ok=True)
    (folder / "log.csv").write_text(text)
    prepare(read_data(str(folder / "log.csv"), ReadOptions(**(OPTIONS | options))), CONFIG, folder / "out")
    return SlateData.open(folder / "out", history_length=4)


def raw_items(data: SlateData, items: Any) -> list[Any]:
    """Return the ids in the log of items, of any shape; padding is 0."""
    ids = [0, *data.items["id"].to_list()]
    return [[ids[item] for item in row] for row in items.tolist()]


def test_slates_are_those_that_were_shown(tmp_path: Path) -> None:
    data = prepared(tmp_path, position_column="pos")
    batch = data.slates(data.split("train"))
    assert raw_items(data, batch.slate_BK) == [[1, 2], [6, 8]]
    assert batch.response_BKR[:, :, 0].tolist() == [[0, 1], [1, 1]]
    assert raw_items(data, batch.request.history_BH) == [[0, 0, 0, 0], [0, 0, 0, 0]]
    batch = data.slates(data.split("test"))
    assert raw_items(data, batch.slate_BK) == [[5, 4], [1, 7]]
    assert raw_items(data, batch.request.history_BH) == [[0, 0, 1, 2], [0, 6, 8, 7]]  # the third item of d is kept
    assert raw_items(data, data.latest(batch.request.user_B).history_BH)[0] == [2, 5, 4, 1]  # with the short slate
    counts = data.manifest.statistics
    assert (counts.shown_slates, counts.short_slates, counts.rows_beyond) == (5, 1, 1)
    assert (counts.rows_in_slates, counts.rows, counts.rows_skipped, counts.rows_leading) == (8, 10, 0, 0)


def test_positions_count_from_the_first_of_the_log_and_end_with_the_slate(tmp_path: Path) -> None:
    data = prepared(tmp_path, position_column="pos")
    rows = torch.arange(data.num_rows)
    pairs = list(zip(raw_items(data, data.item_at(rows)[:, None]), data.position_at(rows).tolist(), strict=True))
    # Slates a, b, c of user 1, then d and e of user 2; the third place of d counts as the second.
    places = [(1, 0), (2, 1), (5, 0), (4, 1), (1, 0), (6, 0), (8, 1), (7, 1), (1, 0), (7, 1)]
    assert pairs == [([item], place) for item, place in places]
    assert data.has_positions
    assert not prepared(tmp_path / "other").has_positions


def test_without_positions_times_order_a_slate(tmp_path: Path) -> None:
    data = prepared(tmp_path)
    assert raw_items(data, data.slates(data.split("test")).slate_BK) == [[4, 5], [1, 7]]
    assert raw_items(data, data.slates(data.split("train")).slate_BK) == [[1, 2], [6, 7]]


def test_without_times_the_file_orders_slates(tmp_path: Path) -> None:
    data = prepared(tmp_path, time_column=None, order="file", position_column="pos")
    assert raw_items(data, data.slates(data.split("train")).slate_BK) == [[5, 4], [6, 8]]


def test_positions_and_propensities_are_kept(tmp_path: Path) -> None:
    data = prepared(tmp_path, position_column="pos", propensity_column="p")
    log = pl.read_parquet(tmp_path / "out" / "log.parquet")
    assert log["position"].to_list() == [1, 2, 1, 2, 1, 1, 2, 3, 1, 2]
    assert log["propensity"].to_list() == [0.25, 0.5, 1, 0.5, 1, 1, 0.5, 1, 1, 1]
    assert log["slate"].to_list() == [0, 0, 1, 1, 2, 3, 3, 3, 4, 4]
    again = prepare(data.interactions(), CONFIG, tmp_path / "again", "out")
    assert {name: file.content_sha256 for name, file in again.files.items()} == {
        name: file.content_sha256 for name, file in data.manifest.files.items()
    }
    assert again.statistics == data.manifest.statistics


def test_a_repeated_row_of_a_slate_is_dropped_and_counted(tmp_path: Path) -> None:
    counts = prepared(tmp_path, SHOWN + "1,a,1,1,14,1,1\n1,c,1,1,31,1,1\n").manifest.statistics
    assert (counts.duplicate_records, counts.conflicting_duplicates, counts.rows) == (2, 1, 10)


EVENTS = """uid,request,vid,pos,ts,event
1,a,1,1,10,view
1,a,2,2,10,view
1,a,2,2,12,like
1,b,3,1,14,view
1,a,2,2,13,buy
1,b,4,2,14,view
1,b,3,1,19,buy
1,a,1,1,20,like
"""
IMPRESSIONS = """uid,request,vid,pos,ts,like,buy
1,a,1,1,10,1,0
1,a,2,2,10,1,1
1,b,3,1,14,0,1
1,b,4,2,14,0,0
"""


def test_events_become_the_rows_of_impressions(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "impressions").mkdir()
    behaviour = ("like=event==like", "buy=event==buy")
    events = prepared(tmp_path / "events", EVENTS, behaviour=behaviour, position_column="pos", merge_events=True)
    impressions = prepared(tmp_path / "impressions", IMPRESSIONS, behaviour=("like", "buy"), position_column="pos")
    assert events.manifest.files == impressions.manifest.files
    counts = events.manifest.statistics
    assert (counts.raw_records, counts.merged_rows, counts.records) == (8, 4, 4)


def test_events_without_slates_are_merged_by_user_and_item() -> None:
    frame = pl.DataFrame(
        {"user": [1, 1, 2, 1], "item": [5, 6, 5, 5], "time": [9, 4, 3, 2], "event": ["buy", "view", "view", "view"]}
    )
    merged = Interactions.from_frame(frame, behaviours={"buy": "event==buy"}, merge_events=True)
    assert sorted(merged.log.rows()) == [(1, 5, 2, True), (1, 6, 4, False), (2, 5, 3, False)]
    assert merged.num_merged == 1
    in_order = Interactions.from_frame(frame, behaviours={"buy": "event==buy"}, time=None, merge_events=True)
    assert in_order.log.rows() == [(1, 5, 0, True), (1, 6, 1, False), (2, 5, 2, False)]


@pytest.mark.parametrize(
    ("more", "options", "message"),
    [
        ("2,a,9,9,1,0,1\n", {}, "column 'request' has a slate of another user: {log} line 12 ('a'); give the slates"),
        ("1,,9,9,1,0,1\n", {}, "column 'request' has no value: {log} line 12; fill it in"),
        ("1,a,9,1,1,0,1\n", {"position_column": "pos"}, "column 'pos' repeats within a slate: {log} line 12 (1"),
        ("1,a,9,,1,0,1\n", {"position_column": "pos"}, "column 'pos' is not a whole number: {log} line 12;"),
        ("1,a,9,1.5,1,0,1\n", {"position_column": "pos"}, "column 'pos' is not a whole number: {log} line 12 (1.5)"),
        ("1,a,9,9,1,0,0\n", {"propensity_column": "p"}, "column 'p' is no probability above 0: {log} line 12 (0.0)"),
        ("1,a,9,9,1,0,1.1\n", {"propensity_column": "p"}, "column 'p' is no probability above 0: {log} line 12 (1.1)"),
        ("1,a,9,9,1,0,\n", {"propensity_column": "p"}, "column 'p' is no probability above 0: {log} line 12;"),
        ("", {"slate_column": "request_id"}, "no column 'request_id'; did you mean 'request'?"),
        ("", {"slate_column": None, "position_column": "pos"}, "name the column of these, too (--slate-column)"),
        ("", {"slate_column": "uid"}, "the columns of user and slate are the same, 'uid'"),
        ("", {"behaviour": ("seen=pos>=1",), "position_column": "pos"}, "column 'pos' holds the position already"),
    ],
)
def test_bad_slates(tmp_path: Path, more: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        prepared(tmp_path, SHOWN + more, **options)
    assert message.format(log=tmp_path / "log.csv") in str(error.value)
    assert "\n" not in str(error.value)


def test_slates_that_are_all_too_short(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(SHOWN)
    interactions = read_data(str(tmp_path / "log.csv"), ReadOptions(**OPTIONS))
    with pytest.raises(UserError, match="--slate-size 4: no slate has that many items after the filter; .* has 3"):
        prepare(interactions, PrepareConfig(core=1, slate_size=4), tmp_path / "out")

"""What histories hold: sessions by pauses and by a column, and rows with a response, on logs read off by hand."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from pydantic import ValidationError

from gfn4rec.config import identity_values
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import content_of, identity_of, refuse_other_data
from gfn4rec.data.interactions import Interactions
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.read import ReadOptions, read_data
from gfn4rec.errors import UserError

# User 1 meets items 1 to 6 with pauses of 10, 60, 61, 9 and 10 seconds, user 2 items 1 and 3; rows are numbered 0 to 7.
LOG = """uid,vid,ts,visit,click,hate
1,1,0,x,1,0
1,2,10,x,0,0
1,3,70,y,0,1
1,4,131,x,0,0
1,5,140,x,1,1
1,6,150,z,0,0
2,1,0,z,0,0
2,3,5,z,1,0
"""
OPTIONS: dict[str, Any] = {
    "user_column": "uid",
    "item_column": "vid",
    "time_column": "ts",
    "behaviour": ("click", "hate"),
    "weight": ("hate=-1",),
}
CONFIG = PrepareConfig(core=1, slate_size=2, test_slates=1, val_slates=0)
WHOLE = [[], [1], [1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [], [1]]
GAP_60 = [[], [1], [1, 2], [], [4], [4, 5], [], [1]]
VISITS = [[], [1], [], [], [4], [], [], [1]]


def prepared(folder: Path, text: str = LOG, config: PrepareConfig = CONFIG, **options: Any) -> SlateData:
    (folder / "log.csv").write_text(text)
    prepare(read_data(str(folder / "log.csv"), ReadOptions(**(OPTIONS | options))), config, folder / "out")
    return SlateData.open(folder / "out", history_length=3)


def wanted(**changes: Any) -> PrepareConfig:
    return PrepareConfig(**(CONFIG.model_dump() | changes))


def padded(histories: list[list[int]]) -> list[list[int]]:
    return [[0] * (3 - len(history)) + history for history in histories]


@pytest.mark.parametrize(
    ("changes", "column", "histories", "latest"),
    [
        ({}, None, WHOLE, [[4, 5, 6], [1, 3]]),
        ({"session_gap": 60}, None, GAP_60, [[4, 5, 6], [1, 3]]),  # a pause of exactly the gap begins nothing
        ({"session_gap": 59.5}, None, [*GAP_60[:2], [], *GAP_60[3:]], [[4, 5, 6], [1, 3]]),
        ({"session_gap": 61}, None, WHOLE, [[4, 5, 6], [1, 3]]),
        ({"session_gap": 9}, None, [[], [], [], [], [4], [], [], [1]], [[6], [1, 3]]),
        ({}, "visit", VISITS, [[6], [1, 3]]),  # x again after y is another session
        ({"history": "responded"}, None, [[], [1], [1], [1, 3], [1, 3], [1, 3, 5], [], []], [[1, 3, 5], [3]]),
        ({"history": "responded", "session_gap": 60}, None, [[], [1], [1], [], [], [5], [], []], [[5], [3]]),
        ({"history": "responded"}, "visit", [[], [1], [], [], [], [], [], []], [[], [3]]),
    ],
)
def test_histories_of_every_row(
    tmp_path: Path, changes: dict[str, Any], column: str | None, histories: list[list[int]], latest: list[list[int]]
) -> None:
    data = prepared(tmp_path, config=wanted(**changes), session_column=column)
    assert data.requests(torch.arange(8)).history_BH.tolist() == padded(histories)
    request = data.latest(torch.tensor([1, 2, 0]))
    assert request.history_BH.tolist() == padded([*latest, []])
    assert request.user_B.tolist() == [1, 2, 0]
    assert data.items_of(1).tolist() == [1, 2, 3, 4, 5, 6]  # whatever histories hold
    assert data.items_of(2).tolist() == [1, 3]


def test_events_keep_their_responses_and_padding_has_none(tmp_path: Path) -> None:
    data = prepared(tmp_path, config=wanted(history="responded"))
    request = data.requests(torch.tensor([1, 5]))
    assert request.response_BHR.tolist() == [[[0, 0], [0, 0], [1, 0]], [[1, 0], [0, 1], [1, 1]]]
    assert data.with_history(2).requests(torch.tensor([5])).history_BH.tolist() == [[3, 5]]
    assert data.manifest.statistics.responded_rows == 4
    assert data.manifest.statistics.rows == 8


def test_ignored_rows_stay_in_slates(tmp_path: Path) -> None:
    one, other = (prepared(tmp_path, config=wanted(history=history)) for history in ("all", "responded"))
    for data in (one, other):
        slates = data.slates(torch.arange(data.num_slates))
        assert slates.slate_BK.tolist() == [[1, 2], [3, 4], [5, 6], [1, 3]]
        assert slates.reward_B.tolist() == [0.5, -0.5, 0.0, 0.5]


def test_a_log_without_any_response_has_empty_histories(tmp_path: Path) -> None:
    lines = LOG.splitlines()
    text = "\n".join([lines[0], *(line[:-4] + ",0,0" for line in lines[1:])]) + "\n"
    data = prepared(tmp_path, text, wanted(history="responded"))
    assert data.requests(torch.arange(8)).history_BH.eq(0).all()
    assert data.latest(torch.tensor([0, 1])).history_BH.eq(0).all()


def test_slates_that_are_cut_stay_within_a_session(tmp_path: Path) -> None:
    data = prepared(tmp_path, config=wanted(session_gap=60))
    slates = data.slates(torch.arange(data.num_slates))
    assert slates.slate_BK.tolist() == [[2, 3], [5, 6], [1, 3]]
    assert slates.request.history_BH.tolist() == padded([[1], [4], []])
    counts = data.manifest.statistics
    assert (counts.sessions, counts.slates, counts.rows_leading, counts.rows_skipped) == (3, 3, 2, 0)
    assert (counts.test_slates, counts.train_slates) == (1, 2)  # the last slate of a user is held out, as ever


def test_a_repeated_item_is_skipped_only_within_its_session(tmp_path: Path) -> None:
    """Items 1, 2, 2 in one session and 2, 3, 4 in the next: the first 2 of the next one belongs to no slate."""
    text = "uid,vid,ts,visit,click,hate\n1,1,0,a,1,0\n1,2,1,a,1,0\n1,2,2,a,0,0\n1,2,3,b,0,0\n1,3,4,b,0,0\n1,4,5,b,1,0\n"
    for column, skipped, leading in (("visit", 1, 1), (None, 2, 0)):
        data = prepared(tmp_path, text, session_column=column)
        assert data.slates(torch.arange(data.num_slates)).slate_BK.tolist() == [[1, 2], [3, 4]]
        assert (data.manifest.statistics.rows_skipped, data.manifest.statistics.rows_leading) == (skipped, leading)


def test_slates_longer_than_any_session(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="--slate-size 3: no session has that many distinct items; the most any has is 2"
    ):
        prepared(tmp_path, config=wanted(slate_size=3), session_column="visit")


@pytest.mark.parametrize(("gap", "num_sessions"), [(16, 3), (17, 2), (17.5, 2)])
def test_slates_that_were_shown_are_whole(tmp_path: Path, gap: float, num_sessions: int) -> None:
    """Slates a and b of user 1 overlap; slate c begins 17 seconds after the last row of a, user 2 has one slate."""
    text = (
        "uid,vid,ts,request,click\n1,1,10,a,0\n1,4,11,b,1\n1,5,12,b,0\n1,2,13,a,1\n1,6,30,c,0\n1,7,90,c,0\n2,1,0,d,1\n"
    )
    data = prepared(tmp_path, text, wanted(session_gap=gap), slate_column="request", behaviour=("click",), weight=())
    assert data.manifest.statistics.sessions == num_sessions
    slates = data.slates(torch.arange(data.num_slates))
    before_c = [] if num_sessions == 3 else [2, 3, 4]
    assert slates.slate_BK.tolist() == [[1, 2], [3, 4], [5, 6]]  # numbers, in the order of the sorted log
    assert slates.request.history_BH.tolist() == padded([[], [1, 2], before_c])


BASE = datetime(2024, 1, 31, 10)


@pytest.mark.parametrize("unit", [1, 1_000, 10**6, 10**9, 0.5])
def test_gaps_are_seconds_whatever_the_unit_of_times(tmp_path: Path, unit: float) -> None:
    """Pauses of 60 and 60.5 seconds; numbers are told from each other by their size, 0.5 stands for dates."""
    seconds = (0.0, 60.0, 120.5)
    if unit == 0.5:
        frame = pl.DataFrame({"time": [BASE + timedelta(seconds=second) for second in seconds]})
    elif unit == 1:
        frame = pl.DataFrame({"time": [1.7e9 + second for second in seconds]})
    else:
        frame = pl.DataFrame({"time": [int(unit) * 1_700_000_000 + int(second * unit) for second in seconds]})
    frame = frame.with_columns(user=pl.lit(1), item=pl.Series([1, 2, 3]), click=pl.Series([1, 0, 1]))
    interactions = Interactions.from_frame(frame, behaviours={"click": "click"})
    for gap, num_sessions in ((59.5, 3), (60, 2), (60.5, 1)):
        config = wanted(slate_size=1, session_gap=gap)
        assert prepare(interactions, config, tmp_path / "out").statistics.sessions == num_sessions


@pytest.mark.parametrize("how", [{"session_gap": 60}, {"session_column": "visit"}])
def test_the_log_of_a_data_set_can_be_prepared_again(tmp_path: Path, how: dict[str, Any]) -> None:
    gap = how.get("session_gap")
    data = prepared(tmp_path, config=wanted(session_gap=gap), session_column=how.get("session_column"))
    again = prepare(data.interactions(), wanted(session_gap=gap), tmp_path / "again", "out")
    assert content_of(again) == content_of(data.manifest)
    assert again.statistics == data.manifest.statistics


def test_sessions_from_frames_and_descriptions(tmp_path: Path) -> None:
    by_option = prepared(tmp_path, session_column="visit").manifest
    frame = pl.read_csv(tmp_path / "log.csv")
    behaviours = {"click": "click", "hate": "hate"}
    by_frame = Interactions.from_frame(
        frame, user="uid", item="vid", time="ts", session="visit", behaviours=behaviours, weights={"hate": -1}
    )
    columns = 'user = "uid"\nitem = "vid"\ntime = "ts"\nsession = "visit"\n'
    responses = 'click = "click"\nhate = { column = "hate", weight = -1 }\n'
    (tmp_path / "log.toml").write_text(f'[log]\nfiles = ["log.csv"]\n{columns}[behaviours]\n{responses}')
    for interactions in (by_frame, read_data(str(tmp_path / "log.toml"))):
        assert content_of(prepare(interactions, CONFIG, tmp_path / "other")) == content_of(by_option)


def test_events_of_two_sessions_are_not_merged() -> None:
    frame = pl.DataFrame({"user": 1, "item": [5, 5, 5], "time": [1, 2, 3], "visit": ["a", "a", "b"], "buy": [0, 1, 0]})
    merged = Interactions.from_frame(frame, behaviours={"buy": "buy"}, session="visit", merge_events=True)
    assert merged.log.rows() == [(1, 5, 1, True, "a"), (1, 5, 3, False, "b")]


def test_defaults_leave_no_trace(tmp_path: Path) -> None:
    """Data sets that were prepared before there were sessions have the same manifests, digests and identities."""
    data = prepared(tmp_path)
    values = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert values["settings"] == {"core": 1, "slate_size": 2, "test_slates": 1, "val_slates": 0}
    assert not {"sessions", "responded_rows"} & set(values["statistics"])
    columns = pl.read_parquet(tmp_path / "out" / "log.parquet").columns
    assert columns == ["user", "item", "time", "click", "hate", "in_slate"]
    assert set(identity_of(data.manifest).model_dump()) == {"name", "users_sha256", "items_sha256", "behaviours"}
    assert data.manifest.histories == ()
    assert set(identity_values(content_of(data.manifest))["settings"]) == set(values["settings"])
    other = prepared(tmp_path, config=wanted(history="responded"))
    assert identity_values(content_of(other.manifest))["settings"]["history"] == "responded"
    assert content_of(other.manifest).files == content_of(data.manifest).files


def test_weights_are_refused_with_other_histories(tmp_path: Path) -> None:
    whole = identity_of(prepared(tmp_path).manifest)
    by_gap = prepared(tmp_path, config=wanted(session_gap=1800, history="responded")).manifest
    by_column = prepared(tmp_path, session_column="visit").manifest
    assert by_gap.histories == ("--session-gap 1800", "--history responded")
    assert by_column.histories == ("--session-column",)
    message = (
        r"sim: made for other histories \(whole logs\) than those of out \(--session-gap 1800 --history responded\)"
    )
    with pytest.raises(UserError, match=message):
        refuse_other_data(whole, by_gap, Path("sim"))
    with pytest.raises(
        UserError, match=r"made for other histories \(--session-column\) than those of out \(--session-g"
    ):
        refuse_other_data(identity_of(by_column), by_gap, Path("sim"))
    refuse_other_data(identity_of(by_gap), by_gap, Path("sim"))


@pytest.mark.parametrize(
    ("more", "gap", "options", "message"),
    [
        ("", None, {"session_column": "vist"}, "no column 'vist'; did you mean 'visit'?"),
        ("", None, {"session_column": "uid"}, "the columns of user and session are the same, 'uid'"),
        ("1,9,99,,1,0\n", None, {"session_column": "visit"}, "column 'visit' has no value: {log} line 10; fill it in"),
        (
            "",
            60,
            {"session_column": "visit"},
            "--session-gap has no meaning for a log with a column of sessions; leave",
        ),
        (
            "",
            60,
            {"order": "file", "time_column": None},
            "--session-gap needs times, and this log has none; leave it out",
        ),
        (
            "3,1,0,x,1,7\n3,2,0,y,1,7\n",
            None,
            {"slate_column": "hate", "session_column": "visit", "behaviour": ("click",), "weight": ()},
            "column 'visit' changes within a slate: {log} line 3 ('y'); give all items of a slate the same session",
        ),
    ],
)
def test_bad_sessions(tmp_path: Path, more: str, gap: float | None, options: dict[str, Any], message: str) -> None:
    text = LOG + more if "same session" not in message else LOG.splitlines()[0] + "\n" + more
    with pytest.raises(UserError) as error:
        prepared(tmp_path, text, wanted(session_gap=gap), **options)
    assert message.format(log=tmp_path / "log.csv") in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("gap", [0, -1, float("nan"), float("inf")])
def test_bad_gaps(gap: float) -> None:
    with pytest.raises(ValidationError):
        PrepareConfig(session_gap=gap)

"""What `data inspect` says will go wrong, beside what `data prepare` does."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gfn4rec.data.inspection import inspect_log
from gfn4rec.data.readers.layout import FileLayout
from gfn4rec.errors import UserError
from tests.data.inspection_example import (
    CLICKS,
    IMPRESSIONS,
    NUM_ROWS,
    RATINGS,
    Columns,
    date,
    make_log,
    responses,
    roles,
    seconds,
    write,
)


def found_in(folder: Path, more: Columns, option: str = "warnings") -> str:
    """Return the warnings (or problems, or what is missing) of a log with these columns."""
    found = inspect_log(write(folder / "log.csv", make_log(more)))
    return "\n".join(getattr(found, option))


@pytest.mark.parametrize(
    ("column", "value", "warning"),
    [
        ("click", lambda _: 0, "click never occurs; check what counts as click, or leave it out"),
        ("click", lambda row: int(row < 49), "click occurs in only 49 rows, too few to learn from"),
        ("click", lambda _: 1, "the log has only positive responses: every row is something that the user chose; "),
        ("rating", lambda _: 5, "the log has only positive responses"),
        ("event", lambda _: "purchase", "the log has only positive responses"),
        (
            "click",
            lambda row: row % 2 if row else None,
            "column 'click' has no value: {log} line 2; fill it in",
        ),
        ("session_id", lambda row: row // 4, "'session_id' is not used; if it says which items were shown together"),
        ("a=click", lambda row: row % 2, "'a=click' cannot be named in --behaviour; rename the column to use it"),
        ("click in feed", lambda row: row % 2, "'click in feed' cannot be named in --behaviour"),
        ("rank", lambda row: row % 5, "'rank' is not used, because positions belong to slates; name these with"),
    ],
)
def test_columns_that_say_little(tmp_path: Path, column: str, value: Callable[[int], object], warning: str) -> None:
    others: Columns = {"timestamp": seconds, "like": lambda row: row % 2}
    if warning.startswith("the log"):
        del others["like"]
    lines = found_in(tmp_path, {**others, column: value})
    assert warning.format(log=tmp_path / "log.csv") in lines
    if warning.startswith("the log"):
        assert "`gfn4rec train offline` with the default policy learns from it what users choose" in lines
        assert "true in every row" not in lines


@pytest.mark.parametrize(
    ("changes", "warning", "left_out"),
    [
        ({"requestId": lambda row: f"r{row // 5}"}, "'requestId' has a slate of another user: {log} line 3", "slate"),
        ({"rank": lambda row: row // 40}, "'rank' repeats within a slate: {log} line", "position"),
        ({"propensity": lambda row: row % 3}, "'propensity' is no probability above 0: {log} line 2 (0.0)", "propens"),
        ({"propensity": lambda row: 1 + row % 3}, "is no probability above 0: {log} line 3 (2.0)", "propensity"),
    ],
)
def test_what_is_wrong_and_not_needed_is_left_out(
    tmp_path: Path, changes: Columns, warning: str, left_out: str
) -> None:
    found = inspect_log(write(tmp_path / "log.csv", make_log({**IMPRESSIONS, **changes})))
    (line,) = [line for line in found.warnings if line.endswith("the command leaves it out")]
    assert warning.format(log=tmp_path / "log.csv") in line
    options = {word for word in found.command.split() if word.endswith("-column")}
    everything = {f"--{name}-column" for name in ("time", "slate", "position", "propensity")}
    gone = {option for option in everything if option.startswith(f"--{left_out}")}
    assert options == everything - gone - ({"--position-column"} if left_out == "slate" else set())


@pytest.mark.parametrize(
    ("time", "problem"),
    [
        (
            lambda row: seconds(row) * (1000 if row == 7 else 1),
            "'timestamp' mixes seconds and milliseconds: {log} line 9",
        ),
        (
            lambda row: f"{1 + row % 12:02d}/{1 + row % 28:02d}/2024",
            "'timestamp' is not a time; write a number, or 2024",
        ),
        (lambda row: date(row) if row != 5 else "soon", "line 7: column 'timestamp' is not a date and time like the"),
        (lambda row: seconds(row) if row else None, "column 'timestamp' has no value: {log} line 2; fill it in"),
    ],
)
def test_times_that_cannot_be_read(tmp_path: Path, time: Callable[[int], object], problem: str) -> None:
    found = inspect_log(write(tmp_path / "log.csv", make_log({**CLICKS, "timestamp": time})))
    assert problem.format(log=tmp_path / "log.csv") in "\n".join(found.problems)
    assert len(found.problems) == 1
    assert roles(found)["timestamp"] == "time"
    assert found.behaviours[0].rate is None
    assert found.sizes is None


def test_ambiguous_dates_are_explained(tmp_path: Path) -> None:
    more: Columns = {**CLICKS, "timestamp": lambda row: f"{1 + row % 12:02d}/{1 + row % 28:02d}/2024"}
    line = "'01/01/2024' in 'timestamp' may begin with the day or the month; write 2024-01-31"
    assert line in found_in(tmp_path, more)


def test_dates_without_the_year_in_front_are_not_passed_over(tmp_path: Path) -> None:
    log = make_log({"Stand": lambda row: f"{1 + row % 28:02d}.01.2024 10:00", "click": lambda row: row % 2})
    found = inspect_log(write(tmp_path / "log.csv", log))
    assert roles(found)["Stand"] == "time"
    assert found.problems[0].startswith(f"{tmp_path / 'log.csv'} line 2: column 'Stand' is not a time; write a number")
    assert "--order file" not in found.command


def test_words_for_a_missing_value(tmp_path: Path) -> None:
    log = make_log({**CLICKS, "click": lambda row: "NULL" if row == 9 else row % 2})
    log["user"][4] = "NULL"
    found = inspect_log(write(tmp_path / "log.csv", log))
    assert (roles(found)["user"], roles(found)["click"]) == ("user", "response")
    assert "line 11: column 'click' is neither 0 nor 1: 'NULL'" in found.problems[0]
    log["click"][9] = 0
    found = inspect_log(write(tmp_path / "log.csv", log))
    assert found.problems == (f"column 'user' has no value: {tmp_path / 'log.csv'} line 6; fill it in or drop the row",)


def test_objects_in_json_lines(tmp_path: Path) -> None:
    log = make_log({"timestamp": seconds, "props": lambda row: {"click": row % 2}})
    pl.DataFrame(log).write_ndjson(tmp_path / "log.jsonl")
    found = inspect_log(tmp_path / "log.jsonl")
    assert "props" not in roles(found)
    assert "'props' holds objects; give each of their values that you need a column of its own" in found.warnings


def test_without_times_the_file_orders_rows(tmp_path: Path) -> None:
    found = inspect_log(write(tmp_path / "log.csv", make_log({"click": lambda row: row % 2})))
    assert found.command.endswith("--order file --behaviour click")
    assert "rows are in the order of the file; name it with --time-column" in found.warnings[0]


def test_what_is_missing_is_named_with_its_option(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", make_log({"click": lambda row: row % 2}, "a", "b"))
    found = inspect_log(path)
    assert found.missing == (
        "no column of user ids was recognised; name it with --user-column",
        "no column of item ids was recognised; name it with --item-column",
    )
    assert "--user-column COLUMN --item-column COLUMN" in found.command
    path = write(tmp_path / "log.csv", make_log({"watch_ratio": lambda row: row / 7, "ts": seconds}, "session_id"))
    user, response = inspect_log(path).missing
    assert user.endswith("name it with --user-column, as in --user-column session_id if a session stands for a user")
    assert 'as in --behaviour "like=watch_ratio>=X"; if every row is something that the user chose, add' in response


def test_a_quantity_says_that_everything_was_chosen(tmp_path: Path) -> None:
    found = inspect_log(write(tmp_path / "log.csv", make_log({"ts": seconds, "quantity": lambda row: 1 + row % 3})))
    assert responses(found) == {"chosen": "quantity>0"}
    assert "only positive responses" in found.warnings[-1]
    ones: Columns = {"ts": seconds, "x": lambda _: 1, "y": lambda _: 0}
    found = inspect_log(write(tmp_path / "log.csv", make_log(ones)))
    assert responses(found) == {"x": "x"}
    assert "only positive responses" in found.warnings[-1]


def test_columns_that_share_a_name(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,item,time,click\n" + "1,2,3,4,1\n1,3,3,5,0\n" * 20)
    found = inspect_log(tmp_path / "log.csv")
    assert found.missing == ("no column of item ids was recognised; name it with --item-column",)
    assert "2 columns are called 'item', so none of them can be used; rename one" in found.warnings


def test_lines_of_another_length(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", make_log(CLICKS))
    path.write_text(path.read_text() + "1,2\n1,2,1700000000,0\n")
    found = inspect_log(path)
    assert found.num_rows == NUM_ROWS + 1
    problem = "2 fields where 4 are expected; the line is broken or the file is truncated"
    assert found.problems == (f"{path} line 602: {problem}",)


def test_a_header_in_the_middle(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", make_log(CLICKS))
    header = path.read_text().partition("\n")[0]
    path.write_text(f"{path.read_text()}{header}\n1,2,1700000000,1\n")
    found = inspect_log(path)
    assert (found.num_rows, responses(found)) == (NUM_ROWS + 1, {"click": "click"})
    assert found.problems == (f"{path} line 602: repeats the header line; delete it",)


def test_sizes_that_a_log_bears(tmp_path: Path) -> None:
    """Five users have four rows each, and one has twelve: slates of six are possible for one user only."""
    lines = [f"u{user},{item},{item},{item % 2}" for user in range(5) for item in range(4)]
    lines += [f"u5,{item},{item},{item % 2}" for item in range(12)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["user,item,time,click", *lines]) + "\n")
    found = inspect_log(path)
    assert found.sizes is not None
    assert (found.sizes.core, found.sizes.slate_size, found.sizes.share_kept_by_default) == (1, 6, 0)
    assert (found.sizes.users_with_slate, found.sizes.users_with_split) == (1, 0)
    warnings = "\n".join(found.warnings)
    assert "the default --core 20 would keep only 0% of these rows; --core 1 is suggested\n" in warnings
    assert "only 1 of 6 users have at least 6 rows, so most give nothing to learn from" in warnings
    assert found.command.endswith("--behaviour click --core 1")
    partial = inspect_log(path, most_rows=20)
    assert partial.command.endswith("--core 1 --slate-size 4")
    assert any(line.endswith("--core 1 is suggested, but the whole file may bear more") for line in partial.warnings)


def test_rows_for_one_slate_but_not_for_three(tmp_path: Path) -> None:
    """Ten users have eight rows each, of which two at all are liked."""
    lines = [
        f"{user},{item},{item},{item % 2},{int(user < 2 and item == 0)}" for user in range(10) for item in range(8)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["user,item,time,click,like", *lines]) + "\n")
    warnings = inspect_log(tmp_path / "log.csv").warnings
    assert warnings[:2] == (
        "click occurs in only 40 rows, too few to learn from; leave it out",
        "like occurs in only 2 rows, too few to learn from; leave it out",
    )
    assert warnings[-1] == (
        "only 0 of 10 users have at least 18 rows, as one slate each for training, validation and test needs; "
        "--slate-size 3 or --val-slates 0 needs fewer"
    )


def test_few_slates_that_were_shown(tmp_path: Path) -> None:
    log = make_log({**IMPRESSIONS, "requestId": lambda row: f"r{row % 20}" if row % 20 < 15 else f"r{row}"})
    found = inspect_log(write(tmp_path / "log.csv", log))
    assert found.sizes is not None
    assert (found.sizes.has_slates, found.sizes.users) == (True, 20)


def test_files_that_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("")
    with pytest.raises(UserError, match=r"own.toml: describes a log in TOML; inspect the log file that it names"):
        inspect_log(tmp_path / "own.toml")
    with pytest.raises(UserError, match="is a folder; name the log file in it"):
        inspect_log(tmp_path)
    for name in ("gone.csv", "gone.zip", "gone.parquet"):
        with pytest.raises(UserError, match=f"{name}: no such file"):
            inspect_log(tmp_path / name)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(UserError, match="empty.csv: is empty"):
        inspect_log(tmp_path / "empty.csv")
    (tmp_path / "commented.csv").write_text("# exported in May\nuser,item\n1,2\n")
    with pytest.raises(UserError, match=r"commented.csv: its first line is a comment; delete the lines before"):
        inspect_log(tmp_path / "commented.csv")
    (tmp_path / "broken.parquet").write_text("PAR1")
    with pytest.raises(UserError, match="broken.parquet: not a readable Parquet file"):
        inspect_log(tmp_path / "broken.parquet")
    (tmp_path / "broken.jsonl").write_text('{"user": 1}\n[1\n')
    with pytest.raises(UserError, match="broken.jsonl line 2: not a JSON object"):
        inspect_log(tmp_path / "broken.jsonl")
    (tmp_path / "log.csv").write_bytes(b"user,item\n\xff,1\n")
    with pytest.raises(UserError, match="log.csv line 2: not utf-8 text .byte 0xff.; name its encoding"):
        inspect_log(tmp_path / "log.csv", FileLayout(encoding="utf-8"))


def test_no_row_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,time,click\n")
    with pytest.raises(UserError, match="has a header line and no rows"):
        inspect_log(path)
    path.write_text("user,item,time,click\n1,2,3,0,\n1,3,4,1,\n")
    with pytest.raises(UserError, match=r"line 2: 5 fields where 4 are expected; the header lacks the separator at"):
        inspect_log(path)


def test_nested_values_and_types_of_frames(tmp_path: Path) -> None:
    log = make_log({**RATINGS, "genres": lambda row: ["a", "b"][: 1 + row % 2]})
    frame = pl.DataFrame(log).with_columns(pl.col("timestamp").cast(pl.Datetime("ms")), pl.col("user").cast(pl.String))
    frame.with_columns(pl.col("user").cast(pl.Categorical)).write_parquet(tmp_path / "log.parquet")
    found = inspect_log(tmp_path / "log.parquet")
    assert [column.type for column in found.columns] == ["integer", "integer", "integer", "date", "nested"]
    assert (found.columns[4].distinct, found.problems) == (2, ())

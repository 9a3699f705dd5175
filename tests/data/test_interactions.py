import polars as pl
import pytest

from gfn4rec.data.interactions import Behaviour, Interactions, RawFile, at_least
from gfn4rec.errors import UserError
from tests.conftest import make_interactions

CLICK = (Behaviour("click"),)


def build(**columns: list[object]) -> Interactions:
    defaults: dict[str, list[object]] = {"user": [1, 2], "item": [1, 2], "time": [1, 2], "click": [0, 1]}
    return Interactions(pl.DataFrame(defaults | columns), CLICK)


def test_a_good_log_is_taken_and_trimmed_to_its_columns() -> None:
    interactions = build(extra=["a", "b"], click=[0.0, 1.0])
    assert interactions.log.columns == ["user", "item", "time", "click"]
    assert interactions.log["click"].dtype == pl.Boolean
    assert interactions.log["click"].to_list() == [0, 1]
    assert build(click=[False, True]).log["click"].to_list() == [0, 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"click": [0, 2]}, "column 'click' is not 0 or 1: row 2 (2)"),
        ({"click": [None, 1]}, "column 'click' has no value: row 1; fill it in"),
        ({"click": [0.5, 1.0]}, "column 'click' is not 0 or 1: row 1 (0.5)"),
        ({"click": [float("nan"), 1.0]}, "column 'click' is not 0 or 1: row 1 (nan)"),
        ({"click": ["yes", "no"]}, "column 'click' holds String; responses are 0 or 1"),
        ({"user": [None, 2]}, "column 'user' has no value: row 1"),
        ({"item": [None, None]}, "column 'item' has no value: row 1, row 2"),
        ({"item": [1.5, 2.0]}, "column 'item' holds Float64; ids are integers or strings"),
        ({"time": [None, 2]}, "column 'time' has no value: row 1; fill it in, or pass --order file"),
        ({"time": [1.0, float("nan")]}, "column 'time' has no value: row 2 (nan)"),
        ({"time": [1.0, float("inf")]}, "column 'time' has no value: row 2 (inf)"),
        ({"time": ["a", "b"]}, "column 'time' holds String; times are numbers, or dates and times"),
        (
            {"time": [1_700_000_000, 1_700_000_000_000]},
            "column 'time' mixes seconds and milliseconds: row 2 (1700000000000); write all times in one unit",
        ),
        (
            {"time": [1_700_000_000_000_000, 1_700_000_000_000]},
            "column 'time' mixes milliseconds and microseconds: row 1 (1700000000000000); write all times in one unit",
        ),
    ],
)
def test_a_bad_value_is_named_with_its_row(columns: dict[str, list[object]], message: str) -> None:
    with pytest.raises(UserError) as error:
        build(**columns)
    assert message in str(error.value)


def test_times_in_one_unit_are_not_taken_for_a_mixture() -> None:
    small = [0, 1_700_000_000_000]  # of a clock of its own; not seconds since 1970
    for times in ([1_700_000_000, 1_800_000_000], [1_700_000_000_000, 1_700_000_100_000], small):
        assert build(time=[*times]).log["time"].to_list() == times
    log = pl.DataFrame({"user": [1, 2], "item": [1, 2], "time": [1_700_000_000, 1_700_000_000_000], "click": [0, 1]})
    assert Interactions(log, CLICK, timed=False).log.height == 2


@pytest.mark.parametrize("wrong", [0, -1, 99_999_999, 9_999_999_999])
def test_a_time_far_from_all_others_is_refused(wrong: int) -> None:
    """What stands for an unknown time would put the row first or last in the history of its user."""
    columns: dict[str, list[object]] = {name: [1] * 10 for name in ("user", "item", "click")}
    times = [1_700_000_000, wrong, *[900_000_000] * 8]  # of 1998, and before it no unit is known
    assert build(**columns, time=[*times]).log["time"].to_list() == times
    with pytest.raises(UserError, match=rf"'time' is far from all others: row 2 \({wrong}\); write the right time, or"):
        build(**columns, time=[1_700_000_000, wrong, *[1_000_000_001] * 7, 900_000_000])


def test_only_the_first_offenders_are_listed() -> None:
    with pytest.raises(UserError, match=r"row 1 \(2\), row 2 \(3\), row 3 \(4\) and 2 more; for ratings"):
        build(user=[1] * 5, item=[1] * 5, time=[1] * 5, click=[2, 3, 4, 5, 6])


def test_a_row_is_placed_in_its_file() -> None:
    files = (RawFile("a.csv", str, 2, 2), RawFile("b.parquet", str, 3, 1, "row"), RawFile("items.csv", str))
    log = make_interactions([(1, 1, 1, 0)] * 5).log
    interactions = Interactions(log, CLICK, raw_files=files)
    assert [interactions.locate(row) for row in range(5)] == [
        "a.csv line 2",
        "a.csv line 3",
        "b.parquet row 1",
        "b.parquet row 2",
        "b.parquet row 3",
    ]


def test_columns_and_behaviours_must_be_there() -> None:
    log = make_interactions([(1, 1, 1, 0)]).log
    with pytest.raises(UserError, match="no column 'like'"):
        Interactions(log, (Behaviour("like"),))
    with pytest.raises(UserError, match="no behaviour given"):
        Interactions(log, ())
    with pytest.raises(UserError, match="must differ"):
        Interactions(log, (Behaviour("click"), Behaviour("click")))
    with pytest.raises(UserError, match="must differ"):
        Interactions(log, (Behaviour("time"),))
    with pytest.raises(UserError, match="no interactions"):
        Interactions(log.clear(), CLICK)


def test_integers_of_every_width_and_weights_of_every_size() -> None:
    wide = pl.DataFrame({"user": [1], "item": [2], "time": [3], "click": [1]})
    for dtype in (pl.UInt64, pl.Int8, pl.Int128):
        log = Interactions(wide.with_columns(pl.col("user", "item", "time").cast(dtype)), CLICK).log
        assert log.schema["user"] == log.schema["time"] == pl.Int64
    with pytest.raises(UserError, match="column 'user' holds integers beyond 64 bits; write them as text"):
        Interactions(wide.with_columns(user=pl.Series([2**64 - 1], dtype=pl.UInt64)), CLICK)
    with pytest.raises(UserError, match="behaviour 'click' has the weight inf; weights are finite numbers"):
        Interactions(wide, (Behaviour("click", float("inf")),))


def test_errors_name_the_columns_of_the_file() -> None:
    log = pl.DataFrame({"user": [1], "item": [None], "time": [3], "click": [1]}, schema_overrides={"item": pl.Int64})
    with pytest.raises(UserError, match="column 'video' has no value"):
        Interactions(log, CLICK, raw_columns={"item": "video"})


def test_a_rating_turns_into_a_response_only_if_there_is_one() -> None:
    ratings = pl.DataFrame({"rating": [2.9, 3.0, 5.0, None, float("nan")]})
    assert ratings.select(at_least("rating", 3))["rating"].to_list() == [False, True, True, None, None]

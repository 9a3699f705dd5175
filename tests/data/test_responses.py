"""What counts as a response: columns of 0 and 1, and comparisons of numbers and text."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gfn4rec.data.interactions import Interactions
from gfn4rec.data.read import ReadOptions, read_data
from gfn4rec.errors import UserError

ROWS = {
    "user": [1, 1, 2, 2, 2],
    "item": [1, 2, 3, 4, 5],
    "time": [1, 2, 3, 4, 5],
    "event": ["view", "purchase", "cart", "view", "7"],
    "rating": [1.0, 2.5, 3.0, 4.0, 5.0],
    "flag": [0, 1, 0, 1, 1],
}
CASES = [
    ("event==purchase", [0, 1, 0, 0, 0]),
    ("event == 'purchase'", [0, 1, 0, 0, 0]),
    ("event!=view", [0, 1, 1, 0, 1]),
    ("event in cart, purchase", [0, 1, 1, 0, 0]),
    ("event in (cart,7)", [0, 0, 1, 0, 1]),
    ("event==7", [0, 0, 0, 0, 1]),
    ("event=='7'", [0, 0, 0, 0, 1]),
    ("event!=7.0", [1, 1, 1, 1, 0]),
    ("rating>=3", [0, 0, 1, 1, 1]),
    ("rating > 3", [0, 0, 0, 1, 1]),
    ("rating<3", [1, 1, 0, 0, 0]),
    ("rating<=3", [1, 1, 1, 0, 0]),
    ("rating==3", [0, 0, 1, 0, 0]),
    ("rating!=3", [1, 1, 0, 1, 1]),
    ("rating in 2.5, 5", [0, 1, 0, 0, 1]),
    ("flag", [0, 1, 0, 1, 1]),
    ("flag==0", [1, 0, 1, 0, 0]),
]


def responses(path: Path, *behaviour: str) -> list[list[int]]:
    log = read_data(str(path), ReadOptions(behaviour=behaviour)).log
    return [log[name].cast(pl.Int8).to_list() for name in log.columns[3:]]


@pytest.fixture(params=["csv", "parquet", "jsonl"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path, frame = tmp_path / f"log.{request.param}", pl.DataFrame(ROWS)
    writers: dict[str, Callable[[Path], object]] = {
        "csv": frame.write_csv,
        "parquet": frame.write_parquet,
        "jsonl": frame.write_ndjson,
    }
    writers[request.param](path)
    return path


@pytest.mark.parametrize(("response", "expected"), CASES)
def test_comparisons(path: Path, response: str, expected: list[int]) -> None:
    assert responses(path, f"it={response}") == [expected]
    read = Interactions.from_frame(pl.DataFrame(ROWS), behaviours={"it": response})
    assert read.log["it"].to_list() == expected
    toml = path.with_name("own.toml")
    toml.write_text(f'[log]\nfiles = ["{path.name}"]\n[behaviours]\nit = "{response}"\n')
    assert read_data(str(toml)).log.equals(read.log)


def test_several_behaviours_of_one_column(path: Path) -> None:
    assert responses(path, "five=rating==5", "like=rating>=4") == [[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]]
    assert responses(path, "yes=flag", "no=flag==0") == [ROWS["flag"], [1, 0, 1, 0, 0]]


def test_a_table_says_the_same_as_the_text(path: Path) -> None:
    toml = path.with_name("own.toml")
    for table in ('comparison = ">=", value = 3, weight = 2', "at_least = 3, weight = 2"):
        toml.write_text(
            f'[log]\nfiles = ["{path.name}"]\n[behaviours]\nlike = {{ column = "rating", {table} }}\n'
            'buy = { column = "event", comparison = "in", value = ["purchase", "cart"] }\n'
        )
        read = read_data(str(toml))
        assert read.log["like"].to_list() == [0, 0, 1, 1, 1]
        assert read.log["buy"].to_list() == [0, 1, 1, 0, 0]
        assert [behaviour.weight for behaviour in read.behaviours] == [2, 1]


def test_a_missing_value_is_reported(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,time,event,rating\n1,1,1,view,4\n1,2,2,,5\n1,3,3,view,\n")
    for response in ("event==view", "event!=view"):
        with pytest.raises(UserError, match=r"column 'event' has no value: .*log.csv line 3; fill it in"):
            responses(tmp_path / "log.csv", f"it={response}")
    with pytest.raises(UserError, match=r"column 'rating' has no value: .*log.csv line 4; fill it in"):
        responses(tmp_path / "log.csv", "it=rating<3")


@pytest.mark.parametrize(
    ("behaviours", "message"),
    [
        (("it=event==purchas",), "column 'event' never holds 'purchas'; did you mean 'purchase'?"),
        (("it=event in buy, order",), "column 'event' never holds 'buy'; choose from view"),
        (("it=event!=Viewed",), "column 'event' never holds 'Viewed'"),
        (("it=rating>=high",), "--behaviour 'it=rating>=high': 'high' is not a number"),
        (("it=rating>=",), "--behaviour 'it=rating>=': write COLUMN, "),
        (("rating>=4",), "--behaviour 'rating>=4': begin with a name, as in NAME=rating>=4"),
        (("event==view",), "--behaviour 'event==view': begin with a name, as in NAME=event==view"),
        (("it=rating>4<5",), "'4<5' is not a number"),
        (("it=event>=4",), "column 'event' is not a number: 'view'"),
        (("a=rating>=4", "b=rating==high"), "behaviour 'b': column 'rating' holds numbers for another behaviour"),
        (("it=event",), "column 'event' is neither 0 nor 1: 'view'; say which value counts, as in \"NAME=event=="),
    ],
)
def test_bad_comparisons(tmp_path: Path, behaviours: tuple[str, ...], message: str) -> None:
    pl.DataFrame(ROWS).write_csv(tmp_path / "log.csv")
    with pytest.raises(UserError) as error:
        responses(tmp_path / "log.csv", *behaviours)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('column = "event", comparison = "=="', "comparison and value belong together"),
        ('column = "event", comparison = "in", value = "cart"', "`in` is followed by a list of values"),
        ('column = "event", comparison = "==", value = ["cart"]', "`in` is followed by a list of values"),
        ('column = "event", comparison = "=>", value = 4', "behaviours.it.comparison: Input should be"),
        ('column = "event", comparison = ">", value = 4, at_least = 3', "unknown key 'behaviours.it.at_least'"),
    ],
)
def test_bad_tables(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "own.toml").write_text(f'[log]\nfiles = ["log.csv"]\n[behaviours]\nit = {{ {table} }}\n')
    with pytest.raises(UserError) as error:
        read_data(str(tmp_path / "own.toml"))
    assert message in str(error.value)


def test_lists_are_not_compared() -> None:
    frame = pl.DataFrame(ROWS).with_columns(event=pl.concat_list("event"))
    with pytest.raises(UserError, match="column 'event' holds lists"):
        Interactions.from_frame(frame, behaviours={"it": "event==view"})

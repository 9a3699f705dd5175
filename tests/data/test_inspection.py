"""What is recognised in a log file, and that the suggested command reads the file so."""

import gzip
import json
import shlex
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gfn4rec.data.inspection import Inspection, inspect_log
from gfn4rec.data.readers.layout import FileLayout
from gfn4rec.errors import UserError
from tests.conftest import Cli
from tests.data.inspection_example import (
    IMPRESSIONS,
    NUM_ROWS,
    RATINGS,
    Columns,
    Log,
    date,
    make_log,
    responses,
    roles,
    seconds,
    write,
)

Prepared = Callable[[Inspection], dict[str, object]]


@pytest.fixture
def prepared(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """Run the suggested command as a shell would, and return its summary."""
    monkeypatch.chdir(tmp_path)

    def run(found: Inspection) -> dict[str, object]:
        program, *arguments = shlex.split(found.command)
        assert program == "gfn4rec"
        result = cli(*arguments, "--json", "--out", tmp_path / "out", "--force")
        assert result.code == 0, f"{found.command}\n{result.err}"
        summary: dict[str, object] = json.loads(result.out)
        return summary

    return run


def test_a_log_of_impressions(tmp_path: Path, prepared: Prepared) -> None:
    found = inspect_log(write(tmp_path / "log.csv", make_log(IMPRESSIONS, "userId", "movieId")))
    assert roles(found) == {
        "userId": "user",
        "movieId": "item",
        "requestId": "slate",
        "rank": "position",
        "propensity": "propensity",
        "event_time": "time",
        "is_click": "response",
        "is_hate": "response",
        "genre": "feature",
    }
    columns = {column.name: column for column in found.columns}
    types = [columns[name].type for name in ("userId", "requestId", "propensity", "event_time", "is_click")]
    assert types == ["integer", "text", "number", "date", "flag"]
    assert (columns["movieId"].distinct, columns["genre"].examples) == (30, ("g0", "g1", "g2"))
    guessed = [(each.name, each.response, each.weight, each.rate) for each in found.behaviours]
    assert guessed == [("click", "is_click", 1.0, 0.25), ("hate", "is_hate", -1.0, 0.1)]
    assert (found.num_rows, found.is_whole, found.missing, found.problems, found.warnings) == (600, True, (), (), ())
    summary = prepared(found)
    statistics, settings = summary["statistics"], summary["settings"]
    assert isinstance(statistics, dict)
    assert isinstance(settings, dict)
    assert (statistics["shown_slates"], statistics["rows_in_slates"], settings["slate_size"]) == (120, 600, 5)
    assert summary["behaviours"] == {"click": {"weight": 1, "rate": 0.25}, "hate": {"weight": -1, "rate": 0.1}}
    log = pl.read_parquet(tmp_path / "out" / "log.parquet")
    assert {"slate", "position", "propensity"} <= {*log.columns}


def zipped(path: Path, content: bytes, name: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)


RATED = make_log(RATINGS)
FRAME = pl.DataFrame(RATED)
LAYOUTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "log.csv": (lambda path: FRAME.write_csv(path), ""),
    "log.tsv": (lambda path: FRAME.write_csv(path, separator="\t"), ""),
    "log.txt": (lambda path: FRAME.write_csv(path, separator="|"), ""),
    "quoted.csv": (lambda path: FRAME.write_csv(path, quote_style="always", separator=";"), ""),
    "colons.dat": (lambda path: write(path, RATED, separator="::"), "--separator ::"),
    "spaces.dat": (lambda path: write(path, RATED, separator=" "), "--separator ' '"),
    "wide.csv": (lambda path: write(path, RATED, encoding="utf-16"), "--encoding utf-16"),
    "log.csv.gz": (lambda path: path.write_bytes(gzip.compress(FRAME.write_csv().encode())), ""),
    "log.zip": (lambda path: zipped(path, FRAME.write_csv().encode(), "log.csv"), ""),
    "log.parquet": (lambda path: FRAME.write_parquet(path), ""),
    "log.jsonl": (lambda path: FRAME.write_ndjson(path), ""),
    "log.xlsx": (lambda path: FRAME.write_excel(path), ""),
    "a b's $log.csv": (lambda path: FRAME.write_csv(path), ""),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_recognised(tmp_path: Path, prepared: Prepared, name: str) -> None:
    write_it, options = LAYOUTS[name]
    write_it(tmp_path / name)
    found = inspect_log(tmp_path / name)
    assert roles(found) == {"user": "user", "item": "item", "rating": "rating", "timestamp": "time"}
    assert found.has_header
    assert f"{shlex.quote(str(tmp_path / name))} {options}".strip() in found.command
    assert prepared(found)["behaviours"] == {"like": {"weight": 1, "rate": 0.4}}


@pytest.mark.parametrize("name", ["u.data", "log.csv", "log.xlsx", "text.csv"])
def test_a_file_without_header_is_recognised(tmp_path: Path, prepared: Prepared, name: str) -> None:
    if name.endswith("xlsx"):
        FRAME.write_excel(tmp_path / name, include_header=False)
    else:
        letter = "x" if name == "text.csv" else ""
        log = RATED | {role: [f"{letter}{value}" for value in RATED[role]] for role in ("user", "item")}
        write(tmp_path / name, log, has_header=False, separator="\t" if name == "u.data" else ",")
    found = inspect_log(tmp_path / name)
    assert roles(found) == {"1": "user", "2": "item", "3": "rating", "4": "time"}
    assert not found.has_header
    assert "--no-header --user-column 1 --item-column 2 --time-column 4 --behaviour 'like=3>=4'" in found.command
    assert any("there is no header line" in warning for warning in found.warnings)
    assert prepared(found)["users"] == 20


def test_text_in_another_encoding(tmp_path: Path, prepared: Prepared) -> None:
    log = make_log({**RATINGS, "title": lambda row: f"Amélie {row % 3}"})
    found = inspect_log(write(tmp_path / "log.csv", log, encoding="latin-1"))
    assert found.encoding == "latin-1"
    assert found.columns[4].examples[0] == "Amélie 0"
    assert any("the text is not UTF-8; latin-1 is likely" in warning for warning in found.warnings)
    assert prepared(found)["users"] == 20
    chinese = make_log({**RATINGS, "title": lambda row: f"你好 {row % 3}"})
    path = write(tmp_path / "log.csv", chinese, encoding="gb18030")
    named = inspect_log(path, FileLayout(encoding="gb18030"))
    assert named.columns[4].examples[0] == "你好 0"
    assert not named.warnings
    assert "--encoding gb18030" in named.command


EVENTS: Columns = {
    "event": lambda row: ("view", "view", "purchase", "add to cart", "5 stars")[row // 20 % 5],
    "timestamp": lambda row: 1000 * seconds(row),
}


def with_views(log: Log) -> Log:
    """Return a log of events in which every item was also viewed."""
    return {name: [*values, *(["view"] * NUM_ROWS if name == "event" else values)] for name, values in log.items()}


def test_events_become_behaviours(tmp_path: Path, prepared: Prepared) -> None:
    found = inspect_log(write(tmp_path / "log.csv", make_log(EVENTS, "visitorid", "itemid")))
    assert roles(found) == {"visitorid": "user", "itemid": "item", "event": "event type", "timestamp": "time"}
    assert responses(found) == {
        "view": "event==view",
        "purchase": "event==purchase",
        "add_to_cart": "event==add to cart",
        "5_stars": "event==5 stars",
    }
    assert [behaviour.rate for behaviour in found.behaviours] == [0.4, 0.2, 0.2, 0.2]
    assert "--merge-events" in found.command
    assert "--behaviour 'add_to_cart=event==add to cart'" in found.command
    behaviours = prepared(found)["behaviours"]
    assert isinstance(behaviours, dict)
    assert {name: behaviour["rate"] for name, behaviour in behaviours.items()} == {
        "view": 0.4,
        "purchase": 0.2,
        "add_to_cart": 0.2,
        "5_stars": 0.2,
    }


def test_words_in_other_capitals_are_one_response(tmp_path: Path, prepared: Prepared) -> None:
    words = ("View", "view", "BUY", "buy", "view")
    log = make_log({"timestamp": seconds, "event": lambda row: words[row % 5]}, "userId", "itemId")
    found = inspect_log(write(tmp_path / "log.csv", log))
    assert responses(found) == {"view": "event in View, view", "buy": "event in BUY, buy"}
    assert [behaviour.rate for behaviour in found.behaviours] == [0.6, 0.4]
    behaviours = prepared(found)["behaviours"]
    assert isinstance(behaviours, dict)
    assert {name: behaviour["rate"] for name, behaviour in behaviours.items()} == {"view": 0.6, "buy": 0.4}


@pytest.mark.parametrize(
    ("words", "response", "rate"),
    [
        (("nein", "ja", "nein"), "gekauft==ja", 1 / 3),
        (("Yes", "No", "yes"), "gekauft in Yes, yes", 2 / 3),
        (("Y", "N", "N"), "gekauft==Y", 1 / 3),
    ],
)
def test_responses_may_be_yes_and_no(
    tmp_path: Path, prepared: Prepared, words: tuple[str, ...], response: str, rate: float
) -> None:
    more: Columns = {"Datum": seconds, "gekauft": lambda row: words[row % 3], "Preis": lambda row: f"{row // 20},99"}
    found = inspect_log(write(tmp_path / "log.csv", make_log(more, "Kunde", "Artikel"), separator=";"))
    assert roles(found)["gekauft"] == "response"
    assert (roles(found)["Kunde"], roles(found)["Artikel"], roles(found)["Datum"]) == ("user", "item", "time")
    assert responses(found) == {"gekauft": response}
    assert found.behaviours[0].rate == pytest.approx(rate)
    assert prepared(found)["users"] == 20


def test_ids_that_an_export_wrote_as_floats(tmp_path: Path, prepared: Prepared) -> None:
    """`order_id`, which no two rows share, is no session."""
    more: Columns = {"order_id": lambda row: row, "price": lambda row: row % 7 / 2, "timestamp": seconds}
    log = make_log({**more, "click": lambda row: row % 2}, "customer_id", "product_id")
    log["customer_id"] = [float(str(user)) for user in log["customer_id"]]
    found = inspect_log(write(tmp_path / "log.csv", log))
    assert roles(found) == {
        **{"customer_id": "user", "product_id": "item", "timestamp": "time", "click": "response"},
        "price": "feature",
    }
    assert prepared(found)["users"] == 20


def test_events_that_all_items_had_are_left_out(tmp_path: Path, prepared: Prepared) -> None:
    found = inspect_log(write(tmp_path / "log.csv", with_views(make_log(EVENTS, "visitorid", "itemid"))))
    assert found.num_rows == 1200
    assert {each.name: each.rate for each in found.behaviours} == {"purchase": 0.2, "add_to_cart": 0.2, "5_stars": 0.2}
    assert any("view: after merging, it is true in every row" in warning for warning in found.warnings)
    assert prepared(found)["records"] == 600


def test_recbole_files(tmp_path: Path, prepared: Prepared) -> None:
    names = {"user_id:token": "user", "item_id:token": "item", "rating:float": "rating", "timestamp:float": "timestamp"}
    write(tmp_path / "shop.inter", {name: RATED[plain] for name, plain in names.items()}, separator="\t")
    found = inspect_log(tmp_path / "shop.inter")
    assert roles(found) == {"user_id": "user", "item_id": "item", "rating": "rating", "timestamp": "time"}
    assert found.command == f"gfn4rec data prepare {tmp_path / 'shop.inter'} --behaviour 'like=rating>=4'"
    assert prepared(found)["users"] == 20
    with pytest.raises(UserError, match="shop.inter: the layout of RecBole files is known"):
        inspect_log(tmp_path / "shop.inter", FileLayout(separator=","))


@pytest.mark.parametrize(
    ("ids", "more", "last", "response"),
    [
        (("reviewerID", "asin"), {"unixReviewTime": seconds, "overall": lambda row: 1 + row % 5}, "rating", ">=4"),
        (("uid", "video"), {"ts": seconds, "liked": lambda row: row % 2}, "response", ""),
        (("customer_id", "article_id"), {"t_dat": date, "num_clicks": lambda row: row % 4}, "response", ">=1"),
        (("visitor id", "track id"), {"when": date, "Completed": lambda row: row % 2 > 0}, "response", ""),
        (("USER_ID", "MOVIE_ID"), {"DATE": date, "SCORE": lambda row: (row % 10 + 1) / 2}, "rating", ">=4"),
        (("member", "bookId"), {"created_at": date, "rating": lambda row: 1 + row % 10}, "rating", ">=8"),
        (("user_id", "item_id"), {"time": seconds, "behavior_type": lambda row: 1 + row % 2}, "event type", "==1"),
        (("u", "i"), {"t": lambda row: row, "is_open": lambda row: row % 2}, "response", ""),
        (("user_id", "item_id"), {"moment": seconds, "x": lambda row: row % 2}, "response", ""),  # the only 0 and 1
    ],
)
def test_names_of_many_logs(
    tmp_path: Path, prepared: Prepared, ids: tuple[str, str], more: Columns, last: str, response: str
) -> None:
    found = inspect_log(write(tmp_path / "log.csv", make_log(more, *ids)))
    time, column = more
    assert roles(found) == {ids[0]: "user", ids[1]: "item", time: "time", column: last}
    assert next(iter(responses(found).values())) == f"{column}{response}"
    assert prepared(found)["users"] == 20


def test_names_that_only_seem_to_fit(tmp_path: Path) -> None:
    more: Columns = {
        "user_age": lambda row: 20 + row % 40,
        "movie_title": lambda row: f"film {row // 20}",
        "release_date": lambda row: f"19{50 + row // 20}-01-01",
        "play_time": lambda row: row % 300,
        "viewer_likelihood": lambda row: row % 7,
        "rating_count": lambda row: row % 9,
        "item_type": lambda row: "ab"[row % 2],
        "session": lambda row: row // 10,
        "click_prob": lambda row: row % 9 / 10,
    }
    found = inspect_log(write(tmp_path / "log.csv", make_log({**more, **RATINGS})))
    assert roles(found) == {
        **dict.fromkeys(("play_time", "viewer_likelihood", "rating_count", "item_type"), "feature"),
        **dict.fromkeys(("user_age", "movie_title", "release_date", "click_prob"), "feature"),
        **{"user": "user", "item": "item", "rating": "rating", "timestamp": "time", "session": "session"},
    }


def test_ids_without_a_name_are_known_by_their_values(tmp_path: Path, prepared: Prepared) -> None:
    log: Log = {"from": [row % 30 for row in range(900)], "to": [row // 30 for row in range(900)]}
    log |= {"x": [seconds(row) for row in range(900)], "good": [row % 2 for row in range(900)]}
    found = inspect_log(write(tmp_path / "log.csv", log))
    assert roles(found) == {"from": "user", "to": "item", "x": "time", "good": "response"}
    assert prepared(found)["users"] == 30


def test_at_most_the_first_rows_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", RATED)
    path.write_bytes(path.read_bytes() + b"Zo\xeb,,\n")  # is not reached
    for name in ("log.csv", "log.parquet", "log.jsonl", "log.xlsx"):
        if name != "log.csv":
            LAYOUTS[name][0](tmp_path / name)
        found = inspect_log(tmp_path / name, most_rows=500)
        assert (found.num_rows, found.is_whole, found.encoding) in [(500, False, "utf-8"), (500, False, None)]
        assert not found.problems
        assert found.sizes is not None
        assert (found.sizes.users, found.sizes.items) == (20, 25)
        assert inspect_log(tmp_path / name, most_rows=NUM_ROWS).is_whole == (name != "log.csv")


def test_the_command_keeps_what_was_given(tmp_path: Path, prepared: Prepared) -> None:
    FRAME.write_excel(tmp_path / "book.xlsx", worksheet="May 1")
    found = inspect_log(tmp_path / "book.xlsx", FileLayout(sheet="May 1"))
    assert f"{tmp_path / 'book.xlsx'} --sheet 'May 1' --time-column" in found.command
    prepared(found)
    found = inspect_log(write(tmp_path / "log.csv", RATED, separator="\t"), FileLayout(separator="\\t"))
    assert r"--separator '\t'" in found.command
    prepared(found)


def test_odd_names_and_values_are_quoted(tmp_path: Path, prepared: Prepared) -> None:
    kinds = ("it's", '"buy"', "= 5", " x", "7", "a;b")
    log = make_log({"when did it": date, "$event type": lambda row: kinds[row % 6]}, "user id", "film's id")
    pl.DataFrame(log).write_parquet(tmp_path / "log.parquet")
    found = inspect_log(tmp_path / "log.parquet")
    names = ("it_s", "buy", "5", "x", "7", "a_b")
    assert [name.removesuffix(f"_{place + 1}") for place, name in enumerate(responses(found))] == [*names]
    behaviours = prepared(found)["behaviours"]
    assert isinstance(behaviours, dict)
    assert [behaviour["rate"] for behaviour in behaviours.values()] == [pytest.approx(1 / 6)] * 6

"""The commands as a user types them: what they print, and how each mistake ends."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gfn4rec import __version__
from gfn4rec.data import readers
from gfn4rec.data.download import Archive
from gfn4rec.data.kuairand_files import write_kuairand
from gfn4rec.data.synthetic import PRESETS, generate
from tests.conftest import Cli

Fails = Callable[..., str]

HEADER = "user,item,time,click\n"


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """Write an own log; by default one of two users and six items, out of order in time."""

    def write(*extra: str, header: str = HEADER, name: str = "log.csv") -> Path:
        lines = [f"{user},{item},{99 - item},{item % 2}\n" for user in (1, 2) for item in range(1, 7)]
        path = tmp_path / name
        path.write_text(header + "".join(lines) + "".join(f"{line}\n" for line in extra))
        return path

    return write


FORCE = ("--force",)
PREPARE = ("--core", 1, "--slate-size", 2, "--behaviour", "click")


def test_prepare_describe_show_as_text(cli: Cli, tmp_path: Path) -> None:
    result = cli("data", "prepare", "synthetic-tiny", "--out", tmp_path / "out")
    assert result.code == 0
    assert result.err == ""
    assert "users |U|" in result.out
    assert "synthetic-tiny" in result.out
    assert "Removed by the 20-core filter" in result.out
    assert f"Written to {tmp_path / 'out'}. Show some of it: gfn4rec data show" in result.out
    described = cli("data", "describe", tmp_path / "out")
    assert described.out == result.out.rsplit("\n\nWritten", 1)[0] + "\n"
    text = cli("data", "show", tmp_path / "out", "--count", 2).out
    assert text.count("slate with reward") == 2
    assert text.count(" events, the latest 3:") == 2


def test_json_is_one_object_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    prepared = cli("data", "prepare", "synthetic-tiny", "--out", tmp_path / "out", "--json")
    assert prepared.err == ""
    summary = json.loads(prepared.out)
    assert summary["users"] == summary["statistics"]["users"] > 0
    assert summary.pop("out") == str(tmp_path / "out")
    assert json.loads(cli("data", "describe", tmp_path / "out", "--json").out) == summary
    shown = json.loads(cli("data", "show", tmp_path / "out", "--count", 1, "--split", "val", "--json").out)
    example = shown["examples"][0]
    assert len(example["slate"]) == 6
    assert example["reward"] == pytest.approx(sum(example["item_rewards"]) / 6, abs=1e-6)
    assert example["slate"][0]["title"] == f"item {example['slate'][0]['item']}"
    listed = json.loads(cli("data", "list", "--json").out)
    assert {"ml-1m", "ml-100k", "kuairand-1k", "kuairand-pure", "kuairand-27k", "synthetic-small"} <= listed.keys()


def test_the_default_output_folder(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("data", "prepare", "synthetic-tiny").code == 0
    assert cli("data", "describe", "data/synthetic-tiny").code == 0


def test_examples_show_what_the_log_says(cli: Cli, log: Callable[..., Path], tmp_path: Path) -> None:
    assert cli("data", "prepare", log(), "--out", tmp_path / "out", *PREPARE).code == 0
    shown = json.loads(cli("data", "show", tmp_path / "out", "--json", "--count", 9).out)["examples"]
    assert [example["user"] for example in shown] in ([1, 2], [2, 1])
    for example in shown:  # later items come first in this log
        assert [event["item"] for event in example["history"]] == [6, 5, 4, 3]
        assert [event["item"] for event in example["slate"]] == [2, 1]
        assert [event["responses"] for event in example["slate"]] == [[], ["click"]]
        assert example["reward"] == 0.5


def test_every_option_arrives(cli: Cli, tmp_path: Path) -> None:
    lines = [f"{user};{item};{99 - item};{item % 2};{item % 3}\n" for user in (1, 2) for item in range(1, 9)]
    (tmp_path / "log.txt").write_text("uid;vid;ts;c;h\n" + "".join(lines))
    columns = ("--user-column", "uid", "--item-column", "vid", "--time-column", "ts", "--separator", ";")
    behaviours = ("--behaviour", "click=c", "--behaviour", "hate=h>=2", "--weight", "hate=-2.5")
    sizes = ("--core", 2, "--slate-size", 2, "--test-slates", 2, "--val-slates", 0)
    result = cli(
        "data", "prepare", tmp_path / "log.txt", "--out", tmp_path / "o", *columns, *behaviours, *sizes, "--json"
    )
    summary = json.loads(result.out)
    assert summary["settings"] == {"core": 2, "slate_size": 2, "test_slates": 2, "val_slates": 0}
    assert summary["behaviours"] == {"click": {"weight": 1.0, "rate": 0.5}, "hate": {"weight": -2.5, "rate": 0.375}}
    assert summary["reward_range"] == [-2.5, 1.0]
    assert summary["removed_by_filter"] == {"records": 0, "users": 0, "items": 0}
    counts = summary["statistics"]
    assert (counts["train_slates"], counts["val_slates"], counts["test_slates"]) == (4, 0, 4)
    assert summary["raw_files"].keys() == {"log.txt"}


def test_kuairand_options_arrive(cli: Cli, tmp_path: Path) -> None:
    config = PRESETS["kr1k"].model_copy(update={"num_users": 10, "num_items": 20, "num_rows": 3_000})
    write_kuairand(generate(config)[1], tmp_path / "raw")
    standard = tmp_path / "raw" / "log_standard_4_22_to_5_08_1k.csv"
    prepare = ("data", "prepare", "kuairand-1k", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--json")
    plain = json.loads(cli(*prepare).out)
    assert plain["settings"]["test_slates"] == 4
    assert plain["statistics"]["test_slates"] == 4 * plain["users"]
    standard.rename(tmp_path / "raw" / "log_random_4_22_to_5_08_1k.csv")
    without, with_random = (json.loads(cli(*prepare, *option).out) for option in (FORCE, (*FORCE, "--include-random")))
    assert without["statistics"]["raw_records"] < with_random["statistics"]["raw_records"]
    assert with_random["statistics"]["raw_records"] == plain["statistics"]["raw_records"]


def test_progress_is_shown_on_a_terminal_and_only_on_standard_error(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    result = cli("data", "prepare", "synthetic-tiny", "--out", tmp_path / "out", "--json")
    assert "reading synthetic-tiny" in result.err
    assert json.loads(result.out)["name"] == "synthetic-tiny"


def test_brackets_in_data_are_brackets(cli: Cli, tmp_path: Path) -> None:
    ids = ("[/x]", "[bold]b", "Alive [uncut]", "a[1]")
    rows = "".join(f"[/u],{item},{time},1\n" for time, item in enumerate(ids))
    (tmp_path / "log[1].csv").write_text(HEADER + rows)
    (tmp_path / "log1.csv").write_text(HEADER + "another,file,1,1\n")  # what log[1].csv would mean as a pattern
    out = tmp_path / "[/red] o[1]"
    assert f"Written to {out}" in cli("data", "prepare", tmp_path / "log[1].csv", "--out", out, *PREPARE).out
    text = cli("data", "show", out).out
    assert "User [/u]" in text
    assert "Alive [uncut]" in text
    assert "a[1]" in text


def test_help_without_arguments_is_no_error_message(cli: Cli) -> None:
    for arguments in ((), ("data",)):
        result = cli(*arguments)
        assert "Usage: gfn4rec" in result.out
        assert result.err == ""
    assert cli("data", "-h").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--behaviour", "click=click>=0"), "--behaviour click=click>=0: 'click' is described twice"),
        (
            ("--behaviour", "time=click"),
            "behaviour 'time': names must differ from each other and from user, item, time",
        ),
        (("--behaviour", "*=click"), "behaviour '*': write a name of letters"),
        (("--behaviour", "late=time>=4"), "behaviour 'late': column 'time' holds the time already"),
        (("--weight", "click=nan"), "--weight click=nan: write NAME=NUMBER, with a finite number"),
        (("--weight", "click=1", "--weight", "click=2"), "--weight click=2: 'click' has a weight already"),
        (("--order", "file", "--time-column", "when"), "--time-column has no meaning with --order file"),
        (("--separator", "\u00a7"), "log.separator: write one or more plain characters"),
        (("--encoding", "rot13"), "log.encoding: no such encoding"),
    ],
)
def test_options_that_contradict_each_other(
    fails: Fails, log: Callable[..., Path], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in fails("data", "prepare", log(), "--out", tmp_path / "out", *PREPARE, *options)


def test_a_missing_log_is_a_missing_file(fails: Fails, tmp_path: Path) -> None:
    assert "nope.csv: no such file" in fails("data", "prepare", tmp_path / "nope.csv", *PREPARE)
    assert "a folder without .inter file" in fails("data", "prepare", tmp_path, "--out", tmp_path / "o")


def test_a_taken_place_is_refused_before_the_work(fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    line = fails("data", "prepare", tmp_path / "no log here.csv", "--out", tmp_path, *PREPARE)
    assert "exists and is not a data set; choose another --out" in line


def test_names_that_a_log_with_duplicates_must_survive(cli: Cli, tmp_path: Path) -> None:
    names = ("key", "row", "pair", "row_right", "kept")
    rows = [f"{user},{item % 4},{item // 8},{item % 3 == 0:d}\n" for user in range(2) for item in range(12)]
    (tmp_path / "log.csv").write_text(HEADER + "".join(rows))
    behaviours = [part for name in names for part in ("--behaviour", f"{name}=click")]
    sizes = ("--core", 1, "--slate-size", 2, "--out", tmp_path / "out", "--json")
    counts = json.loads(cli("data", "prepare", tmp_path / "log.csv", *behaviours, *sizes).out)["statistics"]
    kept: dict[tuple[str, ...], str] = {}
    conflicts = sum(kept.setdefault(tuple(row.split(",")[:3]), row) != row for row in rows)
    assert (counts["rows"], counts["conflicting_duplicates"]) == (len(kept), conflicts)


def test_help_has_an_example_everywhere(cli: Cli) -> None:
    for command in ("inspect", "prepare", "describe", "show", "list"):
        result = cli("data", command, "--help")
        assert result.code == 0
        assert "Example: gfn4rec data" in result.out
        assert "--json" in result.out
    assert cli("--version").out == f"gfn4rec {__version__}\n"


@pytest.mark.parametrize("command", [(), ("data",), ("data", "prepare"), ("data", "show"), ("train", "online")])
def test_help_prints_no_type_of_flags(cli: Cli, command: tuple[str, ...]) -> None:
    text = cli(*command, "--help").out
    assert "bool" not in text
    assert re.search(r"--help +-h +Show this message", text)


def test_misspelt_words(fails: Fails, tmp_path: Path) -> None:
    assert "'--core'" in fails("data", "prepare", "ml-1m", "--cor", 5).replace("--core,", "'--core'")
    assert "No such command 'dta'. Did you mean 'data'? See `gfn4rec --help`." in fails("dta")
    assert "gfn4rec: No such command 'frob'. See `gfn4rec data --help`." in fails("data", "frob")
    assert "--count, --json). See `gfn4rec data show --help`." in fails("data", "show", "x", "--cont", 3)
    assert "'--split': 'tset' is not one of 'train', 'val', 'test'." in fails("data", "show", "x", "--split", "tset")
    assert "--core" in fails("data", "prepare", "ml-1m", "--core", "many")
    assert "--core" in fails("data", "prepare", "ml-1m", "--core", 0)
    assert "NAME_OR_PATH" in fails("data", "prepare")
    assert "did you mean 'synthetic-small'?" in fails("data", "prepare", "synthetic-smal")
    assert "not a prepared data set" in fails("data", "describe", tmp_path)
    assert "not a prepared data set" in fails("data", "show", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("extra", "options", "message"),
    [
        (("1,9,50,2",), (), 'log.csv line 14 (2.0); for ratings give a threshold, as in "click=click>=4"'),
        (("1,9,50,",), (), "column 'click' has no value: {folder}/log.csv line 14; fill it in, with 0 for no response"),
        (
            ("1,9,,1",),
            (),
            "column 'time' has no value: {folder}/log.csv line 14; fill it in, or pass --order file",
        ),
        (("1,,50,1",), (), "column 'item' has no value: {folder}/log.csv line 14"),
        (
            ("1,9,noon,1",),
            (),
            "log.csv line 14: column 'time' is not a time; write a number, or 2024-01-31 10:00:00: 'noon'",
        ),
        (("1,9,50,yes",), (), "log.csv line 14: column 'click' is neither 0 nor 1: 'yes'"),
        (("1,9,50",), (), "log.csv line 14: 3 fields where 4 are expected"),
        ((), ("--behaviour", "like=stars>=4"), "log.csv: no column 'stars'; choose from user, item, time, click"),
        ((), ("--user-column", "usr"), "log.csv: no column 'usr'; did you mean 'user'?"),
        ((), ("--item-column", "user"), "log.csv: log: the columns of user and item are the same, 'user'\n"),
        ((), ("--time-column", "item"), "the columns of item and time are the same, 'item'"),
        ((), ("--core", 9), "--core 9 leaves nothing of the log; 2 is the largest core that keeps something"),
        ((), ("--slate-size", 7), "--slate-size 7: no user has that many distinct items; the most any has is 6"),
        ((), ("--order", "fil"), "--order"),
        ((), ("--seed", 3), "--seed has no meaning for"),
    ],
)
def test_a_bad_log_ends_in_one_line_and_leaves_nothing(
    fails: Fails,
    log: Callable[..., Path],
    tmp_path: Path,
    extra: tuple[str, ...],
    options: tuple[object, ...],
    message: str,
) -> None:
    path = log(*extra)
    line = fails("data", "prepare", path, "--out", tmp_path / "out", *PREPARE, *options)
    assert message.replace("{folder}", str(tmp_path)) in line
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_non_numeric_rating_missing_file_and_wrong_encoding(fails: Fails, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "ratings.dat").write_text("1::10::5::100\n1::20::good::90\n")
    (raw / "users.dat").write_text("1::F::1::10::48067\n")
    out = ("--raw", raw, "--out", tmp_path / "out")
    assert "ratings.dat line 2: column 'rating' is not a number: 'good'" in fails("data", "prepare", "ml-1m", *out)
    (raw / "ratings.dat").write_text("1::10::5::100\n1::20::4")
    assert "ratings.dat: its last line '1::20::4' is incomplete" in fails("data", "prepare", "ml-1m", *out)
    (raw / "ratings.dat").write_text("1::10::5::100\n1::20::::90\n")
    assert "movies.dat: no such file; --raw names the folder with ratings.dat" in fails(
        "data", "prepare", "ml-1m", *out
    )
    (raw / "movies.dat").write_text("10::A::B\n")
    line = fails("data", "prepare", "ml-1m", *out)
    assert f"column 'rating' has no value: {raw / 'ratings.dat'} line 2" in line
    (tmp_path / "log.csv").write_bytes(HEADER.encode() + b"Zo\xeb,1,1,1\n")
    line = fails("data", "prepare", tmp_path / "log.csv", "--behaviour", "click", "--out", tmp_path / "out")
    assert "log.csv line 2: not utf-8 text (byte 0xeb); name its encoding, as in --encoding latin-1" in line


def test_another_encoding_and_separator(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes("user;item;time;click\nZoë;1;1;1\nZoë;2;2;0\n".encode("latin-1"))
    options = ("--encoding", "latin-1", "--separator", ";", "--out", tmp_path / "out", *PREPARE)
    assert cli("data", "prepare", tmp_path / "log.csv", *options).code == 0
    shown = json.loads(cli("data", "show", tmp_path / "out", "--split", "train", "--json").out)
    assert shown["examples"][0]["user"] == "Zoë"


def test_out_of_order_times_are_sorted_and_duplicates_counted(
    cli: Cli, log: Callable[..., Path], tmp_path: Path
) -> None:
    path = log("1,1,98,1", "1,1,98,0")
    summary = json.loads(cli("data", "prepare", path, "--out", tmp_path / "out", *PREPARE, "--json").out)
    assert summary["records"] == 14
    assert summary["statistics"]["duplicate_records"] == 2
    assert summary["statistics"]["conflicting_duplicates"] == 1
    assert summary["statistics"]["rows"] == 12


def test_missing_times_with_the_order_of_the_file(cli: Cli, fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,click\n" + "".join(f"1,{item},1\n" for item in (3, 1, 2, 4)))
    line = fails("data", "prepare", tmp_path / "log.csv", "--out", tmp_path / "out", *PREPARE)
    assert "no column 'time'; choose from user, item, click; or, if the rows are in order, pass --order file" in line
    options = ("--out", tmp_path / "out", *PREPARE, "--order", "file")
    assert cli("data", "prepare", tmp_path / "log.csv", *options).code == 0
    shown = json.loads(cli("data", "show", tmp_path / "out", "--json").out)
    assert [event["item"] for event in shown["examples"][0]["slate"]] == [2, 4]


def test_features_that_are_missing_are_unknown_and_counted(cli: Cli, log: Callable[..., Path], tmp_path: Path) -> None:
    log()
    (tmp_path / "items.csv").write_text("item,kind,price\n1,a,2\n2,,3\n3,b,\n")
    (tmp_path / "own.toml").write_text(
        '[log]\nfiles = ["log.csv"]\n[behaviours]\nclick = { column = "click" }\n'
        '[items]\nfile = "items.csv"\nid = "item"\n'
        '[items.features]\nkind = { kind = "categorical" }\nprice = { kind = "numeric" }\n'
    )
    options = ("--core", 1, "--slate-size", 2, "--out", tmp_path / "out", "--json")
    features = json.loads(cli("data", "prepare", tmp_path / "own.toml", *options).out)["features"]["items"]
    assert features["kind"] == {"kind": "categorical", "values": 2, "unknown": 4}
    assert features["price"] == {"kind": "numeric", "values": None, "unknown": 4}


def test_a_wrong_description_is_named(fails: Fails, log: Callable[..., Path], tmp_path: Path) -> None:
    log()
    toml = tmp_path / "own.toml"
    toml.write_text('[log]\nfiles = ["log.csv"]\n[behaviours]\nclick = { colum = "click" }\n')
    line = fails("data", "prepare", toml, "--out", tmp_path / "out")
    assert "own.toml: unknown key 'behaviours.click.colum'; did you mean 'column'?" in line
    toml.write_text('[log]\nfiles = ["log.csv"]\n[behaviours]\nclick = { weight = 1 }\n')
    line = fails("data", "prepare", toml, "--out", tmp_path / "out")
    assert "own.toml: missing key 'behaviours.click.column'" in line
    toml.write_text('[log]\nfiles = ["log.csv"]\n[behaviours]\nclick = { column = "click", wieght = 2 }\n')
    line = fails("data", "prepare", toml, "--out", tmp_path / "out")
    assert "own.toml: unknown key 'behaviours.click.wieght'; did you mean 'weight'?" in line
    assert "--core" not in line
    toml.write_text('[log]\nfiles = ["gone.csv"]\n[behaviours]\nclick = { column = "click" }\n')
    assert "gone.csv: no such file" in fails("data", "prepare", toml, "--out", tmp_path / "out")


def test_offline_is_said_in_one_line(fails: Fails, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFN4REC_CACHE", str(tmp_path / "cache"))
    unreachable = Archive("http://127.0.0.1:9/ml-1m.zip", None, ("*",))
    source = dataclasses.replace(readers.SOURCES["ml-1m"], archive=unreachable)
    monkeypatch.setitem(readers.SOURCES, "ml-1m", source)
    line = fails("data", "prepare", "ml-1m", "--out", tmp_path / "out")
    assert "cannot be downloaded" in line
    assert "unpack it, and name the folder with ratings.dat, movies.dat, users.dat by --raw" in line
    assert not (tmp_path / "out").exists()


def test_a_data_set_is_replaced_only_by_force(cli: Cli, fails: Fails, log: Callable[..., Path], tmp_path: Path) -> None:
    prepare = ("data", "prepare", log(), "--out", tmp_path / "out", *PREPARE)
    assert cli(*prepare).code == 0
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    line = fails(*prepare, "--slate-size", 1)
    assert "out: holds a prepared data set; replace it with --force, or choose another --out" in line
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before
    assert cli(*prepare, "--slate-size", 1, "--force").code == 0
    assert (tmp_path / "out" / "manifest.json").read_bytes() != before


@pytest.mark.parametrize(
    ("num_clicks", "warning"),
    [
        (0, "click never occurs; check what counts as click, or leave it out"),
        (49, "click occurs in only 49 rows, too few to learn from; leave it out, or lower --core"),
        (50, None),
        (99, None),
        (
            100,
            "click is true in every row, so nothing says what users do not respond to; add rows of items that were "
            "shown without click, or prepare it with --negatives, which samples such items",
        ),
    ],
)
def test_behaviours_that_say_little_are_named(cli: Cli, tmp_path: Path, num_clicks: int, warning: str | None) -> None:
    lines = (f"{row % 5},{row % 20},{row},{int(row < num_clicks)}\n" for row in range(100))
    (tmp_path / "log.csv").write_text("user,item,time,click\n" + "".join(lines))
    prepare = ("data", "prepare", tmp_path / "log.csv", *PREPARE)
    found = json.loads(cli(*prepare, "--out", tmp_path / "json", "--json").out)["warnings"]
    assert [text[: len(warning or "")] for text in found] == ([warning] if warning else [])
    for printed in (cli(*prepare, "--out", tmp_path / "text").out, cli("data", "describe", tmp_path / "text").out):
        assert ("Warning: click" in printed) == bool(warning)

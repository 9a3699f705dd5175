"""Readers on files small enough to read with one's eyes."""

from pathlib import Path

import polars as pl
import pytest

from gfn4rec.data.interactions import Interactions
from gfn4rec.data.read import ReadOptions, read_data
from gfn4rec.errors import UserError

KUAIRAND_LOG = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,is_hate,long_view,"
    "play_time_ms,tab\n"
)
KUAIRAND_USER = (
    "user_id,user_active_degree,is_lowactive_period,is_live_streamer,is_video_author,follow_user_num,"
    "follow_user_num_range,fans_user_num,fans_user_num_range,friend_user_num,friend_user_num_range,register_days,"
    "register_days_range," + ",".join(f"onehot_feat{number}" for number in range(18)) + "\n"
)
KUAIRAND_VIDEO = (
    "video_id,author_id,video_type,upload_dt,upload_type,visible_status,video_duration,server_width,server_height,"
    "music_id,music_type,tag\n"
)


def lay_out(folder: Path, files: dict[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def features_of(interactions: Interactions, side: str) -> dict[str, str]:
    table = interactions.users if side == "users" else interactions.items
    assert table is not None
    return {feature.name: feature.kind for feature in table.features}


def rows_of(interactions: Interactions, side: str) -> list[dict[str, object]]:
    table = interactions.users if side == "users" else interactions.items
    assert table is not None
    return table.frame.collect().to_dicts()


def test_movielens_1m(tmp_path: Path) -> None:
    raw = lay_out(
        tmp_path / "ml-1m",
        {
            "ratings.dat": "1::10::5::100\n1::20::2::90\n2::10::3::80\n2::20::4::70\n",
            "movies.dat": "10::Amélie: 2001::Comedy|Romance\n20::Heat (1995)::Action\n".encode("latin-1"),
            "users.dat": "1::F::1::10::48067\n2::M::56::16::70072\n",
        },
    )
    interactions = read_data("ml-1m", ReadOptions(raw=raw))
    assert interactions.log.rows() == [
        (1, 10, 100, 1, 1, 1),
        (1, 20, 90, 0, 0, 0),
        (2, 10, 80, 1, 0, 0),
        (2, 20, 70, 1, 1, 0),
    ]
    assert [(behaviour.name, behaviour.weight) for behaviour in interactions.behaviours] == [
        ("click", 1),
        ("like", 1),
        ("star", 1),
    ]
    assert rows_of(interactions, "items") == [
        {"id": 10, "title": "Amélie: 2001", "genres": ["Comedy", "Romance"]},
        {"id": 20, "title": "Heat (1995)", "genres": ["Action"]},
    ]
    assert rows_of(interactions, "users") == [
        {"id": 1, "gender": "F", "age": "1"},
        {"id": 2, "gender": "M", "age": "56"},
    ]
    assert [file.name for file in interactions.raw_files] == ["ratings.dat", "movies.dat", "users.dat"]
    lay_out(raw, {"movies.dat": "10::Amélie: 2001::Comedy\n"})  # a copy in UTF-8
    assert rows_of(read_data("ml-1m", ReadOptions(raw=raw)), "items")[0]["title"] == "Amélie: 2001"


def test_movielens_100k_in_both_layouts(tmp_path: Path) -> None:
    original = lay_out(
        tmp_path / "original",
        {
            "u.data": "1\t10\t5\t100\n1\t20\t3\t90\n",
            "u.item": "10|Amélie|d||u|0|1|1\n20|Heat|d||u|0|0|0\n".encode("latin-1"),
            "u.user": "1|24|M|writer|85711\n",
            "u.genre": "unknown|0\nAction|1\nDrama|2\n\n",
        },
    )
    recbole = lay_out(
        tmp_path / "recbole",
        {
            "ml-100k.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
            "1\t10\t5\t100\n1\t20\t3\t90\n",
            "ml-100k.item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
            "10\tAmélie\t2001\tAction Drama\n20\tHeat\t1995\t\n",
            "ml-100k.user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
            "1\t24\tM\twriter\t8\n",
        },
    )
    for raw in (original, recbole):
        interactions = read_data("ml-100k", ReadOptions(raw=raw))
        assert interactions.log.rows() == [(1, 10, 100, 1, 1, 1), (1, 20, 90, 1, 0, 0)]
        assert features_of(interactions, "items") == {"genres": "multi"}
        assert features_of(interactions, "users") == {
            "gender": "categorical",
            "age": "numeric",
            "occupation": "categorical",
        }
        items = rows_of(interactions, "items")
        assert (items[0]["title"], items[0]["genres"]) == ("Amélie", ["Action", "Drama"])
        assert not items[1]["genres"]
        assert rows_of(interactions, "users") == [{"id": 1, "gender": "M", "age": 24.0, "occupation": "writer"}]


def test_recbole_in_general(tmp_path: Path) -> None:
    raw = lay_out(
        tmp_path / "shop",
        {
            "shop.inter": "user_id:token\titem_id:token\tbought:float\ttimestamp:float\na\tx\t1\t3.5\na\ty\t0\t4\n",
            "shop.item": "item_id:token\tcolour:token\ttags:token_seq\tprice:float\nx\tred\tp q\t2.5\n",
        },
    )
    for path in (raw, raw / "shop.inter"):
        options = ReadOptions(behaviour=("buy=bought", " keep = bought >= 1"), weight=("keep = 2",))
        interactions = read_data(str(path), options)
        assert interactions.log.rows() == [("a", "x", 3.5, 1, 1), ("a", "y", 4.0, 0, 0)]
        assert [behaviour.weight for behaviour in interactions.behaviours] == [1.0, 2.0]
        assert features_of(interactions, "items") == {"colour": "categorical", "tags": "multi", "price": "numeric"}
        assert rows_of(interactions, "items") == [{"id": "x", "colour": "red", "tags": ["p", "q"], "price": 2.5}]
        assert interactions.users is None
    with pytest.raises(
        UserError, match='say what counts as a response, as in --behaviour "like=rating>=4"; it has bought'
    ):
        read_data(str(raw), ReadOptions())
    lay_out(raw, {"shop.item": "item_id:token\tcolour\n"})
    with pytest.raises(UserError, match="column 'colour' has no type"):
        read_data(str(raw), ReadOptions(behaviour=("buy=bought",)))
    lay_out(raw, {"other.inter": ""})
    with pytest.raises(UserError, match="2 .inter files in it; name one of them"):
        read_data(str(raw), ReadOptions(behaviour=("buy=bought",)))


def kuairand_files(size: str, log_names: list[str]) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {
        name: KUAIRAND_LOG + f"0,{number},20220425,1800,{100 - number},1,0,0,0,0,1,1,1033,1\n"
        for number, name in enumerate(log_names)
    }
    ranges = ',"(0,10]",5,"[1,10)",5,"[1,5)",99,61-90,'
    return files | {
        f"user_features_{size}.csv": KUAIRAND_USER + "0,full_active,0,1,1,5" + ranges + ",".join("7" * 18) + "\n",
        f"video_features_basic_{size}.csv": KUAIRAND_VIDEO
        + '0,8,NORMAL,2022-04-10,Web,0.0,358016.0,960.0,720.0,91,9.0,"20,43"\n1,8,AD,2022-04-10,,0.0,,960,720,,,\n',
    }


@pytest.mark.parametrize(
    ("size", "names"),
    [
        ("1k", ["log_standard_4_08_to_4_21_1k.csv", "log_standard_4_22_to_5_08_1k.csv"]),
        ("pure", ["log_standard_4_22_to_5_08_pure.csv"]),
        ("27k", ["log_standard_4_08_to_4_21_27k_part1.csv", "log_standard_4_08_to_4_21_27k_part2.csv"]),
    ],
)
@pytest.mark.parametrize("folder", ["", "data"])
def test_kuairand(tmp_path: Path, size: str, names: list[str], folder: str) -> None:
    random_log = f"log_random_4_22_to_5_08_{size}.csv"
    lay_out(tmp_path / folder, kuairand_files(size, [*names, random_log]))
    interactions = read_data(f"kuairand-{size}", ReadOptions(raw=tmp_path))
    behaviours = {behaviour.name: behaviour.weight for behaviour in interactions.behaviours}
    assert behaviours == {"click": 1, "view": 1, "like": 1, "comment": 1, "forward": 1, "follow": 1, "hate": -1}
    assert interactions.log.rows() == [(0, item, 100 - item, 1, 1, 0, 0, 0, 0, 1) for item in range(len(names))]
    with_random = read_data(f"kuairand-{size}", ReadOptions(raw=tmp_path, include_random=True))
    assert with_random.log["item"].to_list() == list(range(len(names) + 1))  # the random log comes last
    assert with_random.locate(len(names)) == f"{tmp_path / folder / random_log} line 2"
    assert rows_of(interactions, "items")[0]["tag"] == ["20", "43"]
    assert rows_of(interactions, "items")[1]["tag"] is None
    kinds = features_of(interactions, "users")
    assert "follow_user_num_range" in kinds
    assert "follow_user_num" not in kinds
    assert len(kinds) == 26
    assert features_of(interactions, "items")["tag"] == "multi"


@pytest.mark.parametrize("name", ["ratings.dat", "movies.dat", "users.dat"])
def test_a_movielens_file_that_lost_its_end_is_refused(tmp_path: Path, name: str) -> None:
    files: dict[str, str | bytes] = {
        "ratings.dat": "1::10::5::100\n",
        "movies.dat": "10::Heat::Action\n",
        "users.dat": "1::F::1::10::48067\n",
    }
    raw = lay_out(tmp_path / "raw", files)
    (raw / name).write_bytes((raw / name).read_bytes()[:-2])  # a digit and the line feed: still all its fields
    with pytest.raises(UserError, match=f"{name}: its last line .* is incomplete"):
        read_data("ml-1m", ReadOptions(raw=raw))


@pytest.mark.parametrize("start", ["log_standard", "user_features", "video_features"])
def test_a_kuairand_file_that_lost_its_end_is_refused(tmp_path: Path, start: str) -> None:
    lay_out(tmp_path, kuairand_files("1k", ["log_standard_4_08_to_4_21_1k.csv"]))
    path = next(tmp_path.glob(f"{start}*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="is incomplete; the file is truncated"):
        read_data("kuairand-1k", ReadOptions(raw=tmp_path))


def test_the_last_rating_of_ml_100k_may_not_be_cut(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"u.data": "1\t10\t5\t100", "u.item": "", "u.user": "", "u.genre": ""}
    with pytest.raises(UserError, match="u.data: its last line .* is incomplete"):
        read_data("ml-100k", ReadOptions(raw=lay_out(tmp_path, files)))


def test_kuairand_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no log_standard_\\*_1k.csv in it"):
        read_data("kuairand-1k", ReadOptions(raw=tmp_path))
    lay_out(tmp_path, kuairand_files("1k", ["log_standard_4_08_to_4_21_1k.csv"]))
    with pytest.raises(UserError, match="--include-random needs a log_random"):
        read_data("kuairand-1k", ReadOptions(raw=tmp_path, include_random=True))
    (tmp_path / "user_features_1k.csv").unlink()
    with pytest.raises(UserError, match="user_features_1k.csv: no such file"):
        read_data("kuairand-1k", ReadOptions(raw=tmp_path))


OWN_TOML = """
[log]
files = ["a.csv", "b.csv"]
user = "uid"
item = "video"
time = "ts"

[behaviours]
click = { column = "clicked" }
like = { column = "stars", at_least = 4 }
hate = { column = "hated", weight = -1 }

[items]
file = "videos.parquet"
id = "video"
title = "name"

[items.features]
category = { kind = "categorical" }
tags = { kind = "multi", separator = "|" }
price = { kind = "numeric", column = "cost" }

[users]
file = "users.jsonl"
id = "uid"
"""


def test_own_data_described_by_toml(tmp_path: Path) -> None:
    header = "uid,video,ts,clicked,stars,hated\n"
    lay_out(
        tmp_path,
        {
            "own.toml": OWN_TOML,
            "a.csv": header + "u1,v1,2024-01-01 10:00:00,1,4.5,0\n",
            "b.csv": header + "u2,v2,2024-01-01 09:00:00,0,3,1\n",
            "users.jsonl": '{"uid": "u1"}\n',
        },
    )
    videos = {
        "video": ["v1", "v2"],
        "name": ["One", "Two"],
        "category": ["c", None],
        "tags": ["p|q", ""],
        "cost": [1, 2],
    }
    pl.DataFrame(videos).write_parquet(tmp_path / "videos.parquet")
    interactions = read_data(str(tmp_path / "own.toml"), ReadOptions())
    assert interactions.log.drop("time").rows() == [("u1", "v1", 1, 1, 0), ("u2", "v2", 0, 0, 1)]
    assert interactions.log["time"].diff().to_list() == [None, -3_600_000_000]
    assert [behaviour.weight for behaviour in interactions.behaviours] == [1.0, 1.0, -1.0]
    assert rows_of(interactions, "items") == [
        {"id": "v1", "title": "One", "category": "c", "tags": ["p", "q"], "price": 1.0},
        {"id": "v2", "title": "Two", "category": None, "tags": [""], "price": 2.0},
    ]
    assert interactions.locate(1) == f"{tmp_path / 'b.csv'} line 2"
    assert [file.name for file in interactions.raw_files] == ["a.csv", "b.csv", "users.jsonl", "videos.parquet"]


def test_several_logs_must_agree_about_time(tmp_path: Path) -> None:
    toml = '[log]\nfiles = ["a.csv", "b.csv"]\n[behaviours]\nclick = { column = "click" }\n'
    header = "user,item,time,click\n"
    lay_out(tmp_path, {"own.toml": toml, "a.csv": header + "1,1,100,1\n", "b.csv": header + "1,1,2024-01-01,1\n"})
    with pytest.raises(UserError, match="column 'time' holds numbers in one log file and dates in another"):
        read_data(str(tmp_path / "own.toml"), ReadOptions())


def test_a_column_cannot_be_two_things(tmp_path: Path) -> None:
    toml = (
        '[log]\nfiles = ["log.csv"]\n[behaviours]\nclick = { column = "click" }\n'
        '[items]\nfile = "items.csv"\nid = "item"\n'
        '[items.features]\nnumber = { kind = "numeric", column = "item" }\n'
    )
    files: dict[str, str | bytes] = {"log.csv": "user,item,time,click\n1,1,1,1\n", "items.csv": "item\n1\n"}
    lay_out(tmp_path, files | {"own.toml": toml})
    with pytest.raises(UserError, match="'number': column 'item' is already used as another kind"):
        read_data(str(tmp_path / "own.toml"), ReadOptions())


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_own_data_described_by_flags(tmp_path: Path, suffix: str) -> None:
    frame = pl.DataFrame({"uid": [1, 1], "vid": ["a", "b"], "ts": [5, 4], "rating": [5.0, 3.0], "hated": [0, 1]})
    path = tmp_path / f"log.{suffix}"
    if suffix == "csv":
        frame.write_csv(path)
    elif suffix == "parquet":
        frame.write_parquet(path)
    else:
        frame.write_ndjson(path)
    options = ReadOptions(
        user_column="uid",
        item_column="vid",
        time_column="ts",
        behaviour=("like=rating>=4", "hate = hated"),
        weight=("hate=-0.5",),
    )
    interactions = read_data(str(path), options)
    assert interactions.log.rows() == [(1, "a", 5, 1, 0), (1, "b", 4, 0, 1)]
    assert [behaviour.weight for behaviour in interactions.behaviours] == [1.0, -0.5]


def test_the_seed_of_a_synthetic_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, same, other = (read_data("synthetic-tiny", ReadOptions(seed=seed)).log for seed in (None, 0, 1))
    assert first.equals(same)
    assert not first.equals(other)


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("log.csv", ReadOptions(), "say what counts as a response"),
        ("log.csv", ReadOptions(behaviour=("a=b=>4",)), "--behaviour 'a=b=>4': write COLUMN, "),
        ("log.csv", ReadOptions(behaviour=("=b",)), "--behaviour '=b': write NAME, or NAME= and COLUMN"),
        ("log.csv", ReadOptions(behaviour=("a=b>=x",)), "'x' is not a number"),
        ("log.csv", ReadOptions(behaviour=("a",), weight=("b=1",)), "--weight b=1: there is no --behaviour 'b'"),
        ("log.csv", ReadOptions(behaviour=("a",), weight=("a=x",)), "--weight a=x: write NAME=NUMBER"),
        ("log.csv", ReadOptions(behaviour=("a",), raw=Path("x")), "--raw has no meaning for"),
        ("log.csv", ReadOptions(behaviour=("a",), encoding="utf-9"), "log.encoding: no such encoding; try utf-8"),
        ("ml-1m", ReadOptions(behaviour=("a",)), "--behaviour has no meaning for ml-1m; leave it out"),
        ("ml-1m", ReadOptions(raw=Path("nowhere")), "nowhere: no such folder; --raw names the one with ratings.dat"),
        ("ml-1m", ReadOptions(raw=Path(), include_random=True), "has no log of random exposure"),
        ("synthetic-tiny", ReadOptions(raw=Path("x")), "--raw has no meaning for synthetic-tiny"),
        ("ml1m", ReadOptions(), "'ml1m' is neither a known data set nor a file of yours; did you mean 'ml-1m'?"),
    ],
)
def test_options_that_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, options: ReadOptions, message: str
) -> None:
    lay_out(tmp_path, {"log.csv": "user,item,time,a\n1,1,1,1\n"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        read_data(what, options)
    assert message in str(error.value)

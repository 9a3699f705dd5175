"""Readers of further public layouts, on excerpts that are written by hand."""

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gfn4rec.data import table_file
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.download import Archive, fetch
from gfn4rec.data.manifest import Manifest
from gfn4rec.data.prepare import PrepareConfig, prepare
from gfn4rec.data.read import ReadOptions, read_data
from gfn4rec.data.readers import SOURCES
from gfn4rec.errors import UserError
from tests.data.test_readers import KUAIRAND_USER, features_of, lay_out, rows_of

RATINGS = "userId,movieId,rating,timestamp\n1,10,5.0,1112486027\n1,20,2.5,1112484676\n2,10,3.5,1112484819\n"
MOVIES = (
    'movieId,title,genres\n10,"American President, The (1995)",Comedy|Drama|Romance\n'
    '20,"""Great Performances"" Cats (1998)",(no genres listed)\n'
)
MATRIX = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n"
WATCHED = (
    "14,148,4381,6067,2020-07-05 05:27:48.378,20200705.0,1593898068.378,0.722103\n"
    "14,183,11635,6100,,,,1.907377\n"
    "14,183,24400,6100,2020-07-05 05:28:00.057,20200705.0,1593898080.057,4.0\n"
    "19,148,2426,6067,2020-07-05 05:29:09.479,20200705.0,1593898149.479,0.399868\n"
    "19,183,6100,6100,2020-07-05 05:30:43.285,20200705.0,1593898243.285,1.0\n"
)
KUAIREC: dict[str, str | bytes] = {
    "small_matrix.csv": MATRIX + WATCHED,
    "item_categories.csv": 'video_id,feat\n148,[8]\n183,"[27, 9]"\n',
    "user_features.csv": KUAIRAND_USER
    + '14,full_active,0,0,0,5,"(0,10]",1,"[1,10)",0,0,107,61-90,'
    + ",".join("7" * 18)
    + "\n",
}
IMPRESSIONS = (
    "1\tU13740\t11/11/2019 9:05:58 AM\tN55189 N42782\tN55689-1 N35729-0\n"
    "2\tU91836\t11/12/2019 6:11:30 PM\t\tN20678-0 N55689-0 N35729-1\n"
)
NEWS = (
    'N55689\tsports\tfootball_nfl\tCharles Rogers, "former star"\tabstract\thttps://assets.msn.com/a.html\t[]\t[]\n'
    "N35729\tnews\tnewsus\tPorsche launches\t\thttps://assets.msn.com/b.html\t[]\t[]\n"
)
REVIEWS: dict[int, list[dict[str, object]]] = {
    2018: [
        {"overall": 5.0, "verified": True, "reviewerID": "A1", "asin": "0439", "unixReviewTime": 1514764800},
        {
            "overall": 3.0,
            "vote": "2",
            "reviewerID": "A1",
            "asin": "B01",
            "unixReviewTime": 1514764800,
            "style": {"a": 1},
        },
        {"overall": 4.0, "style": "none", "reviewerID": "A2", "asin": "B01", "unixReviewTime": 1252800000, "vote": 5},
    ],
    2023: [
        {"rating": 5.0, "user_id": "A1", "asin": "X", "parent_asin": "0439", "timestamp": 1514764800123, "images": []},
        {"rating": 3.0, "user_id": "A1", "asin": "Y", "parent_asin": "B01", "timestamp": 1514764800124},
        {"rating": 4.0, "user_id": "A2", "asin": "Z", "parent_asin": "B01", "timestamp": 1252800000000, "images": "no"},
    ],
}
ITEMS: dict[int, list[dict[str, object]]] = {
    2018: [
        {"category": ["Music", "Pop"], "rank": [], "title": "One", "asin": "0439"},
        {"category": [], "rank": "5 in Music (", "title": "Two", "asin": "B01"},
        {"category": ["Again"], "rank": [], "title": "One again", "asin": "0439"},
    ],
    2023: [
        {"categories": ["Music", "Pop"], "title": "One", "parent_asin": "0439", "price": 9.5},
        {"categories": [], "title": "Two", "parent_asin": "B01", "price": None, "details": {"a": [1]}},
    ],
}

MUSIC = "Digital_Music.json"
LINE = json.dumps(REVIEWS[2018][0])
ML: dict[str, str | bytes] = {"ratings.csv": RATINGS, "movies.csv": MOVIES}
MIND: dict[str, str | bytes] = {"behaviors.tsv": IMPRESSIONS, "news.tsv": NEWS}


def json_lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("name", ["ml-latest-small", "ml-latest", "ml-25m", "ml-32m"])
def test_movielens_with_a_header_line(tmp_path: Path, name: str) -> None:
    raw = lay_out(tmp_path / "raw", {"ratings.csv": RATINGS, "movies.csv": MOVIES})
    interactions = read_data(name, ReadOptions(raw=raw))
    assert interactions.log.columns == ["user", "item", "time", "click", "like", "star"]
    assert interactions.log.rows() == [
        (1, 10, 1112486027, True, True, True),
        (1, 20, 1112484676, False, False, False),
        (2, 10, 1112484819, True, False, False),
    ]
    assert [(behaviour.name, behaviour.weight) for behaviour in interactions.behaviours] == [
        ("click", 1),
        ("like", 1),
        ("star", 1),
    ]
    assert rows_of(interactions, "items") == [
        {"title": "American President, The (1995)", "id": 10, "genres": ["Comedy", "Drama", "Romance"]},
        {"title": '"Great Performances" Cats (1998)', "id": 20, "genres": None},
    ]
    assert features_of(interactions, "items") == {"genres": "multi"}
    assert interactions.users is None
    assert interactions.locate(2) == f"{raw / 'ratings.csv'} line 4"


@pytest.mark.parametrize(
    ("name", "archive", "folder", "files"),
    [
        ("ml-25m", "ml-25m.zip", "ml-25m/", ML),
        ("ml-latest", "ml-latest.zip", "ml-latest/", ML),
        ("kuairec-small", "KuaiRec.zip", "KuaiRec 2.0/data/", KUAIREC),
    ],
)
def test_published_archives_are_unpacked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    archive: str,
    folder: str,
    files: dict[str, str | bytes],
) -> None:
    monkeypatch.setenv("GFN4REC_CACHE", str(tmp_path))
    with zipfile.ZipFile(tmp_path / archive, "w") as downloaded:
        for file, content in {"links.csv": "", **files}.items():
            downloaded.writestr(folder + file, content)
            downloaded.writestr(f"__MACOSX/{folder}._{file}", "")
    assert SOURCES[name].archive.url.endswith(f"/{archive}")
    assert read_data(name).log.equals(read_data(name, ReadOptions(raw=lay_out(tmp_path / "raw", files))).log)


def test_kuairec(tmp_path: Path) -> None:
    raw = lay_out(tmp_path / "data", KUAIREC)
    lay_out(raw, {"big_matrix.csv": MATRIX + WATCHED.splitlines(keepends=True)[0]})
    interactions = read_data("kuairec-small", ReadOptions(raw=tmp_path))
    assert interactions.log.columns == ["user", "item", "time", "view", "complete", "rewatch"]
    assert interactions.log.rows() == [
        (14, 148, 1593898068.378, True, False, False),
        (14, 183, 1593898080.057, True, True, True),
        (19, 148, 1593898149.479, False, False, False),
        (19, 183, 1593898243.285, True, True, False),
    ]
    assert interactions.origin == {"rows_without_time": 1}
    assert rows_of(interactions, "items") == [{"id": 148, "tag": ["8"]}, {"id": 183, "tag": ["27", "9"]}]
    assert rows_of(interactions, "users")[0]["follow_user_num_range"] == "(0,10]"
    assert len(features_of(interactions, "users")) == 26
    assert [file.name for file in interactions.raw_files] == [
        "small_matrix.csv",
        "item_categories.csv",
        "user_features.csv",
    ]
    big = read_data("kuairec-big", ReadOptions(raw=raw))
    assert big.log.rows() == [(14, 148, 1593898068.378, True, False, False)]


def test_mind_has_the_impressions_as_slates(tmp_path: Path) -> None:
    raw = lay_out(tmp_path / "train", {"behaviors.tsv": IMPRESSIONS, "news.tsv": NEWS})
    interactions = read_data("mind", ReadOptions(raw=raw))
    assert interactions.log.columns == ["user", "item", "time", "click", "slate"]  # no positions: they were shuffled
    first, second = 1573463158, 1573582290  # 2019-11-11 09:05:58 and 2019-11-12 18:11:30
    assert interactions.log.rows() == [
        ("U13740", "N55689", first, True, 0),
        ("U13740", "N35729", first, False, 0),
        ("U91836", "N20678", second, False, 1),
        ("U91836", "N55689", second, False, 1),
        ("U91836", "N35729", second, True, 1),
    ]
    assert rows_of(interactions, "items") == [
        {
            "id": "N55689",
            "category": "sports",
            "subcategory": "football_nfl",
            "title": 'Charles Rogers, "former star"',
        },
        {"id": "N35729", "category": "news", "subcategory": "newsus", "title": "Porsche launches"},
    ]
    assert features_of(interactions, "items") == {"category": "categorical", "subcategory": "categorical"}
    manifest = prepare(interactions, PrepareConfig(core=1, slate_size=3), tmp_path / "out")
    assert (manifest.statistics.shown_slates, manifest.statistics.short_slates) == (2, 1)
    assert SlateData.open(tmp_path / "out").num_slates == 1


def test_folders_of_mind_are_joined(tmp_path: Path) -> None:
    lay_out(tmp_path / "MINDsmall_train", {"behaviors.tsv": IMPRESSIONS, "news.tsv": NEWS})
    lay_out(
        tmp_path / "MINDsmall_dev",
        {
            "behaviors.tsv": "1\tU1\t11/15/2019 12:00:00 AM\tN1\tN9-0 N55689-1\n",
            "news.tsv": NEWS.splitlines(keepends=True)[0] + "N9\thealth\tdiet\tNine\tabstract\turl\t[]\t[]\n",
        },
    )
    interactions = read_data("mind", ReadOptions(raw=tmp_path))
    assert interactions.log.rows()[:3] == [
        ("U1", "N9", 1573776000, False, 0),
        ("U1", "N55689", 1573776000, True, 0),
        ("U13740", "N55689", 1573463158, True, 1),
    ]
    assert interactions.log["slate"].to_list() == [0, 0, 1, 1, 2, 2, 2]  # impression 1 of either file is its own slate
    assert [row["id"] for row in rows_of(interactions, "items")] == ["N55689", "N9", "N35729"]
    assert len(interactions.raw_files) == 4


@pytest.mark.parametrize(
    ("year", "reviews", "items"),
    [
        (2018, "Digital_Music_5.json.gz", "meta_Digital_Music.json.gz"),
        (2018, "Digital_Music.json", "meta_Digital_Music.json"),
        (2023, "Digital_Music.jsonl.gz", "meta_Digital_Music.jsonl.gz"),
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 26])
def test_amazon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, year: int, reviews: str, items: str, piece: int
) -> None:
    monkeypatch.setattr(table_file, "_PIECE_BYTES", piece)
    pack: Callable[[bytes], bytes] = gzip.compress if reviews.endswith(".gz") else bytes
    lay_out(tmp_path, {reviews: pack(json_lines(REVIEWS[year]))})
    interactions = read_data(f"amazon-{year}", ReadOptions(raw=tmp_path))
    first, second = (1514764800, 1514764800) if year == 2018 else (1514764800123, 1514764800124)
    assert interactions.log.columns == ["user", "item", "time", "like", "star"]
    assert interactions.log.rows() == [
        ("A1", "0439", first, True, True),
        ("A1", "B01", second, False, False),
        ("A2", "B01", 1252800000 * (1 if year == 2018 else 1000), True, False),
    ]
    assert interactions.items is None
    assert interactions.locate(2) == f"{tmp_path / reviews} line 3"
    lay_out(tmp_path, {items: pack(json_lines(ITEMS[year])), "meta_Books.json.gz": b""})
    interactions = read_data(f"amazon-{year}", ReadOptions(raw=tmp_path))
    assert rows_of(interactions, "items") == [
        {"title": "One", "id": "0439", "categories": ["Music", "Pop"]},
        {"title": "Two", "id": "B01", "categories": []},
    ]
    assert features_of(interactions, "items") == {"categories": "multi"}
    assert [file.name for file in interactions.raw_files] == [reviews, items]
    manifest: Manifest = prepare(interactions, PrepareConfig(core=1, slate_size=1), tmp_path / "out")
    assert manifest.item_features[0].vocabulary == ("Music", "Pop")


@pytest.mark.parametrize("name", [name for name, source in SOURCES.items() if source.archive.is_page])
def test_a_page_with_files_to_choose_is_not_downloaded(name: str) -> None:
    source = SOURCES[name]
    with pytest.raises(UserError) as error:
        fetch(name, source.archive, source.layout)
    assert str(error.value) == (
        f"{name}: choose its files at {source.archive.url}, and name the folder with {source.layout} by --raw"
    )
    assert not Archive("https://example.org/a.zip", None).is_page


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        (
            "ml-25m",
            {"ratings.csv": RATINGS},
            "movies.csv: no such file; --raw names the folder with ratings.csv, movies",
        ),
        ("ml-25m", ML | {"ratings.csv": RATINGS.replace("rating,", "stars,")}, "ratings.csv: no column 'rating'; "),
        ("ml-25m", ML | {"ratings.csv": RATINGS + "3,10,4.0\n"}, "ratings.csv line 5: 3 fields where 4 are expected"),
        ("ml-25m", ML | {"ratings.csv": RATINGS + "3,10,x,1\n"}, "ratings.csv line 5: column 'rating' is not a number"),
        ("ml-25m", ML | {"ratings.csv": RATINGS + "3,10,,1\n"}, "column 'rating' has no value: "),
        ("ml-25m", ML | {"ratings.csv": RATINGS[:-3]}, "ratings.csv: its last line '2,10,3.5,11124848' is incomplete"),
        ("ml-25m", ML | {"movies.csv": MOVIES[:-4]}, "movies.csv: its last line"),
        ("kuairec-big", KUAIREC, "big_matrix.csv: no such file; --raw names the folder with big_matrix.csv, item_c"),
        (
            "kuairec-small",
            KUAIREC | {"small_matrix.csv": MATRIX.replace("_ratio", "") + WATCHED},
            "no column 'watch_ratio'",
        ),
        (
            "kuairec-small",
            KUAIREC | {"small_matrix.csv": MATRIX + WATCHED + "19,1,1,0,a,b,1593898243.285,\n"},
            "small_matrix.csv line 7: column 'watch_ratio' has no value; the line is broken, download the file again",
        ),
        (
            "kuairec-small",
            KUAIREC | {"small_matrix.csv": MATRIX + "14,183,11635,6100,,,,1.9\n"},
            "small_matrix.csv: no interactions in it",
        ),
        ("mind", MIND | {"behaviors.tsv": IMPRESSIONS + "3\tU1\n"}, "line 3: 2 fields where 5 are expected"),
        (
            "mind",
            MIND | {"behaviors.tsv": IMPRESSIONS + "3\tU1\t2019-11-12\t\tN1-0\n"},
            "behaviors.tsv line 3: column 'time' is not a time like 11/15/2019 10:22:32 AM: '2019-11-12'",
        ),
        (
            "mind",
            MIND | {"behaviors.tsv": IMPRESSIONS + "3\tU1\t11/12/2019 6:11:30 PM\t\t\n"},
            "behaviors.tsv line 3: column 'impressions' has no value",
        ),
        (
            "mind",
            MIND | {"behaviors.tsv": IMPRESSIONS + "3\tU1\t11/12/2019 6:11:30 PM\t\tN1-0 N2\n"},
            "behaviors.tsv line 3: 'N2' in its impressions does not end in -0 or -1; if this is a test set",
        ),
        ("mind", {"behaviors.tsv": IMPRESSIONS}, "news.tsv: no such file; --raw names the folder with behaviors.tsv"),
        ("mind", MIND | {"news.tsv": "N1\tsports\n"}, "news.tsv line 1: 2 fields where 8 are expected"),
        ("amazon-2018", {MUSIC: LINE.replace("asin", "isbn")}, "Music.json: no column 'asin'; "),
        ("amazon-2023", {MUSIC: LINE}, "Music.json: no column 'user_id'; "),
        ("amazon-2018", {MUSIC: f"{LINE}\n{LINE[:-9]}"}, "Music.json line 2: not a JSON object; the line is broken"),
        ("amazon-2018", {MUSIC: f"{LINE}\n[1]\n"}, "Music.json line 2: not a JSON object"),
        ("amazon-2018", {MUSIC: "\n"}, "Music.json: has no JSON objects; download it again"),
        (
            "amazon-2018",
            {MUSIC: LINE + "\n\n" + LINE.replace("5.0", '"5"')},
            "Music.json line 3: column 'overall' is no number: '5'",
        ),
        (
            "amazon-2018",
            {MUSIC: LINE + "\n" + LINE.replace('"A1"', "null")},
            "Music.json line 2; fill it in or drop the row",
        ),
        (
            "amazon-2018",
            {MUSIC: LINE, f"meta_{MUSIC}": '{"asin": "B", "title": "T", "category": "Pop"}'},
            "meta_Digital_Music.json line 1: column 'category' is no list: 'Pop'",
        ),
        ("amazon-2018", {"Music.json.gz": gzip.compress(LINE.encode())[:-9]}, "not a complete gzip file"),
        (
            "amazon-2018",
            {"meta_Music.json": LINE},
            "holds no reviews (.json.gz or .jsonl.gz); --raw names a folder with",
        ),
        ("amazon-2018", {MUSIC: LINE, "Books_5.json": LINE}, "holds Books_5.json, Digital_Music.json; --raw names"),
    ],
)
def test_broken_files_end_in_one_line(tmp_path: Path, name: str, files: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(UserError) as error:
        read_data(name, ReadOptions(raw=lay_out(tmp_path, files)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)

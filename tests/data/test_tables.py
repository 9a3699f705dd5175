"""Raw tables: what is read, and what is said of every way in which a file can be wrong."""

import datetime
import gzip
from pathlib import Path

import polars as pl
import pytest

from gfn4rec.data.table_file import TableFile
from gfn4rec.data.tables import ColumnKind, Kinds, read_table
from gfn4rec.errors import UserError

KINDS: Kinds = {"u": "id", "t": "time", "r": "number", "f": "flag", "x": "text"}


def text_file(tmp_path: Path, content: str | bytes, name: str = "log.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def error_of(file: TableFile, kinds: Kinds) -> str:
    with pytest.raises(UserError) as error:
        read_table(file, kinds)
    assert str(file.path) in str(error.value)
    return str(error.value)


def test_columns_are_found_by_name_and_typed_by_kind(tmp_path: Path) -> None:
    path = text_file(tmp_path, 'x,f,unused,r,u,t\n"a,b",1.0,?,2.5,7,10\nc,0,?,3,8,11\n')
    table = read_table(TableFile(path), KINDS)
    assert table.columns == ["u", "t", "r", "f", "x"]
    assert table.rows() == [(7, 10, 2.5, 1.0, "a,b"), (8, 11, 3.0, 0.0, "c")]
    assert table.schema["u"] == pl.Int64


def test_ids_stay_text_if_one_of_them_is(tmp_path: Path) -> None:
    for ids in (["7", "a"], ["7", "007"], ["7", "1.5"]):
        path = text_file(tmp_path, "u\n" + "\n".join(ids) + "\n")
        assert read_table(TableFile(path), {"u": "id"})["u"].to_list() == ids


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["12.0", "12", " 7 "], [12, 12, 7]),  # an export of integers with gaps, beside one without
        (["1.5", "2.0"], ["1.5", "2.0"]),
        (["007.0", "7.0"], ["007.0", "7.0"]),
        (["a@x ", "a@x"], ["a@x", "a@x"]),
        (["5", "NULL", "nan", "6"], [5, None, None, 6]),
    ],
)
def test_one_id_has_many_spellings(tmp_path: Path, written: list[str], read: list[object]) -> None:
    path = text_file(tmp_path, "u,x\n" + "".join(f"{text},1\n" for text in written))
    assert read_table(TableFile(path), {"u": "id"})["u"].to_list() == read


@pytest.mark.parametrize(
    ("read", "ids"),
    [([12.0, 7.0], [12, 7]), ([12.0, None, float("nan")], [12, None, None]), ([2.0**60, 7.0], [2.0**60, 7.0])],
)
def test_ids_that_are_floats(tmp_path: Path, read: list[float], ids: list[object]) -> None:
    pl.DataFrame({"u": read}).write_parquet(tmp_path / "log.parquet")
    assert read_table(TableFile(tmp_path / "log.parquet"), {"u": "id"})["u"].to_list() == ids


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["5", "-3"], [5, -3]),
        (["5", "3.5"], [5.0, 3.5]),
        (["881250949", "8.8e8"], [881250949.0, 880000000.0]),
        (["1970-01-01 00:00:01", "1970-01-02 00:00:00"], [1_000_000, 86_400_000_000]),
        (["1970-01-01T00:00:01.5", "1970-01-01T00:00:00.25"], [1_500_000, 250_000]),
        (["1970-01-01T00:00:01Z", "1970-01-01T00:00:00Z"], [1_000_000, 0]),
        (["1970-01-02", "1970-01-01"], [86_400_000_000, 0]),
        ([" 5", "6 "], [5, 6]),
    ],
)
def test_times_are_numbers_or_dates(tmp_path: Path, written: list[str], read: list[float]) -> None:
    path = text_file(tmp_path, "t\n" + "\n".join(written) + "\n")
    assert read_table(TableFile(path), {"t": "time"})["t"].to_physical().to_list() == read


def test_a_broken_time_is_named(tmp_path: Path) -> None:
    path = text_file(tmp_path, "t\n5\n6\nyesterday\n")
    assert "line 4: column 't' is not a time; write a number" in error_of(TableFile(path), {"t": "time"})
    for bad in ("2024-02-31", "oops", "5"):
        path = text_file(tmp_path, f"t\n2024-02-10\n2024-02-11\n{bad}\n2024-02-12\n")
        line = error_of(TableFile(path), {"t": "time"})
        assert f"line 4: column 't' is not a date and time like the others; write 2024-01-31 10:00:00: {bad!r}" in line
    path = text_file(tmp_path, "t\n01/05/2024\n02/05/2024\n")  # the fifth of January, or the first of May?
    assert "line 2: column 't' is not a time" in error_of(TableFile(path), {"t": "time"})


def test_parquet_and_json_lines_bring_their_own_types(tmp_path: Path) -> None:
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1)
    frame = pl.DataFrame({"u": ["a", "b"], "t": [moment, moment], "r": [1, 2], "f": [True, False], "x": [["p"], ["q"]]})
    frame.write_parquet(tmp_path / "log.parquet")
    table = read_table(TableFile(tmp_path / "log.parquet"), KINDS)
    assert table.rows() == [("a", moment, 1.0, True, ["p"]), ("b", moment, 2.0, False, ["q"])]
    path = text_file(
        tmp_path, '{"u": 1, "t": 2, "r": 3, "f": 0, "x": "p"}\n{"u": 2, "t": 2, "r": 3.5, "f": 1}\n', "l.jsonl"
    )
    assert read_table(TableFile(path), KINDS).rows() == [(1, 2, 3.0, 0, "p"), (2, 2, 3.5, 1, None)]


def test_compressed_text(tmp_path: Path) -> None:
    path = text_file(tmp_path, gzip.compress(b"u,r\n1,2\n"), "log.csv.gz")
    assert read_table(TableFile(path), {"u": "id", "r": "number"}).rows() == [(1, 2.0)]


def test_separators_headers_and_encodings(tmp_path: Path) -> None:
    path = text_file(tmp_path, '1::Amélie: a "film"::5\n'.encode("latin-1"), "movies.dat")
    file = TableFile(path, "::", ("u", "x", "r"), "latin-1", is_published=True)
    assert read_table(file, {"u": "id", "x": "text", "r": "number"}).rows() == [(1, 'Amélie: a "film"', 5.0)]
    path = text_file(tmp_path, "\ufeffu\tr\n1\t2\n")
    assert read_table(TableFile(path, "\t"), {"u": "id", "r": "number"}).rows() == [(1, 2.0)]
    path = text_file(tmp_path, "u,x,r\n1,\u4f60,2\n".encode("utf-16"))
    assert read_table(TableFile(path, encoding="utf-16"), {"u": "id", "x": "text"}).rows() == [(1, "\u4f60")]
    path = text_file(tmp_path, "u,r\r\n1,2\r\n\r\n")  # with a blank line at the end
    assert read_table(TableFile(path), {"u": "id", "r": "number"}).rows() == [(1, 2.0)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("u,r\n1,2\n1,two\n", "line 3: column 'r' is not a number: 'two'"),
        ("u,r\n1,2\n1,2,5\n", "line 3: 3 fields where 2 are expected"),
        ('u,r\n1,2\n1,"2,5"\n', "line 3: column 'r' is not a number: '2,5'; write a point for the decimal comma"),
        ("u,r\n1,2\nu,r\n3,4\n", "line 3: column 'r' holds its own name; delete this line, which repeats the header"),
        ("u,q\n1,2\n", "no column 'r'; choose from u, q"),
        ("u,rr\n1,2\n", "no column 'r'; did you mean 'rr'?"),
        ("", "empty; a header line"),
        ("# of May\nu,r\n1,2\n", "its first line is a comment; delete the lines before the header"),
        ("u,r,z\n1,2,3\n1,2\n1,2,3\n", "line 3: 2 fields where 3 are expected"),
        ("u,r\n1,2\n1,2,3\n", "line 3: 3 fields where 2 are expected"),
        ("u,z,r\n1,2,3\n1,2", "its last line '1,2' is incomplete; the file is truncated"),
        (b"u,x,r\n1,caf\xe9,3\n", "line 2: not utf-8 text (byte 0xe9); name its encoding, as in --encoding latin-1"),
    ],
)
def test_a_wrong_text_file_is_named_with_its_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    header = str(content[:6])
    kinds: dict[str, ColumnKind] = {"u": "id", "r": "number"}
    if "z" in header:
        kinds["z"] = "number"
    if "x" in header:
        kinds["x"] = "text"
    assert message in error_of(TableFile(text_file(tmp_path, content)), kinds)


def test_a_published_file_that_does_not_end_its_last_line_is_cut_off(tmp_path: Path) -> None:
    path = text_file(tmp_path, "u,r\n1,2\n1,20")
    assert read_table(TableFile(path), {"u": "id", "r": "number"}).height == 2
    assert "truncated" in error_of(TableFile(path, is_published=True), {"u": "id", "r": "number"})


def test_other_formats_cut_off(tmp_path: Path) -> None:
    pl.DataFrame({"u": list(range(1000))}).write_parquet(tmp_path / "log.parquet")
    path = tmp_path / "log.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    assert "not a readable Parquet file, perhaps truncated" in error_of(TableFile(path), {"u": "id"})
    path = text_file(tmp_path, '{"u": 1}\n{"u": 2', "log.jsonl")
    assert "line 2: not a JSON object; the line is broken or the file is truncated" in error_of(
        TableFile(path), {"u": "id"}
    )
    path = text_file(tmp_path, gzip.compress(b"u,r\n" + b"1,2\n" * 10_000)[:-20], "log.csv.gz")
    assert str(path) in error_of(TableFile(path), {"u": "id", "r": "number"})


def test_a_list_of_objects_is_not_json_lines(tmp_path: Path) -> None:
    for content in ('[{"u": 1}, {"u": 2}]', '[\n{"u": 1},\n{"u": 2}\n]\n'):
        line = error_of(TableFile(text_file(tmp_path, content, "log.json")), {"u": "id"})
        assert "line 1: not a JSON object; the file is one list; write one object per line, as `jq -c '.[]'`" in line


def test_names_of_columns_may_have_spaces_around_them(tmp_path: Path) -> None:
    path = text_file(tmp_path, "u, r\n1, 2\n")
    assert read_table(TableFile(path), {"u": "id", "r": "number"}).rows() == [(1, 2.0)]


def test_missing_file(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        assert "no such file" in error_of(TableFile(tmp_path / name), {"u": "id"})


def test_a_blank_line_in_the_middle_does_not_shift_the_lines_after_it(tmp_path: Path) -> None:
    path = text_file(tmp_path, "u,r\n1,2\n\n3,4\n\n")
    assert read_table(TableFile(path), {"u": "id", "r": "number"}).rows() == [(1, 2.0), (None, None), (3, 4.0)]


def test_quotation_marks_are_taken_as_people_mean_them(tmp_path: Path) -> None:
    """A mark inside a field is just a mark; polars alone would lose the rows between two of them."""
    rows = "".join(f"{number},{note}\n" for number, note in enumerate(('5" x', "ok", '5" y', '"a,b"', '"c\n""d"""')))
    table = read_table(TableFile(text_file(tmp_path, "r,x\n" + rows)), {"r": "number", "x": "text"})
    assert table.rows() == [(0, '5" x'), (1, "ok"), (2, '5" y'), (3, "a,b"), (4, 'c\n"d"')]
    path = text_file(tmp_path, '"u";"x"\n"1";"p;q"\n')
    assert read_table(TableFile(path, ";"), {"u": "id", "x": "text"}).rows() == [(1, "p;q")]
    path = text_file(tmp_path, 'u\tx\n1\t"p\n')
    assert read_table(TableFile(path, "\t", is_quoted=False), {"u": "id", "x": "text"}).rows() == [(1, '"p')]
    path = text_file(tmp_path, 'u,r\n1,"2"\n1,"two"\n')
    assert "line 3: column 'r' is not a number: 'two'" in error_of(TableFile(path), {"u": "id", "r": "number"})


def test_a_stray_quotation_mark_swallows_no_lines(tmp_path: Path) -> None:
    """Both marks open a field; together they would enclose lines 3 and 4, with the right number of fields."""
    for content in ('u,x,r\n1,a,2\n1,"b,3\n1,c,4\n1,"b,5\n', 'u,x,r\n1,a,2\n1,"b,3\n1,c,4\n'):
        line = error_of(TableFile(text_file(tmp_path, content)), {"u": "id", "r": "number"})
        assert "line 3: a field begins with a quotation mark, and none ends it; remove the mark, or, if" in line
        table = read_table(TableFile(tmp_path / "log.csv", is_quoted=False), {"u": "id", "x": "text", "r": "number"})
        assert table["x"].to_list()[:3] == ["a", '"b', "c"]


def test_lines_are_counted_though_fields_hold_line_feeds(tmp_path: Path) -> None:
    content = 'u,x,r\n1,"good\nfilm",2\n\n1,"a ""b""\nc",x\n'
    line = error_of(TableFile(text_file(tmp_path, content)), {"u": "id", "r": "number"})
    assert "line 5: column 'r' is not a number: 'x'" in line


@pytest.mark.parametrize("line", ["1,2,3,4,Love, Actually", "1,2,50,3,4,x", "1,2,3"])
def test_columns_that_nobody_asks_for_shift_no_others(tmp_path: Path, line: str) -> None:
    path = text_file(tmp_path, f"u,z,r,y,x\n1,2,3,4,a\n{line}\n1,2,3,4,a\n")
    assert f"line 3: {line.count(',') + 1} fields where 5 are expected" in error_of(TableFile(path), {"u": "id"})


def test_a_path_is_a_path_and_not_a_pattern(tmp_path: Path) -> None:
    frames = {"x1": pl.DataFrame({"u": [1]}), "x[1]": pl.DataFrame({"u": [2]}), "x?": pl.DataFrame({"u": [3]})}
    for name, frame in frames.items():
        frame.write_csv(tmp_path / f"{name}.csv")
        frame.write_parquet(tmp_path / f"{name}.parquet")
        frame.write_ndjson(tmp_path / f"{name}.jsonl")
    for name, frame in frames.items():
        for suffix in ("csv", "parquet", "jsonl"):
            assert read_table(TableFile(tmp_path / f"{name}.{suffix}"), {"u": "id"}).equals(frame), name


def test_flags_may_be_written_as_words(tmp_path: Path) -> None:
    path = text_file(tmp_path, "f\ntrue\nFalse\n1\n0.0\n")
    assert read_table(TableFile(path), {"f": "flag"})["f"].to_list() == [1.0, 0.0, 1.0, 0.0]


def test_names_that_nobody_asks_for_may_repeat(tmp_path: Path) -> None:
    path = text_file(tmp_path, "u,z,z,,\n1,2,3,4,5\n")
    assert read_table(TableFile(path), {"u": "id"}).rows() == [(1,)]
    assert "2 columns are called 'z'; rename one of them" in error_of(TableFile(path), {"z": "number"})


def test_json_lines_of_many_shapes(tmp_path: Path) -> None:
    lines = '{"u": 1}\n' * 200 + '{"u": 7, "r": 1.5}\n'
    table = read_table(TableFile(text_file(tmp_path, "\ufeff" + lines, "l.jsonl")), {"u": "id", "r": "number"})
    assert table.height == 201
    assert table.row(200) == (7, 1.5)
    latin = '{"u": "é"}\n'.encode("latin-1")
    file = TableFile(text_file(tmp_path, latin, "l.jsonl"), encoding="latin-1")
    assert read_table(file, {"u": "id"}).rows() == [("é",)]


def test_separators_of_several_characters_in_compressed_text(tmp_path: Path) -> None:
    path = text_file(tmp_path, gzip.compress(b"u::r\n1::2\n"), "log.csv.gz")
    assert read_table(TableFile(path, "::"), {"u": "id", "r": "number"}).rows() == [(1, 2.0)]


def test_values_of_the_wrong_type_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pl.DataFrame({"r": ["3", "good"], "l": [[1], [2]]}).write_parquet(path)
    assert "row 2: column 'r' is not a number: 'good'" in error_of(TableFile(path), {"r": "number"})
    assert "column 'l' holds List(Int64), not numbers" in error_of(TableFile(path), {"l": "number"})


def test_empty_ids_are_no_ids(tmp_path: Path) -> None:
    path = text_file(tmp_path, 'u,r\n"",1\n5,2\n')
    assert read_table(TableFile(path), {"u": "id", "r": "number"}).rows() == [(None, 1.0), (5, 2.0)]


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    for name in ("folder.csv", "folder.parquet", "folder.jsonl"):
        (tmp_path / name).mkdir()
        assert "cannot be read (Is a directory)" in error_of(TableFile(tmp_path / name), {"u": "id"})

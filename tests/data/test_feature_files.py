"""Files with features of users and items: other encodings and names, and ids that only they or only the log have."""

import json
from pathlib import Path

import pytest

from gfn4rec.data.prepare import PrepareConfig, prepare
from gfn4rec.data.read import read_data
from gfn4rec.errors import UserError
from tests.conftest import Cli

LOG = "user,video,time,click\n" + "".join(
    f"u{user},{video},{video},{video % 2}\n" for user in (1, 2, 3) for video in range(1, 7)
)
TOML = """
[log]
files = ["log.csv"]
item = "video"
[behaviours]
click = "click"
[items]
file = "films.csv"
id = "film_id"
title = "name"
encoding = "latin-1"
separator = ";"
features.genre = { kind = "categorical" }
[users]
file = "people.csv"
id = "person"
encoding = "utf-16"
features.city = { kind = "categorical" }
"""
# Films 5 and 6 are missing, 70 to 72 are not in the log, and 72 is there twice; so are u2 and u9.
FILMS = "film_id;name;genre\n1;Amélie;comédie\n2;Léon;drame\n3;Z;drame\n4;Ça;\n70;A;a\n71;B;b\n72;C;c\n72;C;c\n"
PEOPLE = "person,city\nu1,Zürich\nu3,Málaga\nu9,Oslo\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "films.csv").write_text(FILMS, encoding="latin-1")
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-16")
    (tmp_path / "own.toml").write_text(TOML)
    return tmp_path


def test_feature_files_have_their_own_encoding_and_names(folder: Path) -> None:
    log = read_data(str(folder / "own.toml"))
    assert log.items is not None
    assert log.users is not None
    assert log.items.frame.collect().head(3).rows() == [
        (1, "Amélie", "comédie"),
        (2, "Léon", "drame"),
        (3, "Z", "drame"),
    ]
    assert log.users.frame.collect().rows() == [("u1", "Zürich"), ("u3", "Málaga"), ("u9", "Oslo")]
    (folder / "own.toml").write_text(TOML.replace('encoding = "latin-1"\n', ""))
    with pytest.raises(UserError, match="films.csv line 2: not utf-8 text .byte 0xe9.; name its encoding"):
        read_data(str(folder / "own.toml"))
    (folder / "own.toml").write_text(TOML.replace('id = "film_id"', 'id = "video"'))
    with pytest.raises(UserError, match="films.csv: no column 'video'; choose from film_id, name, genre"):
        read_data(str(folder / "own.toml"))


def test_ids_that_only_one_file_has_are_counted(folder: Path) -> None:
    counts = prepare(read_data(str(folder / "own.toml")), PrepareConfig(core=1, slate_size=2), folder / "o").statistics
    assert (counts.items_not_in_table, counts.items_not_in_log) == (2, 3)
    assert (counts.users_not_in_table, counts.users_not_in_log) == (1, 1)
    # Film 1 has too few rows for the core; it is still in the log.
    (folder / "log.csv").write_text(LOG.replace("u1,1,", "u1,2,").replace("u2,1,", "u2,2,"))
    counts = prepare(read_data(str(folder / "own.toml")), PrepareConfig(core=2, slate_size=2), folder / "p").statistics
    assert (counts.items, counts.items_not_in_table, counts.items_not_in_log) == (5, 2, 3)


def test_the_counts_are_shown(cli: Cli, folder: Path) -> None:
    prepared = cli("data", "prepare", folder / "own.toml", "--core", 1, "--slate-size", 2, "--out", folder / "out")
    for text in (prepared.out, cli("data", "describe", folder / "out").out):
        lines = {line.rsplit(maxsplit=1)[0].strip(): line.split()[-1] for line in text.splitlines() if line.strip()}
        assert lines["users without a row in the user file"] == "1"
        assert lines["rows of the user file whose user the log does not have"] == "1"
        assert lines["items without a row in the item file"] == "2"
        assert lines["rows of the item file whose item the log does not have"] == "3"
    statistics = json.loads(cli("data", "describe", folder / "out", "--json").out)["statistics"]
    assert (statistics["items_not_in_table"], statistics["items_not_in_log"]) == (2, 3)


def test_without_feature_files_nothing_is_said_of_them(cli: Cli, folder: Path) -> None:
    (folder / "own.toml").write_text(TOML.split("[items]")[0])
    prepared = cli("data", "prepare", folder / "own.toml", "--core", 1, "--slate-size", 2, "--out", folder / "out")
    assert prepared.code == 0
    assert "without a row" not in prepared.out

"""MovieLens 1M (`*.dat`), 100K (original `u.*` layout, or RecBole's atomic files) and newer ones (`ratings.csv`)."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from gfn4rec.data.interactions import Behaviour, Feature, FeatureTable, Interactions, at_least
from gfn4rec.data.readers.recbole import read_recbole
from gfn4rec.data.readers.responses import parse_response
from gfn4rec.data.table_file import TableFile
from gfn4rec.data.tables import ColumnKind, read_table

THRESHOLDS = {"click": 3, "like": 4, "star": 5}
BEHAVIOURS = tuple(Behaviour(name) for name in THRESHOLDS)


def read_ml_1m(raw: Path) -> Interactions:
    """Read MovieLens 1M, with genres of movies, gender and age band of users."""
    # Ratings are numbers only, so `::` can be read as two separators with nothing between them: much faster.
    columns = ("user", "", "item", " ", "rating", "  ", "time")
    ratings = TableFile(raw / "ratings.dat", ":", columns, is_quoted=False, is_published=True)
    movies = _dat(raw / "movies.dat", "id", "title", "genres", encoding=_movies_encoding(raw / "movies.dat"))
    users = _dat(raw / "users.dat", "id", "gender", "age", "occupation", "zip")
    log = read_table(ratings, {"user": "integer", "item": "integer", "rating": "number", "time": "integer"})
    movie_table = read_table(movies, {"id": "integer", "title": "text", "genres": "text"})
    user_table = read_table(users, {"id": "integer", "gender": "text", "age": "text"})
    gender_and_age = (Feature("gender", "categorical"), Feature("age", "categorical"))
    return _interactions(
        ratings,
        log,
        _movies(movie_table.with_columns(pl.col("genres").str.split("|")), movies),
        FeatureTable(user_table.lazy(), gender_and_age, "users.dat"),
        (movies, users),
    )


def read_ml_csv(raw: Path) -> Interactions:
    """Read ratings.csv and movies.csv of newer MovieLens releases, which say nothing about users."""
    ratings, movies = (TableFile(raw / name, is_published=True) for name in ("ratings.csv", "movies.csv"))
    log = read_table(ratings, {"userId": "integer", "movieId": "integer", "rating": "number", "timestamp": "integer"})
    movie_table = read_table(movies, {"movieId": "integer", "title": "text", "genres": "text"}).select(
        "title", id="movieId", genres=pl.col("genres").replace("(no genres listed)", None).str.split("|")
    )
    names = {"user": "userId", "item": "movieId", "time": "timestamp"}
    log = log.select("rating", **names)
    return _interactions(ratings, log, _movies(movie_table, movies), None, (movies,), names)


def read_ml_100k(raw: Path) -> Interactions:
    """Read MovieLens 100K, with genres of movies; gender, occupation and age (a number) of users."""
    if not (raw / "u.data").exists() and any(raw.glob("*.inter")):
        return read_recbole(
            raw,
            behaviours={name: parse_response(f"rating>={at}", name) for name, at in THRESHOLDS.items()},
            kinds={"class": "multi", "gender": "categorical", "age": "numeric", "occupation": "categorical"},
            rename={"class": "genres"},
        )
    ratings = TableFile(raw / "u.data", "\t", ("user", "item", "rating", "time"), is_quoted=False, is_published=True)
    genre_file = TableFile(raw / "u.genre", "|", ("genre", "number"), is_quoted=False)
    users = TableFile(raw / "u.user", "|", ("id", "age", "gender", "occupation", "zip"), is_quoted=False)
    log = read_table(ratings, {"user": "integer", "item": "integer", "rating": "number", "time": "integer"})
    genres = read_table(genre_file, {"genre": "text"})["genre"].drop_nulls().to_list()
    movie_columns = ("id", "title", "date", "video_date", "url", *genres)
    movies = TableFile(raw / "u.item", "|", movie_columns, encoding="latin-1", is_quoted=False)
    kinds: dict[str, ColumnKind] = {"id": "integer", "title": "text"}
    movie_table = read_table(movies, kinds | {genre: "integer" for genre in genres})
    genres_of_movie = pl.concat_list(pl.when(pl.col(genre) == 1).then(pl.lit(genre)) for genre in genres)
    user_table = read_table(users, {"id": "integer", "age": "number", "gender": "text", "occupation": "text"})
    movie_table = movie_table.select("id", "title", genres=genres_of_movie.list.drop_nulls())
    gender_age_work = (
        Feature("gender", "categorical"),
        Feature("age", "numeric"),
        Feature("occupation", "categorical"),
    )
    return _interactions(
        ratings,
        log,
        _movies(movie_table, movies),
        FeatureTable(user_table.lazy(), gender_age_work, "u.user"),
        (movies, users, genre_file),
    )


def _interactions(
    ratings: TableFile,
    log: pl.DataFrame,
    items: FeatureTable,
    users: FeatureTable | None,
    feature_files: tuple[TableFile, ...],
    raw_columns: Mapping[str, str] | None = None,
) -> Interactions:
    """Turn ratings into responses."""
    responses = [at_least("rating", threshold).alias(name) for name, threshold in THRESHOLDS.items()]
    return Interactions(
        log=log.with_columns(responses),
        behaviours=BEHAVIOURS,
        users=users,
        items=items,
        raw_files=(ratings.record(log.height), *(file.record() for file in feature_files)),
        raw_columns={**(raw_columns or {}), **dict.fromkeys(THRESHOLDS, "rating")},
    )


def _movies(table: pl.DataFrame, file: TableFile) -> FeatureTable:
    return FeatureTable(table.lazy(), (Feature("genres", "multi"),), file.path.name)


def _dat(path: Path, *columns: str, encoding: str = "utf-8") -> TableFile:
    return TableFile(path, "::", columns, encoding, is_quoted=False, is_published=True)


def _movies_encoding(path: Path) -> str:
    """Return the encoding of movies.dat: the published file is in Latin-1, but copies in UTF-8 exist."""
    try:
        path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    except OSError:
        pass  # a missing file is reported when it is read
    return "utf-8"

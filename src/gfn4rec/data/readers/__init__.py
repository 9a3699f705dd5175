"""The table of known data sets. A new one needs a reader and an entry here."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gfn4rec.config import nearest
from gfn4rec.data.download import Archive
from gfn4rec.data.interactions import DEFAULT_RHO, Interactions
from gfn4rec.data.readers.amazon import read_amazon
from gfn4rec.data.readers.kuairand import read_kuairand
from gfn4rec.data.readers.kuairec import read_kuairec
from gfn4rec.data.readers.mind import read_mind
from gfn4rec.data.readers.movielens import read_ml_1m, read_ml_100k, read_ml_csv
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.errors import UserError

_ZENODO = "https://zenodo.org/records/10439422/files"
_ZENODO_KUAIREC = "https://zenodo.org/records/18164998/files/KuaiRec.zip"
_GROUPLENS = "https://files.grouplens.org/datasets/movielens"


@dataclass(frozen=True)
class Source:
    """A published data set."""

    summary: str
    archive: Archive
    layout: str  # the files needed in the folder of --raw
    read: Callable[..., Interactions]
    test_slates: int = 1  # as in the paper
    rho: float = DEFAULT_RHO  # item influence in the simulator, as in the paper
    has_random_log: bool = False


def _kuairand(size: str, summary: str, md5: str | None, layout: str, test_slates: int) -> Source:
    archive = Archive(
        url=f"{_ZENODO}/KuaiRand-{size.capitalize() if size == 'pure' else size.upper()}.tar.gz",
        md5=md5,
        members=("*/data/log_*.csv", "*/data/user_features_*.csv", "*/data/video_features_basic_*.csv"),
    )
    return Source(summary, archive, layout, partial(read_kuairand, size=size), test_slates, 0.1, has_random_log=True)


def _movielens(name: str, counts: str, md5: str | None) -> Source:
    archive = Archive(f"{_GROUPLENS}/{name}.zip", md5, (f"{name}/ratings.csv", f"{name}/movies.csv"))
    return Source(f"MovieLens {counts}", archive, "ratings.csv, movies.csv", read_ml_csv)


def _kuairec(size: str, counts: str) -> Source:
    files = (f"{size}_matrix.csv", "item_categories.csv", "user_features.csv")
    archive = Archive(_ZENODO_KUAIREC, "261550d472c48eff4990fb13c0e5bcf7", tuple(f"*/{file}" for file in files))
    return Source(f"KuaiRec, {size} matrix: {counts}", archive, ", ".join(files), partial(read_kuairec, size=size))


SOURCES: dict[str, Source] = {
    "ml-1m": Source(
        "MovieLens 1M: 1,000,209 ratings of 3,706 movies by 6,040 users",
        Archive(f"{_GROUPLENS}/ml-1m.zip", "c4d9eecfca2ab87c1945afe126590906", ("ml-1m/*.dat",)),
        "ratings.dat, movies.dat, users.dat",
        read_ml_1m,
    ),
    "ml-100k": Source(
        "MovieLens 100K: 100,000 ratings of 1,682 movies by 943 users",
        Archive(f"{_GROUPLENS}/ml-100k.zip", "0e33842e24a9c977be4e0107933c0723", ("ml-100k/u.*",)),
        "u.data, u.item, u.user, u.genre, or RecBole's ml-100k.inter, .item, .user",
        read_ml_100k,
    ),
    "ml-latest-small": _movielens(
        "ml-latest-small", "latest, small: 100,836 ratings of 9,742 movies by 610 users (September 2018)", None
    ),
    "ml-latest": _movielens(
        "ml-latest", "latest: 33,832,162 ratings of 86,537 movies by 330,975 users (July 2023)", None
    ),
    "ml-25m": _movielens(
        "ml-25m",
        "25M: 25,000,095 ratings of 62,423 movies by 162,541 users",
        "6b51fb2759a8657d3bfcbfc42b592ada",
    ),
    "ml-32m": _movielens(
        "ml-32m",
        "32M: 32,000,204 ratings of 87,585 movies by 200,948 users",
        "d472be332d4daa821edc399621853b57",
    ),
    "kuairand-1k": _kuairand(
        "1k",
        "KuaiRand-1K: 11.7 million views of 4.37 million videos by 1,000 users",
        "6b0b9c8222d67fcd4c676218edca3f1f",
        "log_standard_4_08_to_4_21_1k.csv, log_standard_4_22_to_5_08_1k.csv, user_features_1k.csv, "
        "video_features_basic_1k.csv",
        test_slates=4,
    ),
    "kuairand-pure": _kuairand(
        "pure",
        "KuaiRand-Pure: 1.4 million views of 7,551 videos by 27,285 users",
        None,
        "log_standard_*_pure.csv, user_features_pure.csv, video_features_basic_pure.csv",
        test_slates=1,
    ),
    "kuairand-27k": _kuairand(
        "27k",
        "KuaiRand-27K: 322 million views of 32 million videos by 27,285 users",
        None,
        "log_standard_*_27k_part*.csv, user_features_27k.csv, video_features_basic_27k.csv",
        test_slates=4,
    ),
    "kuairec-big": _kuairec("big", "12,530,806 views of 10,728 videos by 7,176 users"),
    "kuairec-small": _kuairec("small", "4,676,570 views of 3,327 videos by 1,411 users, nearly all pairs"),
    "mind": Source(
        "MIND: 15 million impressions of 160,000 news articles by 1 million users; MIND-small: 50,000 of the users",
        Archive("https://msnews.github.io", None, is_page=True),
        "behaviors.tsv, news.tsv, or several folders with both",
        read_mind,
    ),
    "amazon-2018": Source(
        "Amazon reviews of 2018: one category of 233.1 million reviews in all",
        Archive("https://cseweb.ucsd.edu/~jmcauley/datasets/amazon_v2/", None, is_page=True),
        "CATEGORY.json.gz or CATEGORY_5.json.gz, and meta_CATEGORY.json.gz if wanted",
        partial(read_amazon, year=2018),
    ),
    "amazon-2023": Source(
        "Amazon reviews of 2023: one category of 571.54 million reviews in all",
        Archive("https://amazon-reviews-2023.github.io", None, is_page=True),
        "CATEGORY.jsonl.gz, and meta_CATEGORY.jsonl.gz if wanted",
        partial(read_amazon, year=2023),
    ),
}

SYNTHETIC = {f"synthetic-{name}": name for name in PRESETS}


def read_synthetic(name: str, seed: int) -> Interactions:
    """Draw the log of an embedded data set."""
    return generate(PRESETS[SYNTHETIC[name]], seed)[1]


def find_source(name: str) -> Source:
    """Return the published data set of this name."""
    if name not in SOURCES:
        hint = nearest(name, [*SOURCES, *SYNTHETIC])
        raise UserError(f"{name!r} is neither a known data set nor a file of yours; {hint}")
    return SOURCES[name]


def read_published(name: str, raw: Path, include_random: bool = False) -> Interactions:
    """Read a published data set from the folder with its files."""
    source = find_source(name)
    if not raw.is_dir():
        raise UserError(f"{raw}: no such folder; --raw names the one with {source.layout}")
    if include_random and not source.has_random_log:
        known = ", ".join(other for other, source in SOURCES.items() if source.has_random_log)
        raise UserError(f"--include-random: {name} has no log of random exposure; those that have one: {known}")
    try:
        interactions = source.read(raw, include_random=True) if include_random else source.read(raw)
    except UserError as error:
        if str(error).endswith("no such file"):
            raise UserError(f"{error}; --raw names the folder with {source.layout}") from None
        raise
    return replace(interactions, rho=source.rho)


def rho_by_name(name: str) -> float:
    """Return the item influence of a data set whose manifest, from before it was stored, does not say."""
    return SOURCES[name].rho if name in SOURCES else DEFAULT_RHO

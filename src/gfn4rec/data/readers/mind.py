"""MIND, news of Microsoft: impressions, that is, lists of news that were really shown together, with clicks."""

from pathlib import Path

import polars as pl

from gfn4rec.data.interactions import Behaviour, Feature, FeatureTable, Interactions
from gfn4rec.data.table_file import TableFile
from gfn4rec.data.tables import read_table
from gfn4rec.data.values import refuse_missing, refuse_unparsed
from gfn4rec.errors import UserError

BEHAVIOUR_COLUMNS = ("impression", "user", "time", "history", "impressions")
NEWS_COLUMNS = ("id", "category", "subcategory", "title", "abstract", "url", "title_entities", "abstract_entities")


def read_mind(raw: Path) -> Interactions:
    """Read behaviors.tsv and news.tsv of `raw`, or those of its folders (MINDsmall_train, MINDsmall_dev).

    A line of behaviors.tsv is a slate. Its items have no positions, because the publishers shuffled them. The news that
    the user clicked earlier are not read, because it is not known when, nor beside which others.
    """
    paths = sorted(raw.glob("behaviors.tsv")) or sorted(raw.glob("*/behaviors.tsv"))
    if not paths:
        raise UserError(f"{raw / 'behaviors.tsv'}: no such file")
    logs = [TableFile(path, "\t", BEHAVIOUR_COLUMNS, is_quoted=False) for path in paths]
    news = [TableFile(path.with_name("news.tsv"), "\t", NEWS_COLUMNS, is_quoted=False) for path in paths]
    parts, num_slates = [], 0
    for file in logs:
        impressions = _impressions(file)
        parts.append(_shown_items(file, impressions).with_columns(pl.col("slate") + num_slates))
        num_slates += impressions.height
    tables = [read_table(file, dict.fromkeys(("id", "category", "subcategory", "title"), "text")) for file in news]
    return Interactions(
        log=pl.concat(parts),
        behaviours=(Behaviour("click"),),
        items=FeatureTable(
            pl.concat(tables).unique("id", keep="first", maintain_order=True).lazy(),
            (Feature("category", "categorical"), Feature("subcategory", "categorical")),
            "news.tsv",
        ),
        raw_files=tuple(file.record() for file in (*logs, *news)),
    )


def _impressions(file: TableFile) -> pl.DataFrame:
    """Return user, time in seconds and shown items of each line."""
    table = read_table(file, {"user": "text", "time": "text", "impressions": "text"})
    time = table["time"].str.to_datetime("%m/%d/%Y %I:%M:%S %p", time_unit="ms", strict=False)
    refuse_unparsed(file, table["time"], time, "is not a time like 11/15/2019 10:22:32 AM")
    refuse_missing(file, table)
    return table.with_columns(time.dt.epoch("s"))


def _shown_items(file: TableFile, impressions: pl.DataFrame) -> pl.DataFrame:
    """Return a row per shown item; slates are numbered by their lines, from 0 on."""
    shown = impressions.select(
        "user",
        pl.col("impressions").str.strip_chars().str.split(" ").alias("item"),
        "time",
        slate=pl.int_range(pl.len()),
    ).explode("item")
    is_click = pl.col("item").str.ends_with("-1")
    is_broken = ~(is_click | pl.col("item").str.ends_with("-0")) | (pl.col("item").str.len_bytes() < 3)
    for slate, item in shown.filter(is_broken).select("slate", "item").head(1).rows():
        raise UserError(
            f"{file.locate(slate)}: {item!r} in its impressions does not end in -0 or -1; "
            "if this is a test set, whose clicks are secret, leave it out"
        )
    return shown.with_columns(pl.col("item").str.head(-2), click=is_click)

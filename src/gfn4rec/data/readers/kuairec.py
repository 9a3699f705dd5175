"""KuaiRec: how long users watched videos, in a big sparse matrix or a small one that is almost full."""

from pathlib import Path

import polars as pl

from gfn4rec.data.interactions import Behaviour, Feature, FeatureTable, Interactions, at_least
from gfn4rec.data.readers.kuairand import USER_FEATURES, csv_features, csv_file
from gfn4rec.data.tables import read_table
from gfn4rec.data.values import refuse_missing

THRESHOLDS = {"view": 0.5, "complete": 1.0, "rewatch": 2.0}  # of the time watched over the length of the video
COLUMNS = {"user": "user_id", "item": "video_id", "time": "timestamp"}


def read_kuairec(raw: Path, size: str) -> Interactions:
    """Read `<size>_matrix.csv` of `raw`, or of its folder `data`. Rows without a time are left out, and counted."""
    folder = raw / "data" if (raw / "data").is_dir() else raw
    matrix = csv_file(folder / f"{size}_matrix.csv")
    videos, users = csv_file(folder / "item_categories.csv"), csv_file(folder / "user_features.csv")
    table = read_table(
        matrix, {"user_id": "integer", "video_id": "integer", "timestamp": "number", "watch_ratio": "number"}
    )
    timed = table.filter(pl.col("timestamp").is_finite())
    refuse_missing(matrix, table.select("user_id", "video_id", pl.col("watch_ratio").fill_nan(None)))
    tags = read_table(videos, {"video_id": "integer", "feat": "text"}).select(
        id="video_id", tag=pl.col("feat").str.replace_all(r"[\[\] ]", "").str.split(",")
    )
    return Interactions(
        log=timed.select(
            **COLUMNS, **{name: at_least("watch_ratio", threshold) for name, threshold in THRESHOLDS.items()}
        ),
        behaviours=tuple(Behaviour(name) for name in THRESHOLDS),
        users=csv_features(users, "user_id", USER_FEATURES),
        items=FeatureTable(tags.lazy(), (Feature("tag", "multi"),), videos.path.name),
        raw_files=(matrix.record(timed.height), videos.record(), users.record()),
        raw_columns=COLUMNS | dict.fromkeys(THRESHOLDS, "watch_ratio"),
        origin={"rows_without_time": table.height - timed.height},
    )

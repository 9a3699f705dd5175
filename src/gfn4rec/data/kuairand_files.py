"""Writes a log in KuaiRand's file layout, to test its reader at full size."""

from pathlib import Path

import numpy as np
import polars as pl

from gfn4rec.data.interactions import Interactions
from gfn4rec.data.readers.kuairand import BEHAVIOUR_COLUMNS
from gfn4rec.errors import UserError
from gfn4rec.seeding import numpy_generator

_SECOND_PERIOD_MS = 1_650_556_800_000  # 22 April 2022 in Beijing
_ZONE = "Asia/Shanghai"
_USER_COUNTS = ("follow_user_num", "fans_user_num", "friend_user_num", "register_days")


def write_kuairand(interactions: Interactions, folder: Path, size: str = "1k", seed: int = 0) -> None:
    """Write the two standard logs, the user features and the basic video features.

    The log needs the seven behaviours of KuaiRand and times in milliseconds. Features that the interactions do not have
    are drawn at random; the first multi-valued item feature, if any, gives the tags.
    """
    missing = [name for name in BEHAVIOUR_COLUMNS if name not in interactions.log.columns]
    if missing:
        raise UserError(f"KuaiRand's layout needs the behaviour {missing[0]!r}")
    folder.mkdir(parents=True, exist_ok=True)
    periods = {
        "4_08_to_4_21": pl.col("time_ms") < _SECOND_PERIOD_MS,
        "4_22_to_5_08": pl.col("time_ms") >= _SECOND_PERIOD_MS,
    }
    for period, is_inside in periods.items():
        log = interactions.log.lazy().rename({"time": "time_ms"}).filter(is_inside)
        log.select(_log_columns()).sink_csv(folder / f"log_standard_{period}_{size}.csv")
    rng = numpy_generator(seed, "kuairand files")
    users, items = interactions.log["user"].unique().sort(), interactions.log["item"].unique().sort()
    _user_features(users, rng).write_csv(folder / f"user_features_{size}.csv")
    _video_features(interactions, items, rng).write_csv(folder / f"video_features_basic_{size}.csv")


def _log_columns() -> list[pl.Expr]:
    moment = pl.from_epoch("time_ms", time_unit="ms").dt.convert_time_zone(_ZONE)
    signals = ("is_click", "is_like", "is_follow", "is_comment", "is_forward", "is_hate", "long_view")
    name_of = {column: name for name, column in BEHAVIOUR_COLUMNS.items()}
    duration = 10_000 + pl.col("item") * 7919 % 200_000
    return [
        pl.col("user").alias("user_id"),
        pl.col("item").alias("video_id"),
        moment.dt.strftime("%Y%m%d").alias("date"),
        (moment.dt.hour().cast(pl.Int32) * 100).alias("hourmin"),
        pl.col("time_ms"),
        *(pl.col(name_of[signal]).cast(pl.UInt8).alias(signal) for signal in signals),
        (duration * pl.col("view")).alias("play_time_ms"),
        duration.alias("duration_ms"),
        *(pl.lit(0).alias(name) for name in ("profile_stay_time", "comment_stay_time", "is_profile_enter", "is_rand")),
        pl.lit(1).alias("tab"),
    ]


def _user_features(users: pl.Series, rng: np.random.Generator) -> pl.DataFrame:
    num_users = len(users)
    columns: dict[str, object] = {
        "user_id": users,
        "user_active_degree": rng.choice(["full_active", "high_active", "middle_active", "UNKNOWN"], num_users),
    }
    for name in ("is_lowactive_period", "is_live_streamer", "is_video_author"):
        columns[name] = rng.integers(2, size=num_users)
    for name in _USER_COUNTS:
        columns[name] = rng.integers(1000, size=num_users)
        columns[f"{name}_range"] = rng.choice(["0", "(0,10]", "(10,50]", "500+"], num_users)
    for number in range(18):
        columns[f"onehot_feat{number}"] = rng.integers(2 + number, size=num_users)
    return pl.DataFrame(columns)


def _video_features(interactions: Interactions, items: pl.Series, rng: np.random.Generator) -> pl.DataFrame:
    num_items = len(items)
    frame = pl.DataFrame(
        {
            "video_id": items,
            "author_id": rng.integers(max(1, num_items // 3), size=num_items),
            "video_type": rng.choice(["NORMAL", "AD"], num_items, p=[0.98, 0.02]),
            "upload_dt": pl.Series(["2022-04-10"]).new_from_index(0, num_items),
            "upload_type": rng.choice(["LongImport", "ShortImport", "Web", "Kmovie"], num_items),
            "visible_status": rng.integers(2, size=num_items),
            "video_duration": rng.integers(5_000, 300_000, size=num_items),
            "server_width": rng.choice([540, 720, 1080], num_items),
            "server_height": rng.choice([960, 1280, 1920], num_items),
            "music_id": rng.integers(max(1, num_items // 2), size=num_items),
            "music_type": rng.integers(10, size=num_items),
        }
    )
    multi = (
        [feature.name for feature in interactions.items.features if feature.kind == "multi"]
        if interactions.items
        else []
    )
    if interactions.items is None or not multi:
        return frame.with_columns(tag=pl.lit(None, dtype=pl.String))
    numbers = pl.col(multi[0]).list.eval(pl.element().str.extract(r"(\d+)")).list.join(",")
    tags = interactions.items.frame.select(video_id="id", tag=numbers).collect()
    return frame.join(tags, on="video_id", how="left", maintain_order="left")

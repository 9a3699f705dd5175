"""KuaiRand in its three published sizes: several log files, of which only the needed columns are read."""

from pathlib import Path

import polars as pl

from gfn4rec.data.interactions import Behaviour, Feature, FeatureTable, Interactions
from gfn4rec.data.table_file import TableFile
from gfn4rec.data.tables import ColumnKind, read_table, scan_table
from gfn4rec.errors import UserError

BEHAVIOUR_COLUMNS = {
    "click": "is_click",
    "view": "long_view",
    "like": "is_like",
    "comment": "is_comment",
    "forward": "is_forward",
    "follow": "is_follow",
    "hate": "is_hate",
}
BEHAVIOURS = tuple(Behaviour(name, -1.0 if name == "hate" else 1.0) for name in BEHAVIOUR_COLUMNS)

USER_FEATURES = (
    "user_active_degree",
    "is_lowactive_period",
    "is_live_streamer",
    "is_video_author",
    "follow_user_num_range",
    "fans_user_num_range",
    "friend_user_num_range",
    "register_days_range",
    *(f"onehot_feat{number}" for number in range(18)),
)
VIDEO_FEATURES = ("author_id", "video_type", "upload_type", "visible_status", "music_id", "music_type")


def read_kuairand(raw: Path, size: str, include_random: bool = False) -> Interactions:
    """Read the files `*_<size>.csv` or `*_<size>_part<n>.csv` of `raw`, or of its folder `data`.

    Rows of equal time keep the order of the files by name, standard logs before the random one, and within a file the
    order of its lines.
    """
    folder = raw / "data" if (raw / "data").is_dir() else raw
    logs = sorted(folder.glob(f"log_standard_*_{size}*.csv"))
    if not logs:
        raise UserError(f"{folder}: no log_standard_*_{size}.csv in it")
    if include_random:
        random_logs = sorted(folder.glob(f"log_random_*_{size}*.csv"))
        if not random_logs:
            raise UserError(f"{folder}: --include-random needs a log_random_*_{size}.csv, which is missing")
        logs += random_logs
    log_files = [csv_file(path) for path in logs]
    users, videos = (
        csv_file(folder / f"user_features_{size}.csv"),
        csv_file(folder / f"video_features_basic_{size}.csv"),
    )
    kinds: dict[str, ColumnKind] = {"user_id": "integer", "video_id": "integer", "time_ms": "integer"}
    kinds |= {column: "flag" for column in BEHAVIOUR_COLUMNS.values()}
    parts = [read_table(file, kinds) for file in log_files]
    log = pl.concat(parts).rename({"user_id": "user", "video_id": "item", "time_ms": "time"})
    return Interactions(
        log=log.rename({column: name for name, column in BEHAVIOUR_COLUMNS.items()}),
        behaviours=BEHAVIOURS,
        users=csv_features(users, "user_id", USER_FEATURES),
        items=csv_features(videos, "video_id", VIDEO_FEATURES, multi="tag"),
        raw_files=(
            *(file.record(part.height) for file, part in zip(log_files, parts, strict=True)),
            users.record(),
            videos.record(),
        ),
        raw_columns={"user": "user_id", "item": "video_id", "time": "time_ms"} | BEHAVIOUR_COLUMNS,
        origin={"include_random": include_random},
    )


def csv_features(
    file: TableFile, id_column: str, categorical: tuple[str, ...], multi: str | None = None
) -> FeatureTable:
    """Return features of a file of comma-separated values, which is read later."""
    kinds: dict[str, ColumnKind] = {id_column: "integer"}
    kinds |= {name: "text" for name in (*categorical, *((multi,) if multi else ()))}
    frame = scan_table(file, kinds).rename({id_column: "id"})
    features = tuple(Feature(name, "categorical") for name in categorical)
    if multi:
        frame = frame.with_columns(pl.col(multi).str.split(","))
        features += (Feature(multi, "multi"),)
    return FeatureTable(frame, features, file.path.name)


def csv_file(path: Path) -> TableFile:
    """Return a published file of comma-separated values."""
    return TableFile(path, is_published=True)

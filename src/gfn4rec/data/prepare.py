"""Interactions -> a prepared directory: filtered, ordered, numbered, cut into slates, split, written."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt
import polars as pl

from gfn4rec.data.core import codes, k_core, largest_core
from gfn4rec.data.features import count_unmatched, encode_features
from gfn4rec.data.interactions import FrameColumns, Interactions
from gfn4rec.data.manifest import FORMAT, BehaviourEntry, Manifest, RawFileEntry, Statistics
from gfn4rec.data.manifest import PrepareConfig as PrepareConfig
from gfn4rec.data.negatives import refuse_impossible, sample_negatives
from gfn4rec.data.sessions import history_counts, number_sessions, offsets, refuse_unknown_sessions
from gfn4rec.data.slates import (
    SPLITS,
    TEST,
    TRAIN,
    VAL,
    Ints,
    Segments,
    ShownSegments,
    cut_segments,
    shown_segments,
    split_slates,
)
from gfn4rec.data.storage import TableWriter, write_manifest
from gfn4rec.errors import UserError
from gfn4rec.storage import replace_directory

Report = Callable[[str], None]

# Columns of our own beside the user's; no behaviour can have such a name.
_KEY, _ROW, _KEPT = "\x00key", "\x00row", "\x00kept"
_DEFAULT = PrepareConfig()


@dataclass(frozen=True)
class _Filtered:
    """The rows that the k-core filter left, in file order, with users and items as codes, and the ids before it."""

    log: pl.DataFrame
    user_of_code: pl.Series
    item_of_code: pl.Series
    raw_users: pl.Series
    raw_items: pl.Series


@dataclass(frozen=True)
class _Numbered:
    """The log sorted by user, then time, then file order, without duplicates; users and items are numbered from 1."""

    log: pl.DataFrame
    user_ids: pl.Series
    item_ids: pl.Series
    offset: Ints  # rows of user number u: offset[u - 1]:offset[u]
    num_duplicates: int
    num_conflicts: int


@dataclass(frozen=True)
class _Slates:
    """The slates of the log, and their split."""

    segments: Segments | ShownSegments
    num_of_user: Ints
    split: npt.NDArray[np.uint8]


def prepare(
    log: object,
    config: PrepareConfig = _DEFAULT,
    out: Path | str | None = None,
    name: str | None = None,
    report: Report = lambda _: None,
    **columns: Unpack[FrameColumns],
) -> Manifest:
    """Write the prepared data set to `out`, whole or not at all, and return its manifest.

    `log` is a pandas or polars DataFrame, whose columns are named as for `Interactions.from_frame`, or `Interactions`.
    Without a `name`, the data set is called like the directory. `report` is called with the name of each stage.

    >>> from gfn4rec import PrepareConfig, read_data
    >>> manifest = prepare(read_data("synthetic-tiny"), PrepareConfig(core=5, slate_size=6), "data/tiny")
    >>> manifest.name, manifest.statistics.users, manifest.statistics.items
    ('tiny', 80, 60)
    >>> import polars as pl
    >>> frame = pl.DataFrame({"uid": [1, 1, 1, 1], "film": [7, 8, 9, 7], "ts": [1, 2, 3, 4], "stars": [5, 2, 4, 5]})
    >>> config, names = PrepareConfig(core=1, slate_size=2), {"user": "uid", "item": "film", "time": "ts"}
    >>> prepare(frame, config, out="data/mine", **names, behaviours={"like": "stars>=4"}).behaviours[0].rate
    0.75
    """
    if out is None:
        raise UserError('say where to write the data set, as in out="data/mine"')
    interactions, out = _interactions(log, columns), Path(out)
    refuse_unknown_sessions(interactions, config)
    refuse_impossible(config, interactions.has_slates)
    report("filtering")
    filtered = _filter(interactions.log, config.core)
    report("ordering")
    behaviours = [behaviour.name for behaviour in interactions.behaviours]
    numbered = _number(filtered, behaviours, interactions.timed, config.session_gap)
    report("cutting slates and writing")
    with replace_directory(out, FORMAT) as directory:
        manifest = _write(directory, name or out.resolve().name, interactions, config, filtered, numbered)
        write_manifest(directory, manifest)
    return manifest


def _interactions(log: object, columns: FrameColumns) -> Interactions:
    if not isinstance(log, Interactions):
        if "behaviours" not in columns:
            raise UserError('say what counts as a response, as in behaviours={"like": "rating>=4"}')
        return Interactions.from_frame(log, **columns)
    if columns:
        raise UserError(f"{next(iter(columns))}= is for DataFrames; Interactions have their columns, leave it out")
    return log


def _write(
    directory: Path,
    name: str,
    interactions: Interactions,
    config: PrepareConfig,
    filtered: _Filtered,
    numbered: _Numbered,
) -> Manifest:
    """Cut the log into slates, write all tables, and return the manifest."""
    with TableWriter(directory) as writer:
        slates = _cut(numbered, config)
        writer.write("log", numbered.log.with_columns(in_slate=_marked(slates.segments.row_SK, numbered.log.height)))
        writer.write("slates", pl.DataFrame({"split": slates.split}))
        if config.negatives:
            rows = slates.segments.row_SK
            writer.write("negatives", sample_negatives(numbered.log, numbered.user_ids, rows, slates.split, config))
        users, user_features = encode_features(interactions.users, numbered.user_ids)
        writer.write("users", users.with_columns(first_row=pl.Series(numbered.offset[:-1])))
        items, item_features = encode_features(interactions.items, numbered.item_ids)
        writer.write("items", items)
        return Manifest(
            name=name,
            settings=config,
            timed=interactions.timed,
            behaviours=_behaviour_entries(interactions, numbered.log),
            rho=interactions.rho,
            user_features=user_features,
            item_features=item_features,
            statistics=_statistics(interactions, config, filtered, numbered, slates),
            origin=dict(interactions.origin),
            raw_files=tuple(RawFileEntry(name=file.name, sha256=file.sha256()) for file in interactions.raw_files),
            files=writer.finish(),
        )


def _filter(log: pl.DataFrame, core: int) -> _Filtered:
    (user, user_of_code), (item, item_of_code) = codes(log["user"]), codes(log["item"])
    is_kept = k_core(user, item, core)
    if not is_kept.any():
        best = largest_core(user, item)
        raise UserError(f"--core {core} leaves nothing of the log; {best} is the largest core that keeps something")
    coded = log.with_columns(user=pl.Series(user.astype(np.uint32)), item=pl.Series(item.astype(np.uint32)))
    return _Filtered(
        log=coded if is_kept.all() else coded.filter(pl.Series(is_kept)),
        user_of_code=user_of_code,
        item_of_code=item_of_code,
        raw_users=_occurring(user, user_of_code),
        raw_items=_occurring(item, item_of_code),
    )


def _occurring(code: Ints, id_of_code: pl.Series) -> pl.Series:
    return id_of_code[np.flatnonzero(np.bincount(code))]


def _number(filtered: _Filtered, behaviours: list[str], timed: bool, session_gap: float | None) -> _Numbered:
    """Sort, drop duplicates, and number.

    Users are numbered in the order of their ids, items in the order of first appearance in the sorted log.
    """
    log = _sorted(filtered.log)
    is_repeat, num_conflicts = _duplicates(log, behaviours, timed)
    if is_repeat is not None:
        log = log.filter(~is_repeat)
    if "slate" in log.columns:
        log = log.with_columns(slate=pl.col("slate").rle_id())
    log = number_sessions(log, session_gap)
    user, item = log["user"].to_numpy(), log["item"].to_numpy()
    is_first = np.append(True, user[1:] != user[:-1])
    first_row = np.flatnonzero(is_first)
    first_seen = np.full(int(item.max()) + 1, len(item))
    first_seen[item[::-1]] = np.arange(len(item))[::-1]  # the last write stays: that of the earliest row
    by_appearance = np.argsort(first_seen, kind="stable")[: np.count_nonzero(first_seen < len(item))]
    number = np.zeros(len(first_seen), dtype=np.uint32)
    number[by_appearance] = np.arange(1, len(by_appearance) + 1)
    return _Numbered(
        log=log.with_columns(
            user=pl.Series(np.cumsum(is_first, dtype=np.uint32)),
            item=pl.Series(number[item]),
            # Seconds fit into half the bytes and are written twice as fast; a float would lose digits.
            time=log["time"].shrink_dtype() if log.schema["time"].is_integer() else log["time"],
        ),
        user_ids=filtered.user_of_code[user[first_row].astype(np.int64)],
        item_ids=filtered.item_of_code[by_appearance],
        offset=np.append(first_row, len(item)),
        num_duplicates=filtered.log.height - log.height,
        num_conflicts=num_conflicts,
    )


def _sorted(log: pl.DataFrame) -> pl.DataFrame:
    """Sort the log by user, then time, then file order; the rows of a slate that was shown stay together."""
    if "slate" in log.columns:
        return _sorted_by_slate(log)
    user, time = log["user"].to_numpy(), log["time"].to_numpy()
    if log.schema["time"].is_integer():
        low, high = int(time.min()), int(time.max())
        if (int(user.max()) + 1) * (high - low + 1) < 2**63:
            # User and time fit into one number; sorting by one column takes half as long as by two.
            key = user.astype(np.int64)
            key *= high - low + 1
            key += time
            key -= low
            return log.with_columns(pl.Series(_KEY, key)).sort(_KEY, maintain_order=True).drop(_KEY)
    return log.sort("user", "time", maintain_order=True)


def _sorted_by_slate(log: pl.DataFrame) -> pl.DataFrame:
    """Sort the log by user, then by slates in the order of their first rows in time, then by position or time."""
    start, first = pl.col("time").min().over("slate"), pl.int_range(pl.len()).min().over("slate")
    within = "position" if "position" in log.columns else "time"
    keyed = log.with_columns(start.alias(_KEY), first.alias(_ROW))
    return keyed.sort("user", _KEY, _ROW, within, maintain_order=True).drop(_KEY, _ROW)


def _duplicates(log: pl.DataFrame, behaviours: list[str], timed: bool) -> tuple[pl.Series | None, int]:
    """Return which rows are dropped as duplicates, and how many of them differ in responses."""
    if "slate" in log.columns:
        return _repeats_in_slates(log, behaviours)
    # Without times a duplicate looks like a second visit, so nothing is dropped.
    return _repeats(log, behaviours) if timed else (None, 0)


def _repeats_in_slates(log: pl.DataFrame, behaviours: list[str]) -> tuple[pl.Series, int]:
    """Return which rows repeat an earlier one in slate and item, and how many of them differ in responses."""
    differs = pl.any_horizontal(pl.col(name) != pl.col(name).first().over("slate", "item") for name in behaviours)
    is_repeat = log.select(~pl.struct("slate", "item").is_first_distinct()).to_series()
    return is_repeat, int(log.select(differs).to_series().filter(is_repeat).sum())


def _repeats(log: pl.DataFrame, behaviours: list[str]) -> tuple[pl.Series | None, int]:
    """Return which rows repeat an earlier one in user, item and time, and how many of them differ in responses."""
    user, item, time = (log[name].to_numpy() for name in ("user", "item", "time"))
    is_tie = np.append(False, (user[1:] == user[:-1]) & (time[1:] == time[:-1]))  # with the row before it
    tied = np.flatnonzero(is_tie | np.append(is_tie[1:], False))
    pair = user[tied].astype(np.int64)
    pair <<= 32
    pair |= item[tied]
    in_order = np.sort(pair)
    if (in_order[1:] != in_order[:-1]).all():  # nobody has an item twice among tied rows, the common case
        return None, 0
    rows = log[tied].select("time", *behaviours).with_columns(pl.Series(_KEY, pair), pl.Series(_ROW, tied))
    rows = rows.filter(pl.col(_KEY).is_duplicated())
    kept = rows.unique([_KEY, "time"], keep="first", maintain_order=True)
    repeats = rows.join(kept, on=_ROW, how="anti")
    differs = pl.any_horizontal(pl.col(name) != pl.col(name + _KEPT) for name in behaviours)
    num_conflicts = repeats.join(kept, on=[_KEY, "time"], suffix=_KEPT).filter(differs).height
    return _marked(repeats[_ROW].to_numpy(), log.height), num_conflicts


def _marked(row: Ints, num_rows: int) -> pl.Series:
    """Return a mask that is true at these rows."""
    mask = np.zeros(num_rows, dtype=bool)
    mask[row] = True
    return pl.Series(mask)


def _cut(numbered: _Numbered, config: PrepareConfig) -> _Slates:
    """Cut the log into slates and split them; a log without a single slate is an error."""
    segments = _segments(numbered, config)
    slate_user = numbered.log["user"].to_numpy()[segments.row_SK[:, 0]]
    num_of_user = np.bincount(slate_user, minlength=len(numbered.user_ids) + 1)[1:]
    return _Slates(segments, num_of_user, split_slates(num_of_user, config.test_slates, config.val_slates))


def _segments(numbered: _Numbered, config: PrepareConfig) -> Segments | ShownSegments:
    """Return the slates that were shown, if the log says which, else cut it into slates."""
    if "slate" in numbered.log.columns:
        shown = shown_segments(numbered.log["slate"].to_numpy(), config.slate_size)
        if not len(shown.row_SK):
            raise UserError(
                f"--slate-size {config.slate_size}: no slate has that many items after the filter; "
                f"the longest has {shown.longest}"
            )
        return shown
    owner = "session" if "session" in numbered.log.columns else "user"  # a slate does not span two
    segments = cut_segments(numbered.log["item"].to_numpy(), offsets(numbered.log[owner]), config.logged_size)
    if not len(segments.row_SK):
        most = int(numbered.log.group_by(owner).agg(pl.col("item").n_unique())["item"].to_numpy().max())
        sampled = f", {config.negatives} of them sampled" if config.negatives else ""
        wanted = f"{config.logged_size} distinct items" if sampled else "that many distinct items"
        raise UserError(
            f"--slate-size {config.slate_size}{sampled}: no {owner} has {wanted}; the most any has is {most}"
        )
    return segments


def _behaviour_entries(interactions: Interactions, log: pl.DataFrame) -> tuple[BehaviourEntry, ...]:
    return tuple(
        BehaviourEntry(name=behaviour.name, weight=behaviour.weight, rate=float(log[behaviour.name].to_numpy().mean()))
        for behaviour in interactions.behaviours
    )


def _statistics(
    interactions: Interactions, config: PrepareConfig, filtered: _Filtered, numbered: _Numbered, slates: _Slates
) -> Statistics:
    count, segments = np.bincount(slates.split, minlength=len(SPLITS)).tolist(), slates.segments
    return Statistics(
        raw_records=interactions.log.height + interactions.num_merged,
        merged_rows=interactions.num_merged,
        raw_users=len(filtered.raw_users),
        raw_items=len(filtered.raw_items),
        records=filtered.log.height,
        users=len(numbered.user_ids),
        items=len(numbered.item_ids),
        duplicate_records=numbered.num_duplicates,
        conflicting_duplicates=numbered.num_conflicts,
        rows=numbered.log.height,
        slates=len(slates.split),
        train_slates=count[TRAIN],
        val_slates=count[VAL],
        test_slates=count[TEST],
        rows_in_slates=segments.row_SK.size,
        **_left_over(segments),
        **history_counts(numbered.log, interactions.behaviours, config),
        users_without_slate=int(np.count_nonzero(slates.num_of_user == 0)),
        users_short_of_test=_users_below(slates, TEST, config.test_slates),
        users_without_test=_users_below(slates, TEST, min(1, config.test_slates)),
        users_short_of_val=_users_below(slates, VAL, config.val_slates),
        users_without_val=_users_below(slates, VAL, min(1, config.val_slates)),
        longest_log=int(np.diff(numbered.offset).max()),
        **count_unmatched("users", interactions.users, numbered.user_ids, filtered.raw_users),
        **count_unmatched("items", interactions.items, numbered.item_ids, filtered.raw_items),
    )


def _left_over(segments: Segments | ShownSegments) -> dict[str, int]:
    """Return the counts of what is in no slate, by their names in the statistics."""
    if isinstance(segments, Segments):
        return {"rows_skipped": segments.num_skipped, "rows_leading": segments.num_leading}
    shown = {"shown_slates": segments.num_slates, "short_slates": segments.num_short}
    return shown | {"rows_beyond": segments.num_beyond, "rows_skipped": 0, "rows_leading": 0}


def _users_below(slates: _Slates, split: int, wanted: int) -> int:
    """Count the users with a slate who have fewer than `wanted` in this split."""
    num_users = len(slates.num_of_user)
    slate_user = np.repeat(np.arange(num_users), slates.num_of_user)
    num_in_split = np.bincount(slate_user[slates.split == split], minlength=num_users)
    return int(np.count_nonzero(num_in_split[slates.num_of_user > 0] < wanted))

"""Interactions -> a prepared data set directory: filtered, ordered, numbered, cut into slates, split, written."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from gfn4rec.data.core import k_core, largest_core
from gfn4rec.data.features import encode_features
from gfn4rec.data.interactions import Interactions
from gfn4rec.data.manifest import BehaviourEntry, Manifest, PrepareConfig, RawFileEntry, Statistics
from gfn4rec.data.slates import SPLITS, TEST, TRAIN, VAL, Ints, Segments, cut_segments, split_slates
from gfn4rec.data.storage import replace_directory, write_manifest, write_tables
from gfn4rec.errors import UserError

Report = Callable[[str], None]

_COMPACT = 4  # integer ids are their own codes if they span less than this many times the number of rows


@dataclass(frozen=True)
class _Filtered:
    """The rows the k-core filter left, in file order, and how much there was before."""

    log: pl.DataFrame
    num_raw_users: int
    num_raw_items: int


@dataclass(frozen=True)
class _Numbered:
    """The log sorted by user, then time, then file order, without duplicates, users and items numbered from 1."""

    log: pl.DataFrame
    user_ids: pl.Series
    item_ids: pl.Series
    offset: Ints  # rows of user number u: offset[u - 1]:offset[u]
    num_duplicates: int
    num_conflicts: int


def prepare(
    interactions: Interactions, config: PrepareConfig, out: Path, name: str, report: Report = lambda _: None
) -> Manifest:
    """Write the prepared data set to `out`, whole or not at all. `report` is told each stage."""
    report("filtering")
    filtered = _filter(interactions, config.core)
    report("ordering")
    numbered = _number(filtered.log, [each.name for each in interactions.behaviours], interactions.timed)
    report("cutting slates")
    segments = cut_segments(numbered.log["item"].to_numpy(), numbered.offset, config.slate_size)
    if not len(segments.row_SK):
        raise UserError(_no_slates(numbered, config.slate_size))
    slate_user = numbered.log["user"].to_numpy()[segments.row_SK[:, 0]]
    num_slates_of_user = np.bincount(slate_user, minlength=len(numbered.user_ids) + 1)[1:]
    split = split_slates(num_slates_of_user, config.test_slates, config.val_slates)
    report("encoding features")
    users, user_features = encode_features(interactions.users, numbered.user_ids)
    items, item_features = encode_features(interactions.items, numbered.item_ids)
    statistics = _statistics(interactions, filtered, numbered, segments, num_slates_of_user, split)
    report("writing")
    with replace_directory(out) as directory:
        files = write_tables(
            directory,
            {
                "log": numbered.log,
                "slates": _slate_table(segments.row_SK, split),
                "users": users.with_columns(first_row=pl.Series(numbered.offset[:-1])),
                "items": items,
            },
        )
        manifest = Manifest(
            name=name,
            settings=config,
            timed=interactions.timed,
            behaviours=tuple(
                BehaviourEntry(name=each.name, weight=each.weight, rate=_rate(numbered.log[each.name]))
                for each in interactions.behaviours
            ),
            user_features=user_features,
            item_features=item_features,
            statistics=statistics,
            raw_files=tuple(RawFileEntry(name=file.name, sha256=file.sha256) for file in interactions.raw_files),
            files=files,
        )
        write_manifest(directory, manifest)
    return manifest


def _filter(interactions: Interactions, core: int) -> _Filtered:
    log = interactions.log
    user, item = _codes(log["user"]), _codes(log["item"])
    kept = k_core(user, item, core)
    if not len(kept):
        best = largest_core(user, item)
        raise UserError(f"--core {core} leaves nothing of the log; {best} is the largest core that keeps something")
    return _Filtered(
        log=log if len(kept) == log.height else log[kept],
        num_raw_users=int(np.count_nonzero(np.bincount(user))),
        num_raw_items=int(np.count_nonzero(np.bincount(item))),
    )


def _codes(ids: pl.Series) -> Ints:
    """Non-negative integers, not much more than there are rows, in the order of the ids."""
    if ids.dtype.is_integer():
        values: Ints = ids.to_numpy().astype(np.int64)
        if int(values.max()) - int(values.min()) < _COMPACT * len(values):
            return values - int(values.min())
    ranks: Ints = ids.rank("dense").to_numpy().astype(np.int64)
    return ranks - 1


def _number(log: pl.DataFrame, behaviours: list[str], timed: bool) -> _Numbered:
    """Sort, drop duplicates, number.

    Users count in the order of their ids, items in that of their first appearance in the sorted log.
    """
    log = log.sort("user", "time", maintain_order=True)
    # Without times a repetition cannot be told from a second visit, so nothing is dropped.
    is_repeat, num_conflicts = _repeats(log, behaviours) if timed else (None, 0)
    num_duplicates = 0 if is_repeat is None else int(is_repeat.sum())
    if is_repeat is not None:
        log = log.filter(~is_repeat)
    is_first = np.diff(_codes(log["user"]), prepend=-1) != 0
    first_row = np.flatnonzero(is_first)
    item_code = _codes(log["item"])
    first_seen = np.full(item_code.max() + 1, len(item_code))
    first_seen[item_code[::-1]] = np.arange(len(item_code))[::-1]  # the last write, of the earliest row, stays
    num_items = np.count_nonzero(first_seen < len(item_code))
    by_appearance = np.argsort(first_seen, kind="stable")[:num_items]
    number = np.zeros(len(first_seen), dtype=np.uint32)
    number[by_appearance] = np.arange(1, num_items + 1)
    return _Numbered(
        log=log.with_columns(user=pl.Series(np.cumsum(is_first, dtype=np.uint32)), item=pl.Series(number[item_code])),
        user_ids=log["user"][first_row],
        item_ids=log["item"][first_seen[by_appearance]],
        offset=np.append(first_row, len(item_code)),
        num_duplicates=num_duplicates,
        num_conflicts=num_conflicts,
    )


def _repeats(log: pl.DataFrame, behaviours: list[str]) -> tuple[pl.Series | None, int]:
    """Which rows repeat an earlier one in user, item and time, and how many of them answer differently."""
    user, item = _codes(log["user"]), _codes(log["item"])
    pair = pl.Series("pair", user * (item.max() + 1) + item)
    if pair.n_unique() == len(pair):
        return None, 0
    rows = log.select("time", *behaviours).with_columns(pair).with_row_index("row").filter(pair.is_duplicated())
    kept = rows.unique(["pair", "time"], keep="first", maintain_order=True)
    repeats = rows.join(kept, on="row", how="anti")
    is_repeat = np.zeros(log.height, dtype=bool)
    is_repeat[repeats["row"].to_numpy()] = True
    differs = pl.any_horizontal(pl.col(name) != pl.col(f"{name}_right") for name in behaviours)
    return pl.Series(is_repeat), repeats.join(kept, on=["pair", "time"]).filter(differs).height


def _slate_table(row_SK: Ints, split: npt.NDArray[np.uint8]) -> pl.DataFrame:
    rows = {f"row_{position}": row_SK[:, position].astype(np.uint32) for position in range(row_SK.shape[1])}
    return pl.DataFrame(rows | {"split": split})


def _no_slates(numbered: _Numbered, slate_size: int) -> str:
    longest = int(numbered.log.group_by("user").agg(pl.col("item").n_unique())["item"].to_numpy().max())
    return f"--slate-size {slate_size}: no user has that many distinct items; the most any has is {longest}"


def _rate(response: pl.Series) -> float:
    return float(np.mean(response.to_numpy()))


def _statistics(
    interactions: Interactions,
    filtered: _Filtered,
    numbered: _Numbered,
    segments: Segments,
    num_slates_of_user: Ints,
    split: npt.NDArray[np.uint8],
) -> Statistics:
    count = np.bincount(split, minlength=len(SPLITS)).tolist()
    has_slate = int(np.count_nonzero(num_slates_of_user))
    slate_user = np.repeat(np.arange(len(num_slates_of_user)), num_slates_of_user)
    return Statistics(
        raw_records=interactions.log.height,
        raw_users=filtered.num_raw_users,
        raw_items=filtered.num_raw_items,
        records=filtered.log.height,
        users=len(numbered.user_ids),
        items=len(numbered.item_ids),
        duplicate_records=numbered.num_duplicates,
        conflicting_duplicates=numbered.num_conflicts,
        rows=numbered.log.height,
        slates=len(split),
        train_slates=count[TRAIN],
        val_slates=count[VAL],
        test_slates=count[TEST],
        rows_in_slates=segments.row_SK.size,
        rows_skipped=segments.num_skipped,
        rows_leading=segments.num_leading,
        users_without_slate=len(num_slates_of_user) - has_slate,
        users_without_test=has_slate - len(np.unique(slate_user[split == TEST])),
        users_without_val=has_slate - len(np.unique(slate_user[split == VAL])),
        longest_log=int(np.diff(numbered.offset).max()),
    )

"""Sessions: the parts of a user's log beyond which histories do not reach."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from gfn4rec.data.interactions import Behaviour, Interactions
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.slates import Ints
from gfn4rec.errors import UserError

_MOST_SECONDS = 10**11  # since 1970; larger times are milliseconds, from 1000 times that on microseconds, and so on


def refuse_unknown_sessions(interactions: Interactions, config: PrepareConfig) -> None:
    """Raise an error if a log has no times for the pauses between sessions, or says itself where they begin."""
    if config.session_gap is None:
        return
    if "session" in interactions.log.columns:
        raise UserError("--session-gap has no meaning for a log with a column of sessions; leave one of them out")
    if not interactions.timed:
        raise UserError("--session-gap needs times, and this log has none; leave it out, or name a --session-column")


def number_sessions(log: pl.DataFrame, gap: float | None) -> pl.DataFrame:
    """Return a sorted log whose column `session`, if it has sessions, numbers them from 0.

    A session begins where the user or the value in that column changes, or after a pause of more than `gap` seconds.
    """
    if gap is not None:
        # The items of a slate were shown at its first time, and the pause before it begins with the last row so far.
        start = pl.col("time").min().over("slate") if "slate" in log.columns else pl.col("time")
        last = pl.col("time").cum_max().shift().over("user")
        is_first = (start - last > gap * _ticks(log["time"])).fill_null(True)
        return log.with_columns(session=is_first.cum_sum() - 1)
    if "session" in log.columns:
        return log.with_columns(session=pl.struct("user", "session").rle_id())
    return log


def offsets(owner: pl.Series) -> Ints:
    """Return the first row of each user or session of a sorted log, and the number of rows."""
    values = owner.to_numpy()
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1, [len(values)]])


def history_counts(log: pl.DataFrame, behaviours: Sequence[Behaviour], config: PrepareConfig) -> dict[str, int]:
    """Return the counts of sessions and of rows with a response, where histories depend on them."""
    counts = {"sessions": log["session"].n_unique()} if "session" in log.columns else {}
    if config.history == "responded":
        is_responded = pl.any_horizontal(behaviour.name for behaviour in behaviours)
        counts["responded_rows"] = int(log.select(is_responded.sum()).item())
    return counts


def _ticks(time: pl.Series) -> int:
    """Return how many units of time a second has, by the size of times since 1970."""
    latest, ticks = abs(float(time.to_numpy().max())), 1
    while latest >= _MOST_SECONDS * ticks and ticks < 10**9:
        ticks *= 1000
    return ticks

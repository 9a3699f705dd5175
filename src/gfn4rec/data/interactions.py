"""`Interactions`: the validated log that every reader returns and everything else takes."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

import polars as pl
from pydantic import JsonValue

from gfn4rec.errors import UserError

FeatureKind = Literal["categorical", "multi", "numeric"]

DEFAULT_RHO = 0.2
NUM_SHOWN_OFFENDERS = 3
_SECONDS = (10**9, 5 * 10**9)  # since 1970: from 2001 to 2128
_OLDEST = 10**8  # 1973
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
REQUIRED_COLUMNS = ("user", "item", "time")
SHOWN_COLUMNS = ("slate", "position", "propensity", "session")  # of logs that say what was shown together, and how
RESERVED_NAMES = (*REQUIRED_COLUMNS, *SHOWN_COLUMNS, "in_slate")  # columns of a prepared log
RESERVED_FEATURES = ("id", "title", "first_row")  # columns of prepared users and items
_NAME = re.compile(r"\w[\w .:+/-]*")


def check_names(names: Sequence[str], reserved: Sequence[str], what: str) -> None:
    """Raise an error if a name is reserved, repeated, or has other characters than letters, digits and a few signs."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise UserError(f"{what} {name!r}: write a name of letters, digits, spaces and . : + / - _")
        if name in reserved or names.count(name) > 1:
            raise UserError(
                f"{what} {name!r}: names must differ from each other and from {', '.join(reserved)}; rename it"
            )


def at_least(column: str, threshold: float) -> pl.Expr:
    """Return the expression of a response: at least this rating. A missing one stays null, for validation to report."""
    return pl.col(column).fill_nan(None) >= threshold


@dataclass(frozen=True)
class Behaviour:
    """A kind of response, such as a click, and its weight in the reward."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Feature:
    """A column of a feature table."""

    name: str
    kind: FeatureKind
    vocabulary: tuple[str, ...] | None = None
    """The order in which values are numbered; by default that of first appearance in the whole table."""


@dataclass(frozen=True)
class FeatureTable:
    """Features of users or items: a column `id`, an optional column `title`, and one column per feature.

    Categorical columns hold strings, multi-valued ones lists of strings, numeric ones floats; null means unknown. The
    frame is lazy, because the file can be far larger than the part of it that is needed after the filter.
    """

    frame: pl.LazyFrame
    features: tuple[Feature, ...]
    source: str = "feature table"


class FrameColumns(TypedDict, total=False):
    """What the columns of a DataFrame hold; see `Interactions.from_frame`."""

    behaviours: Mapping[str, str]
    weights: Mapping[str, float] | None
    user: str
    item: str
    time: str | None
    slate: str | None
    position: str | None
    propensity: str | None
    session: str | None
    merge_events: bool
    users: FeatureTable | None
    items: FeatureTable | None
    rho: float


@dataclass(frozen=True)
class RawFile:
    """A file that was read, and which rows of the log are its rows."""

    name: str
    sha256: Callable[[], str]  # it may still be computing when the rows are there
    num_rows: int = 0  # rows it contributed to the log; 0 for feature files
    first_line: int = 1  # the line of its first row, counted from 1
    row_word: str = "line"  # "row" where there are no lines (Parquet)
    place: str = ""  # its path, for error messages


@dataclass(frozen=True)
class Interactions:
    """A validated columnar log with its feature tables.

    `log` has the columns user, item (integers or strings), time (integer or float) and one 0/1 column per behaviour,
    in file order. If it is known which items were shown together, it also has the column slate, and where they are
    known position (within the slate) and propensity (the probability with which the item was shown). A column session
    says to which session of its user a row belongs. Building one checks all of that, names the first offending rows,
    and keeps responses as booleans.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"uid": [1, 1, 2], "film": ["a", "b", "a"], "ts": [10, 20, 15], "rating": [5, 2, 4]})
    >>> log = Interactions.from_frame(frame, user="uid", item="film", time="ts", behaviours={"like": "rating>=4"})
    >>> log.log.rows()
    [(1, 'a', 10, True), (1, 'b', 20, False), (2, 'a', 15, True)]
    >>> Interactions.from_frame(frame, user="uid", item="flim", behaviours={"like": "rating>=4"})
    Traceback (most recent call last):
    gfn4rec.errors.UserError: frame: no column 'flim'; did you mean 'film'?
    """

    log: pl.DataFrame
    behaviours: tuple[Behaviour, ...]
    users: FeatureTable | None = None
    items: FeatureTable | None = None
    raw_files: tuple[RawFile, ...] = ()
    timed: bool = True
    """False if there are no times and the rows are in order; `time` is then the row number."""
    raw_columns: Mapping[str, str] = field(default_factory=dict)
    """The names of columns in the raw files, where they differ."""
    origin: Mapping[str, JsonValue] = field(default_factory=dict)
    """How the log came from the raw files: thresholds, seeds and the like."""
    rho: float = DEFAULT_RHO
    """Strength of item influence in simulators of these users, unless they are given another."""
    num_merged: int = 0
    """How many rows became part of others, because they were events of the same shown item."""

    def __post_init__(self) -> None:
        names = [behaviour.name for behaviour in self.behaviours]
        if not names:
            raise UserError("no behaviour given: at least one 0/1 response per row is needed")
        check_names(names, RESERVED_NAMES, "behaviour")
        for behaviour in self.behaviours:
            if not math.isfinite(behaviour.weight):
                raise UserError(
                    f"behaviour {behaviour.name!r} has the weight {behaviour.weight}; weights are finite numbers"
                )
        if not (math.isfinite(self.rho) and self.rho >= 0):
            raise UserError(f"rho is {self.rho}; write a finite number of at least 0")
        for table, what in ((self.users, "user feature"), (self.items, "item feature")):
            check_names([feature.name for feature in table.features] if table else [], RESERVED_FEATURES, what)
        missing = [name for name in (*REQUIRED_COLUMNS, *names) if name not in self.log.columns]
        if missing:
            raise UserError(f"the log has no column {missing[0]!r}; it has {', '.join(self.log.columns)}")
        if self.log.is_empty():
            files = ", ".join(file.place or file.name for file in self.raw_files[:1])
            raise UserError(f"{files or 'the log'}: no interactions in it")
        self._check_values(names)
        self._check_shown()
        columns = [_as_id(self.log["user"]), _as_id(self.log["item"]), _as_number(self.log["time"])]
        responses = (self.log[name].cast(pl.Boolean) for name in names)
        object.__setattr__(self, "log", pl.DataFrame([*columns, *responses, *self.shown_columns()]))

    @property
    def has_slates(self) -> bool:
        """Whether it is known which items were shown together."""
        return "slate" in self.log.columns

    def shown_columns(self) -> list[pl.Series]:
        """Return the columns that say how items were shown, as far as there are any."""
        typed = {"position": lambda column: column.cast(pl.Int64), "propensity": _as_number}
        return [typed.get(name, _as_id)(self.log[name]) for name in SHOWN_COLUMNS if name in self.log.columns]

    def merged(self) -> "Interactions":
        """Return the log with one row per user, item, slate and session, as far as it has these.

        The row has the responses of all its events, and everything else of the first one in time.
        """
        first = self.log if not self.timed else self.log.sort("time", maintain_order=True)
        keys = ["user", "item", *(name for name in ("slate", "session") if name in self.log.columns)]
        responses = [behaviour.name for behaviour in self.behaviours]
        others = [name for name in self.log.columns if name not in (*keys, *responses)]
        log = first.group_by(keys, maintain_order=True).agg(pl.col(others).first(), pl.col(responses).any())
        return replace(self, log=log.select(self.log.columns), num_merged=self.log.height - log.height)

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        behaviours: Mapping[str, str],
        weights: Mapping[str, float] | None = None,
        user: str = "user",
        item: str = "item",
        time: str | None = "time",
        slate: str | None = None,
        position: str | None = None,
        propensity: str | None = None,
        session: str | None = None,
        merge_events: bool = False,
        users: "FeatureTable | None" = None,
        items: "FeatureTable | None" = None,
        rho: float = DEFAULT_RHO,
        name: str = "frame",
    ) -> "Interactions":
        """Read a pandas or polars DataFrame with one row per item shown to a user.

        `behaviours` says what counts as a response: a 0/1 column as in `{"click": "is_click"}`, or a comparison as in
        `{"like": "rating>=4"}`. `weights` are their weights in the reward, 1 by default. `user`, `item` and `time` name
        the columns; with `time=None` the rows are in order. `slate` names the column that says which items were shown
        together, `position` that of their positions, `propensity` that of the probabilities with which they were shown,
        `session` that of sessions. With `merge_events`, several rows of a shown item become one. Errors call the frame
        `name`.
        """
        from gfn4rec.data.readers.frame import read_frame  # it builds Interactions
        from gfn4rec.data.readers.own import LogColumns

        names = {"user": user, "item": item, **({"order": "file"} if time is None else {"time": time})}
        shown = {"slate": slate, "position": position, "propensity": propensity, "session": session}
        columns = LogColumns.parse({**names, **shown, "merge_events": merge_events}, name)
        interactions = read_frame(frame, columns, behaviours, weights or {}, name, rho)
        return replace(interactions, users=users, items=items)

    def locate(self, row: int) -> str:
        """Return the place of a log row in the raw files."""
        for file in self.raw_files:
            if row < file.num_rows:
                return f"{file.place or file.name} {file.row_word} {row + file.first_line}"
            row -= file.num_rows
        return f"row {row + 1}"

    def _check_values(self, behaviours: list[str]) -> None:
        for name in ("user", "item"):
            self._refuse(self.log[name].is_null(), name, "has no value", "fill it in or drop the row")
            dtype = self.log.schema[name]
            if not (dtype.is_integer() or dtype in (pl.String, pl.Categorical, pl.Enum)):
                raise UserError(f"column {self._raw(name)!r} holds {dtype}; ids are integers or strings")
        time = self.log["time"]
        no_time = time.is_null() | (~time.is_finite() if time.dtype.is_float() else False)
        self._refuse(
            no_time,
            "time",
            "has no value",
            "fill it in, or pass --order file (in Python: time=None) to keep the order of the rows",
        )
        if not time.dtype.is_numeric():
            raise UserError(f"column {self._raw('time')!r} holds {time.dtype}; times are numbers, or dates and times")
        self._check_units(_as_number(time))
        for name in behaviours:
            values = self.log[name]
            remedy = "fill it in, with 0 for no response, or drop the row"
            self._refuse(values.is_null(), name, "has no value", remedy)
            if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
                raise UserError(f"column {self._raw(name)!r} holds {values.dtype}; responses are 0 or 1")
            if values.dtype != pl.Boolean:
                is_wrong = (values != 0) & (values != 1)
                remedy = f'for ratings give a threshold, as in "{name}={self._raw(name)}>=4"'
                self._refuse(is_wrong, name, "is not 0 or 1", remedy)

    def _check_units(self, time: pl.Series) -> None:
        """Refuse times in two units, and 0 and the like in place of a time that is not known."""
        first, last = _SECONDS
        lowest, highest = time.min(), time.max()
        assert isinstance(lowest, int | float)
        assert isinstance(highest, int | float)
        if any(factor * first <= lowest and highest <= factor * last for factor in _UNITS.values()):
            return  # the common case, found in one pass
        within = {unit: time.is_between(factor * first, factor * last) for unit, factor in _UNITS.items()}
        usual = max(within, key=lambda unit: within[unit].sum())
        if not self.timed or 2 * within[usual].sum() < len(time):
            return
        for unit in within:
            if unit != usual:
                mixed = f"mixes {' and '.join(name for name in _UNITS if name in (usual, unit))}"
                self._refuse(within[unit], "time", mixed, "write all times in one unit")
        is_wrong = ~time.is_between(_UNITS[usual] * _OLDEST, _UNITS[usual] * last)
        if 10 * is_wrong.sum() <= len(time):
            self._refuse(is_wrong, "time", "is far from all others", "write the right time, or drop the row")

    def _check_shown(self) -> None:
        log = self.log
        if "propensity" in log.columns:
            is_wrong = ~log["propensity"].is_between(0, 1, closed="right").fill_null(False)
            self._refuse(is_wrong, "propensity", "is no probability above 0", "write numbers above 0 and up to 1")
        if "session" in log.columns:
            self._refuse(log["session"].is_null(), "session", "has no value", "fill it in or drop the row")
        if not self.has_slates:
            return
        self._refuse(log["slate"].is_null(), "slate", "has no value", "fill it in or drop the row")
        is_shared = log.select(pl.col("user") != pl.col("user").first().over("slate")).to_series()
        remedy = "give the slates of each user their own ids, as in USER-SLATE"
        self._refuse(is_shared, "slate", "has a slate of another user", remedy)
        if "session" in log.columns:
            is_other = log.select(pl.col("session") != pl.col("session").first().over("slate")).to_series()
            self._refuse(is_other, "session", "changes within a slate", "give all items of a slate the same session")
        if "position" in log.columns:
            is_whole = (log["position"] == log["position"].floor()).fill_null(False)
            self._refuse(~is_whole, "position", "is not a whole number", "number the items of a slate, as in 1, 2, 3")
            is_taken = log.select(pl.col("item") != pl.col("item").first().over("slate", "position")).to_series()
            remedy = "give each item of a slate its own, or leave out the column"
            self._refuse(is_taken, "position", "repeats within a slate", remedy)

    def _raw(self, column: str) -> str:
        return self.raw_columns.get(column, column)

    def _refuse(self, offending: pl.Series, column: str, problem: str, remedy: str) -> None:
        if not offending.any():
            return
        rows = offending.arg_true()
        values = {row: self.log[column][row] for row in rows[:NUM_SHOWN_OFFENDERS].to_list()}
        shown = [f"{self.locate(row)}{'' if value is None else f' ({value!r})'}" for row, value in values.items()]
        more = f" and {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
        raise UserError(f"column {self._raw(column)!r} {problem}: {', '.join(shown)}{more}; {remedy}")


def _as_id(column: pl.Series) -> pl.Series:
    if not column.dtype.is_integer():
        return column.cast(pl.String)
    return _as_number(column)


def _as_number(column: pl.Series) -> pl.Series:
    if not column.dtype.is_integer():
        return column.cast(pl.Float64)
    try:
        return column.cast(pl.Int64)
    except pl.exceptions.PolarsError:
        raise UserError(f"column {column.name!r} holds integers beyond 64 bits; write them as text") from None

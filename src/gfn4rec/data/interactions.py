"""`Interactions`: the one validated currency between every reader and everything after it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import polars as pl

from gfn4rec.errors import UserError

FeatureKind = Literal["categorical", "multi", "numeric"]

NUM_SHOWN_OFFENDERS = 3
REQUIRED_COLUMNS = ("user", "item", "time")
RESERVED_NAMES = (*REQUIRED_COLUMNS, "in_slate")  # columns of a prepared log


def at_least(column: str, threshold: float) -> pl.Expr:
    """A rating turned into a response; a missing rating stays null, so that validation names its row."""
    return pl.col(column).fill_nan(None) >= threshold


@dataclass(frozen=True)
class Behaviour:
    """A kind of response, such as a click, and what it is worth."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Feature:
    """A column of a feature table."""

    name: str
    kind: FeatureKind
    vocabulary: tuple[str, ...] | None = None
    """The order in which values are numbered; without it, the order of first appearance in the whole table."""


@dataclass(frozen=True)
class FeatureTable:
    """What is known about users or items: a column `id`, maybe a column `title`, and one column per feature.

    Categorical columns hold strings, multi-valued ones lists of strings, numeric ones floats; null means unknown. The
    frame is lazy because a catalogue file can be far larger than the part of it that survives the filter.
    """

    frame: pl.LazyFrame
    features: tuple[Feature, ...]
    source: str = "feature table"


@dataclass(frozen=True)
class RawFile:
    """A file that was read, and how its rows lie in the log."""

    name: str
    sha256: Callable[[], str]  # the checksum may still be on its way when the rows are there
    num_rows: int = 0  # rows it contributed to the log; 0 for feature files
    first_line: int = 1  # the line of its first row, counted from 1
    row_word: str = "line"  # "row" where lines mean nothing (Parquet)


@dataclass(frozen=True)
class Interactions:
    """A validated columnar log with its feature tables.

    `log` has the columns user, item (integers or strings), time (integer or float) and one 0/1 column per behaviour,
    in file order. Building one checks all of that, names the first offending rows, and keeps responses as booleans.
    """

    log: pl.DataFrame
    behaviours: tuple[Behaviour, ...]
    users: FeatureTable | None = None
    items: FeatureTable | None = None
    raw_files: tuple[RawFile, ...] = ()
    timed: bool = True
    """False where there are no times and rows count in file order: `time` is then the row number."""

    def __post_init__(self) -> None:
        names = [behaviour.name for behaviour in self.behaviours]
        if not names:
            raise UserError("no behaviour given: at least one 0/1 response per row is needed")
        if len(set(names)) < len(names) or set(names) & set(RESERVED_NAMES):
            raise UserError(
                f"behaviour names must differ from each other and from {', '.join(RESERVED_NAMES)}: {', '.join(names)}"
            )
        missing = [name for name in (*REQUIRED_COLUMNS, *names) if name not in self.log.columns]
        if missing:
            raise UserError(f"the log has no column {missing[0]!r}; it has {', '.join(self.log.columns)}")
        if self.log.is_empty():
            raise UserError(f"{self._files()}: no interactions in it")
        self._check_values(names)
        columns = [pl.col(*REQUIRED_COLUMNS), pl.col(*names).cast(pl.Boolean)]
        object.__setattr__(self, "log", self.log.select(columns))

    def locate(self, row: int) -> str:
        """Where a row of the log stands in the raw files."""
        for file in self.raw_files:
            if row < file.num_rows:
                return f"{file.name} {file.row_word} {row + file.first_line}"
            row -= file.num_rows
        return f"row {row + 1}"

    def _check_values(self, behaviours: list[str]) -> None:
        for name in ("user", "item"):
            self._refuse(self.log[name].is_null(), name, "has no value", "fill it in or drop the row")
            dtype = self.log.schema[name]
            if not (dtype.is_integer() or dtype == pl.String):
                raise UserError(f"column {name!r} holds {dtype}; ids are integers or strings")
        time = self.log["time"]
        no_time = time.is_null() | (time.is_nan() if time.dtype.is_float() else False)
        self._refuse(no_time, "time", "has no value", "fill it in, or pass --order file to keep the order of the file")
        if not time.dtype.is_numeric():
            raise UserError(f"column 'time' holds {time.dtype}; times are numbers")
        for name in behaviours:
            values = self.log[name]
            if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
                raise UserError(f"behaviour {name!r} holds {values.dtype}; responses are 0 or 1")
            valid = values.is_not_null() if values.dtype == pl.Boolean else (values == 0) | (values == 1)
            self._refuse(
                ~valid.fill_null(False),
                name,
                "is not 0 or 1",
                "for ratings give a threshold, as in like=rating>=4",
            )

    def _refuse(self, offending: pl.Series, column: str, problem: str, remedy: str) -> None:
        if not offending.any():
            return
        rows = offending.arg_true()
        shown = [f"{self.locate(row)} ({self.log[column][row]!r})" for row in rows[:NUM_SHOWN_OFFENDERS].to_list()]
        more = f" and {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
        raise UserError(f"column {column!r} {problem}: {', '.join(shown)}{more}; {remedy}")

    def _files(self) -> str:
        return ", ".join(file.name for file in self.raw_files if file.first_line) or "the log"

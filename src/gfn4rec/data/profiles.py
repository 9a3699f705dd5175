"""What a column of a sample holds: its type, distinct values, empty values, examples."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import polars as pl

from gfn4rec.data.values import NO_VALUE

ColumnType = Literal["integer", "number", "flag", "date", "ambiguous date", "text", "nested", "empty"]

_NUM_EXAMPLES = 3
_MOST_WORDS = 10
_LONGEST_EXAMPLE = 24
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_FLAG_WORDS = ("0", "1", "0.0", "1.0", "true", "false")
_YES = {"yes", "y", "t", "ja", "wahr", "oui", "si", "sim", "x"}
_NO = {"no", "n", "f", "nein", "falsch", "non", "nao"}
_DATE = r"^\s*\d{4}[-/]\d{1,2}[-/]\d{1,2}"
_AMBIGUOUS_DATE = r"^\s*\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}\b"
# Between 1993 and 2049, in seconds, milliseconds, microseconds or nanoseconds.
_EPOCHS = [(0.75e9 * unit, 2.5e9 * unit) for unit in (1, 1e3, 1e6, 1e9)]


@dataclass(frozen=True)
class Column:
    """A column of a sample, and what its values are."""

    values: pl.Series  # without missing ones
    num_rows: int
    type: ColumnType
    numbers: pl.Series | None = None  # the values as numbers, if they are that

    @classmethod
    def of(cls, series: pl.Series) -> "Column":
        """Return the column of a series as it was read."""
        if series.dtype.is_float():
            series = series.fill_nan(None)
        if series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        if series.dtype == pl.String:
            series = series.set(series.str.strip_chars().is_in(NO_VALUE), None)
        values = series.drop_nulls()
        return cls(values, len(series), *_typed(values))

    @property
    def name(self) -> str:
        """The column's name in the file."""
        return self.values.name

    @cached_property
    def words(self) -> list[str]:
        """The words of the name, in lower case: `userId` and `user_id` are `user`, `id`."""
        return [word.lower() for word in _WORD.findall(self.name)]

    @cached_property
    def distinct(self) -> pl.Series:
        """The distinct values in the order of their first appearance."""
        if self.type == "nested":
            return pl.Series(self.name, list(dict.fromkeys(str(value) for value in self.values)), dtype=pl.String)
        return self.values.unique(maintain_order=True)

    @property
    def share_empty(self) -> float:
        """The share of rows without a value."""
        return 1 - len(self.values) / self.num_rows if self.num_rows else 0.0

    @property
    def examples(self) -> tuple[str, ...]:
        """The first distinct values, in short."""
        texts = [str(value) for value in self.distinct.head(_NUM_EXAMPLES)]
        return tuple(text if len(text) <= _LONGEST_EXAMPLE else f"{text[:_LONGEST_EXAMPLE]}..." for text in texts)

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return self.numbers is not None

    @property
    def has_times(self) -> bool:
        """Whether the values are dates, or seconds (or smaller units) since 1970 of the last decades."""
        if self.type == "date":
            return True
        if self.numbers is None or self.type == "flag":
            return False
        middle = float(self.numbers.median())  # type: ignore[arg-type]
        spans = any(low <= middle <= high for low, high in _EPOCHS)
        return spans and float(self.numbers.min()) >= _EPOCHS[0][0]  # type: ignore[arg-type]

    @property
    def is_id(self) -> bool:
        """Whether the values may be ids: text, or whole numbers, which may be written as 12.0."""
        if self.type == "number" and self.numbers is not None:
            return bool((self.numbers == self.numbers.floor()).all())
        return self.type in ("integer", "flag", "text") and self.values.dtype != pl.Boolean

    @cached_property
    def spellings(self) -> dict[str, list[str]]:
        """The distinct values as text, by what they are in lower case."""
        found: dict[str, list[str]] = {}
        for value in map(str, self.distinct):
            found.setdefault(value.strip().lower(), []).append(value)
        return found

    @property
    def yes(self) -> list[str]:
        """How the column writes yes, if its values are yes and no."""
        if self.type != "text" or len(self.distinct) > _MOST_WORDS or len(self.spellings) != 2:
            return []
        yes = next((word for word in self.spellings if word in _YES), "")
        return self.spellings[yes] if yes and {*self.spellings} - {yes} <= _NO else []


def _typed(values: pl.Series) -> tuple[ColumnType, pl.Series | None]:
    """Return what all values are, and the numbers if they are that."""
    dtype = values.dtype
    if not len(values):
        return "empty", None
    if dtype == pl.String:
        return _text_type(values)
    if dtype in (pl.Date, pl.Datetime):
        return "date", None
    if dtype == pl.Boolean or dtype.is_numeric():
        numbers = values.cast(pl.Float64)
        if numbers.is_in([0.0, 1.0]).all():
            return "flag", numbers
        return ("integer" if dtype.is_integer() else "number"), numbers
    return "nested", None


def _text_type(values: pl.Series) -> tuple[ColumnType, pl.Series | None]:
    plain = values.str.strip_chars()
    words = plain.str.to_lowercase()
    if words.is_in(_FLAG_WORDS).all():
        return "flag", words.is_in(["1", "1.0", "true"]).cast(pl.Float64)
    numbers = plain.cast(pl.Float64, strict=False)
    if not numbers.has_nulls() and numbers.is_finite().all():
        is_whole = not plain.cast(pl.Int64, strict=False).has_nulls()
        return ("integer" if is_whole else "number"), numbers
    if values.head(1).str.contains(_DATE).all():
        return "date", None
    return ("ambiguous date" if values.head(1).str.contains(_AMBIGUOUS_DATE).all() else "text"), None

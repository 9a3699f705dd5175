"""Columns of text -> ids, times, flags and numbers."""

from typing import Protocol

import polars as pl

from gfn4rec.errors import UserError

_FLAGS = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0, "true": 1.0, "false": 0.0}
NO_VALUE = ("", "NULL", "null", "NaN", "nan", "None", "<NA>", "\\N")  # what exports write where nothing is known
_MOST_EXACT = 2**53  # larger floats have lost digits
_DECIMAL_COMMA = r"^-?\d+,\d+$"
_ISO_DATE = r"^\s*\d{4}[-/]\d{1,2}[-/]\d{1,2}"


class Place(Protocol):
    """Where a column comes from, as error messages name it."""

    @property
    def label(self) -> str:
        """Return the name of the file or frame."""
        ...

    def locate(self, row: int) -> str:
        """Return the name of a row, counted from 0."""
        ...


def parse_ids(column: pl.Series) -> pl.Series:
    """Convert ids to integers if all of them are whole numbers; text for a missing value becomes null.

    An integer column with gaps is often exported as 12.0; that is the same id as 12 in another file.
    """
    if column.dtype.is_float():
        column = column.fill_nan(None)
        is_whole = (column == column.floor()).all() and (column.abs() <= _MOST_EXACT).all()
        return column.cast(pl.Int64) if is_whole else column
    if column.dtype != pl.String:
        return column
    column = column.str.strip_chars()
    column = column.set(column.is_in(NO_VALUE), None)
    digits = column.str.strip_suffix(".0")
    numbers = digits.cast(pl.Int64, strict=False)
    is_plain = (numbers.cast(pl.String) == digits).all() and numbers.null_count() == column.null_count()
    return numbers if is_plain else column


def parse_flags(place: Place, column: pl.Series) -> pl.Series:
    """Parse 0 and 1, or true and false."""
    flags = column.str.strip_chars().str.to_lowercase().replace_strict(_FLAGS, default=None, return_dtype=pl.Float64)
    numbers = column.cast(pl.Float64, strict=False)
    parsed = pl.select(pl.coalesce(flags, numbers)).to_series().alias(column.name)
    remedy = f'; say which value counts, as in "NAME={column.name}==VALUE"'
    refuse_unparsed(place, column, parsed, "is neither 0 nor 1", remedy)
    return parsed


def parse_numbers(place: Place, column: pl.Series) -> pl.Series:
    """Parse numbers; empty text becomes null."""
    column = column.str.strip_chars().replace("", None)
    parsed = column.cast(pl.Float64, strict=False)
    remedy = "; write a point for the decimal comma" if column.str.contains(_DECIMAL_COMMA).any() else ""
    refuse_unparsed(place, column, parsed, "is not a number", remedy)
    return parsed


def parse_times(place: Place, column: pl.Series) -> pl.Series:
    """Parse numbers, or dates and times; the first value decides which of them."""
    if column.dtype.is_temporal() and column.dtype not in (pl.Time, pl.Duration):
        return _in_microseconds(column.cast(pl.Datetime("us")) if column.dtype == pl.Date else column)
    if column.dtype.is_decimal():  # as databases store seconds with fractions
        return column.cast(pl.Float64)
    if column.dtype != pl.String:
        return column
    column = column.str.strip_chars().replace("", None)
    known = column.drop_nulls()
    if len(known) and known.head(1).str.contains(_ISO_DATE).all():
        try:
            times = column.str.to_datetime(time_unit="us", strict=False)
        except pl.exceptions.PolarsError:
            times = column.clear(len(column)).cast(pl.Datetime("us"))
        refuse_unparsed(place, column, times, "is not a date and time like the others; write 2024-01-31 10:00:00")
        return times.dt.replace_time_zone(None)
    numbers = column.cast(pl.Int64, strict=False)
    if numbers.null_count() > column.null_count():
        numbers = column.cast(pl.Float64, strict=False)
    refuse_unparsed(place, column, numbers, "is not a time; write a number, or 2024-01-31 10:00:00")
    return numbers


def _in_microseconds(time: pl.Series) -> pl.Series:
    """Convert dates and times to the unit of those in text files, unless digits would be lost."""
    if not isinstance(time.dtype, pl.Datetime) or time.dtype.time_unit == "us":
        return time
    if time.dtype.time_unit == "ns" and (time.to_physical() % 1000 != 0).any():
        return time
    return time.dt.cast_time_unit("us")


def refuse_missing(place: Place, table: pl.DataFrame) -> None:
    """Raise an error at the first row without a value in some column."""
    for column in table:
        if column.has_nulls():
            row = int(column.is_null().arg_true()[0])
            raise UserError(
                f"{place.locate(row)}: column {column.name!r} has no value; the line is broken, download the file again"
            )


def refuse_unparsed(place: Place, text: pl.Series, parsed: pl.Series, problem: str, remedy: str = "") -> None:
    """Raise an error at the first value that parsing lost."""
    lost = (parsed.is_null() & text.is_not_null()).arg_true()
    if len(lost):
        row = int(lost[0])
        where = f"{place.locate(row)}: column {text.name!r}"
        if text[row] == text.name:
            raise UserError(f"{where} holds its own name; delete this line, which repeats the header")
        raise UserError(f"{where} {problem}: {text[row]!r}{remedy}")

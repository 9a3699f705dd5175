"""Text values of a column -> ids, times and flags."""

import polars as pl

from gfn4rec.data.table_file import TableFile
from gfn4rec.errors import UserError

_FLAGS = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0, "true": 1.0, "false": 0.0}
_ISO_DATE = r"^\s*\d{4}[-/]\d{1,2}[-/]\d{1,2}"


def parse_ids(column: pl.Series) -> pl.Series:
    """Integers if all of them are, written plainly; empty text is no id."""
    if column.dtype != pl.String:
        return column
    column = column.replace("", None)
    numbers = column.cast(pl.Int64, strict=False)
    is_plain = (numbers.cast(pl.String) == column).all() and numbers.null_count() == column.null_count()
    return numbers if is_plain else column


def parse_flags(file: TableFile, column: pl.Series) -> pl.Series:
    """0 and 1, or true and false."""
    flags = column.str.strip_chars().str.to_lowercase().replace_strict(_FLAGS, default=None, return_dtype=pl.Float64)
    numbers = column.cast(pl.Float64, strict=False)
    parsed = pl.select(pl.coalesce(flags, numbers)).to_series().alias(column.name)
    refuse_unparsed(file, column, parsed, "is neither 0 nor 1")
    return parsed


def parse_numbers(file: TableFile, column: pl.Series) -> pl.Series:
    """Numbers; an empty value is null."""
    parsed = column.replace("", None).cast(pl.Float64, strict=False)
    refuse_unparsed(file, column.replace("", None), parsed, "is not a number")
    return parsed


def parse_times(file: TableFile, column: pl.Series) -> pl.Series:
    """Numbers, or dates and times; which of the two is decided by the first value."""
    if column.dtype.is_temporal() and column.dtype not in (pl.Time, pl.Duration):
        return column.cast(pl.Datetime("us")) if column.dtype == pl.Date else column
    if column.dtype != pl.String:
        return column
    column = column.replace("", None)
    known = column.drop_nulls()
    if len(known) and known.head(1).str.contains(_ISO_DATE).all():
        try:
            times = column.str.to_datetime(time_unit="us", strict=False)
        except pl.exceptions.PolarsError:
            times = column.clear(len(column)).cast(pl.Datetime("us"))
        refuse_unparsed(file, column, times, "is not a date and time like the others; write 2024-01-31 10:00:00")
        return times.dt.replace_time_zone(None)
    numbers = column.cast(pl.Int64, strict=False)
    if numbers.null_count() > column.null_count():
        numbers = column.cast(pl.Float64, strict=False)
    refuse_unparsed(file, column, numbers, "is not a time; write a number, or 2024-01-31 10:00:00")
    return numbers


def refuse_unparsed(file: TableFile, text: pl.Series, parsed: pl.Series, problem: str) -> None:
    """An error at the first value that was lost in parsing."""
    lost = (parsed.is_null() & text.is_not_null()).arg_true()
    if len(lost):
        row = int(lost[0])
        word = "row" if file.format == "parquet" else "line"
        place = f"{file.path} {word} {row + file.first_line}"
        raise UserError(f"{place}: column {text.name!r} {problem}: {text[row]!r}")

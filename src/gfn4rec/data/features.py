"""Feature tables -> index columns with vocabularies, in the order of the users and items of the prepared log."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from gfn4rec.data.interactions import Feature, FeatureTable
from gfn4rec.data.manifest import FeatureEntry
from gfn4rec.errors import UserError

UNKNOWN = 1  # 0 is padding, known values follow
FIRST_VALUE = 2
_FARTHEST = 1e6  # deviations from the mean, of a number that is encoded later; squares of larger ones lose precision
_LARGEST = 1e100  # absolute value of a numeric feature; squares of larger ones overflow


def encode_features(table: FeatureTable | None, ids: pl.Series) -> tuple[pl.DataFrame, tuple[FeatureEntry, ...]]:
    """Return one row per id: `id`, `title` if there is one, and features as indices, lists of indices, or numbers."""
    if table is None:
        return pl.DataFrame({"id": ids}), ()
    rows = _rows_of(table, ids)
    columns, entries = [rows[name] for name in ("id", "title") if name in rows.columns], []
    for feature in table.features:
        column, entry = _ENCODERS[feature.kind](table, feature, rows)
        columns.append(column.alias(feature.name))
        entries.append(entry)
    return pl.DataFrame(columns), tuple(entries)


def count_unmatched(side: str, table: FeatureTable | None, ids: pl.Series, raw_ids: pl.Series) -> dict[str, int]:
    """Count the `ids` without a row in the table, and the ids of the table that are not among the raw log's."""
    if table is None:
        return {}
    frame, wanted = _aligned(table, ids)
    known = _collect(table, frame.select("id"))["id"].drop_nulls()
    num_unknown = int((~wanted["id"].is_in(known.implode())).sum())
    # Only these few may be the same id twice; to compare all ids of a big table would take longer than all else here.
    unlogged = known.filter(~known.is_in(raw_ids.cast(known.dtype).implode()))
    return {f"{side}_not_in_table": num_unknown, f"{side}_not_in_log": unlogged.n_unique()}


def decode_features(frame: pl.DataFrame, entries: tuple[FeatureEntry, ...]) -> FeatureTable:
    """Invert `encode_features`: return a feature table with the raw values, and vocabularies in the same order."""
    columns = [pl.col("id")] + ([pl.col("title")] if "title" in frame.columns else [])
    features = []
    for entry in entries:
        column = pl.col(entry.name)
        if entry.kind != "numeric":
            vocabulary = {FIRST_VALUE + number: value for number, value in enumerate(entry.vocabulary)}
            column = _each_value(entry, column, vocabulary)
        columns.append(column)
        features.append(Feature(entry.name, entry.kind, entry.vocabulary if entry.kind != "numeric" else None))
    return FeatureTable(frame.lazy().select(columns), tuple(features))


def _each_value(entry: FeatureEntry, column: pl.Expr, vocabulary: Mapping[int, str]) -> pl.Expr:
    def decode(values: pl.Expr) -> pl.Expr:
        return values.replace_strict(vocabulary, default=None, return_dtype=pl.String)

    return column.list.eval(decode(pl.element())).list.drop_nulls() if entry.kind == "multi" else decode(column)


def _rows_of(table: FeatureTable, ids: pl.Series) -> pl.DataFrame:
    """Return the table's rows for `ids`, in their order; ids without a row get nulls."""
    frame, wanted = _aligned(table, ids)
    rows = _collect(table, frame.join(wanted.lazy(), on="id", how="semi"))
    repeated = rows["id"].is_duplicated()
    if repeated.any():
        raise UserError(f"{table.source}: id {rows['id'].filter(repeated)[0]} has several rows; keep one of them")
    if not rows.height:
        raise UserError(f"{table.source}: none of its ids occurs in the log; write them as in the log")
    return wanted.join(rows, on="id", how="left", maintain_order="left").with_columns(ids.alias("id"))


def _aligned(table: FeatureTable, ids: pl.Series) -> tuple[pl.LazyFrame, pl.DataFrame]:
    """Return the table's rows and the `ids`, with ids of one type."""
    wanted = pl.DataFrame({"id": ids})
    frame = table.frame
    id_type = frame.collect_schema()["id"]
    if id_type.is_float():  # integers with missing values, as some tools write them
        frame = frame.with_columns(pl.col("id").cast(pl.Int64))
    elif not (id_type.is_integer() or id_type == pl.String):
        raise UserError(f"{table.source}: its ids hold {id_type}; ids are integers or strings")
    if (id_type == pl.String) != (ids.dtype == pl.String):
        frame = frame.with_columns(pl.col("id").cast(pl.String))
        wanted = wanted.with_columns(pl.col("id").cast(pl.String))
    return frame.with_columns(pl.col("id").cast(wanted.schema["id"])), wanted


def _collect(table: FeatureTable, frame: pl.LazyFrame) -> pl.DataFrame:
    try:
        return frame.collect()
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{table.source}: cannot be read ({str(error).splitlines()[0]})") from error


def _vocabulary(table: FeatureTable, feature: Feature, values: pl.Series) -> tuple[str, ...]:
    """Return the distinct values among `values`, in the given order or in that of the whole raw table."""
    present = values.drop_nulls().unique()
    if feature.vocabulary is not None:
        kept = set(present.to_list())
        return tuple(value for value in feature.vocabulary if value in kept)
    column = table.frame.select(pl.col(feature.name))
    if feature.kind == "multi":
        column = column.explode(feature.name)
    is_present = pl.col(feature.name).is_in(present.implode())
    in_order = _collect(table, column.filter(is_present).unique(maintain_order=True))
    return tuple(in_order[feature.name].to_list())


def _index(values: pl.Series, vocabulary: tuple[str, ...]) -> pl.Series:
    numbers = pl.Series(range(FIRST_VALUE, FIRST_VALUE + len(vocabulary)), dtype=pl.UInt32)
    known = pl.Series(vocabulary, dtype=pl.String)
    return values.replace_strict(known, numbers, default=UNKNOWN, return_dtype=pl.UInt32)


def _encode_categorical(table: FeatureTable, feature: Feature, rows: pl.DataFrame) -> tuple[pl.Series, FeatureEntry]:
    values = rows[feature.name].replace("", None)
    vocabulary = _vocabulary(table, feature, values)
    entry = FeatureEntry(name=feature.name, kind=feature.kind, vocabulary=vocabulary, num_unknown=values.null_count())
    return _index(values, vocabulary), entry


def _encode_multi(table: FeatureTable, feature: Feature, rows: pl.DataFrame) -> tuple[pl.Series, FeatureEntry]:
    """Encode lists of values: repeated ones count once, and an empty list becomes the single value `unknown`."""
    exploded = (
        rows.lazy()
        .select(row=pl.int_range(pl.len()), value=pl.col(feature.name))
        .explode("value")
        .filter(pl.col("value").is_not_null() & (pl.col("value") != ""))
        .unique(maintain_order=True)
        .collect()
    )
    vocabulary = _vocabulary(table, feature, exploded["value"])
    lists = exploded.select("row", _index(exploded["value"], vocabulary)).group_by("row", maintain_order=True).all()
    every_row = pl.DataFrame({"row": range(rows.height)}, schema={"row": exploded.schema["row"]})
    column = every_row.join(lists, on="row", how="left", maintain_order="left")["value"]
    num_unknown = column.null_count()
    column = column.fill_null(pl.Series([[UNKNOWN]], dtype=pl.List(pl.UInt32))) if num_unknown else column
    entry = FeatureEntry(name=feature.name, kind=feature.kind, vocabulary=vocabulary, num_unknown=num_unknown)
    return column, entry


def _encode_numeric(table: FeatureTable, feature: Feature, rows: pl.DataFrame) -> tuple[pl.Series, FeatureEntry]:
    """Keep numbers as they are; their mean and deviation go into the manifest, for standardising on loading."""
    values = rows[feature.name].cast(pl.Float64).fill_nan(None)
    infinite = values.is_infinite().fill_null(False)
    if infinite.any():
        raise UserError(f"{table.source}: column {feature.name!r} of id {rows['id'].filter(infinite)[0]} is infinite")
    known = values.drop_nulls().to_numpy()
    if len(known) and np.abs(known).max() > _LARGEST:
        raise UserError(
            f"{table.source}: column {feature.name!r} holds {np.abs(known).max():g}, too large to standardise"
        )
    is_constant = not len(known) or known.min() == known.max()
    entry = FeatureEntry(
        name=feature.name,
        kind=feature.kind,
        num_unknown=values.null_count(),
        mean=float(known.mean()) if len(known) else 0.0,
        deviation=1.0 if is_constant else float(known.std()),
    )
    return values, entry


_ENCODERS = {"categorical": _encode_categorical, "multi": _encode_multi, "numeric": _encode_numeric}


class ValueEncoder:
    """Encodes single raw values as `encode_features` does, with the vocabulary and the moments of the data set."""

    def __init__(self, entry: FeatureEntry) -> None:
        self._entry = entry
        self._index = {value: FIRST_VALUE + number for number, value in enumerate(entry.vocabulary)}
        self.unknown: Sequence[float] = [0.0] if entry.kind == "numeric" else [UNKNOWN]
        """The code of an unknown value."""

    def encode(self, value: object) -> Sequence[float]:
        """Return the index of a value, the indices of a list of values, or the standardised number."""
        if self._entry.kind == "numeric":
            return self._standardise(value)
        return [self._index[text] for text in self._texts(value) if text in self._index] or self.unknown

    def not_known(self, value: object) -> list[str]:
        """Return those of the values that the data set does not know; raise a `UserError` if it is not of this kind."""
        if self._entry.kind == "numeric":
            self._standardise(value)
            return []
        return [text for text in self._texts(value) if text not in self._index]

    def _texts(self, value: object) -> list[str]:
        """Return the different values that are given, as the texts of a vocabulary."""
        if isinstance(value, list | tuple) and self._entry.kind == "categorical":
            raise UserError(f"feature {self._entry.name}: takes one value, not a list")
        values = value if isinstance(value, list | tuple) else [value]
        return [text for text in dict.fromkeys(map(_text, values)) if text]

    def _standardise(self, value: object) -> Sequence[float]:
        if value is None or value == "":
            return self.unknown
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise UserError(f"feature {self._entry.name}: takes a number, not {value!r}")
        standardised = (number - self._entry.mean) / self._entry.deviation
        return [min(max(standardised, -_FARTHEST), _FARTHEST)]


def _text(value: object) -> str:
    """Return a value as a table of text has it; nothing for an unknown one."""
    if value is None:
        return ""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()

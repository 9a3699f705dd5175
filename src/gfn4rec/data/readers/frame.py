"""A log in memory: a pandas or polars DataFrame, or a table with Arrow's stream interface.

pandas is not imported: its frames are known by their methods. Only the columns that are needed are converted, and
without pyarrow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from pydantic import JsonValue

from gfn4rec.data.interactions import Interactions
from gfn4rec.data.readers.own import LogColumns, build_interactions, log_kinds
from gfn4rec.data.readers.responses import BehaviourConfig, parse_response
from gfn4rec.data.tables import Kinds, check_columns, typed_table
from gfn4rec.errors import UserError


@dataclass(frozen=True)
class _Frame:
    """The name of a frame and of its rows in error messages."""

    label: str

    def locate(self, row: int) -> str:
        return f"{self.label} row {row + 1}"


def read_frame(
    frame: object,
    columns: LogColumns,
    responses: Mapping[str, str],
    weights: Mapping[str, float],
    name: str,
    rho: float,
) -> Interactions:
    """Read a log from a frame, with the same rules as from a file; see `Interactions.from_frame`."""
    behaviours = {
        behaviour: parse_response(text, f"behaviours[{behaviour!r}] = {text!r}")
        for behaviour, text in responses.items()
    }
    for behaviour, weight in weights.items():
        if behaviour not in behaviours:
            raise UserError(f"weights[{behaviour!r}]: there is no behaviour of this name; name it in behaviours, too")
        behaviours[behaviour] = behaviours[behaviour].model_copy(update={"weight": float(weight)})
    kinds = log_kinds(columns, behaviours)
    table = typed_table(_Frame(name), _selected(frame, columns, kinds, name), kinds)
    return build_interactions(table, columns, behaviours, origin=_origin(columns, behaviours), rho=rho)


def _selected(frame: object, columns: LogColumns, kinds: Kinds, name: str) -> pl.DataFrame:
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    is_pandas = hasattr(frame, "columns") and hasattr(frame, "iloc")
    if not (isinstance(frame, pl.DataFrame) or is_pandas):
        if not hasattr(frame, "__arrow_c_stream__"):
            raise UserError(f"{name}: pass a pandas or polars DataFrame, not {type(frame).__name__}")
        frame = pl.DataFrame(frame)
    table: Any = frame
    try:
        check_columns(name, [str(column) for column in table.columns], kinds)
    except UserError as error:
        if f"no column {columns.time!r}" in str(error):
            raise UserError(f"{error}; or, if the rows are in order, pass time=None") from None
        raise
    return pl.DataFrame([_from_pandas(table[column], name) if is_pandas else table[column] for column in kinds])


def _from_pandas(column: Any, name: str) -> pl.Series:
    """Convert a pandas column; missing values become null."""
    if isinstance(column.dtype, np.dtype) and column.dtype != object:
        numbers = column.to_numpy()
        if numbers.dtype == "datetime64[s]":  # polars has no such unit
            numbers = numbers.astype("datetime64[ms]")
        return pl.Series(column.name, numbers, nan_to_null=True)
    values = column.astype(object).where(column.notna(), None).to_list()
    try:
        return pl.Series(column.name, values)
    except (TypeError, pl.exceptions.PolarsError):
        raise UserError(f"{name}: column {column.name!r} mixes values of several types; convert it to one") from None


def _origin(columns: LogColumns, behaviours: Mapping[str, BehaviourConfig]) -> dict[str, JsonValue]:
    return {
        "log": columns.model_dump(mode="json", exclude_defaults=True),
        "behaviours": {
            name: config.model_dump(mode="json", exclude_defaults=True) for name, config in behaviours.items()
        },
    }

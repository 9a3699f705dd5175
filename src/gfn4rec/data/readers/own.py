"""A user's own log: a text, Excel or Parquet file or JSON lines, described by a TOML file or by flags.

```toml
[log]
files = ["log.csv"]
user = "uid"
item = "video"
time = "ts"

[behaviours]
click = "is_click"
like = "rating>=4"
hate = { column = "is_hate", weight = -1 }

[items]
file = "videos.parquet"
id = "video"
title = "name"

[items.features]
category = { kind = "categorical" }
tags = { kind = "multi", separator = "|" }
price = { kind = "numeric" }
```
"""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Literal, Self, TypeAlias

import polars as pl
from pydantic import Field, FiniteFloat, JsonValue, model_validator

from gfn4rec.config import StrictConfig
from gfn4rec.data.interactions import (
    DEFAULT_RHO,
    RESERVED_FEATURES,
    RESERVED_NAMES,
    SHOWN_COLUMNS,
    Behaviour,
    Feature,
    FeatureKind,
    FeatureTable,
    Interactions,
    RawFile,
    check_names,
)
from gfn4rec.data.readers.layout import FileLayout
from gfn4rec.data.readers.responses import BehaviourConfig
from gfn4rec.data.table_file import TableFile
from gfn4rec.data.tables import ColumnKind, read_table
from gfn4rec.errors import UserError


class LogColumns(StrictConfig):
    """The names of a log's columns."""

    user: str = "user"
    item: str = "item"
    time: str = "time"
    order: Literal["time", "file"] = "time"  # "file": there are no times, the rows are in order
    slate: str | None = None  # which items were shown together
    position: str | None = None  # of an item in its slate
    propensity: str | None = None  # the probability with which an item was shown
    session: str | None = None  # of its user, to which a row belongs
    merge_events: bool = False  # the rows of a shown item become one, with all their responses

    @property
    def is_timed(self) -> bool:
        """Whether the log has times."""
        return self.order == "time"

    @property
    def named(self) -> dict[str, str]:
        """The columns of the log that have a meaning of their own, by what they hold."""
        names = ("user", "item", *(("time",) if self.is_timed else ()), *SHOWN_COLUMNS)
        return {name: column for name in names if (column := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        for (one, column), (other, same) in combinations(self.named.items(), 2):
            if column == same:
                raise ValueError(f"the columns of {one} and {other} are the same, {column!r}")
        if self.position is not None and self.slate is None:
            raise ValueError("positions belong to slates; name the column of these, too (--slate-column)")
        return self


class LogConfig(LogColumns, FileLayout):
    """The files of a log, their layout and their columns."""

    files: tuple[str, ...] = Field(min_length=1)  # read in this order


class FeatureConfig(StrictConfig):
    """A feature: a column and its kind."""

    kind: FeatureKind
    column: str | None = None  # the feature's name if absent
    separator: str = "|"  # between the values of a multi-valued feature in a text file


class TableConfig(FileLayout):
    """A file with features of users or items."""

    file: str
    id: str
    title: str | None = None
    features: dict[str, FeatureConfig] = Field(default_factory=dict)


class OwnData(StrictConfig):
    """A description of own data, as a TOML file gives it."""

    rho: FiniteFloat = Field(default=DEFAULT_RHO, ge=0)  # strength of item influence in simulators of these users
    log: LogConfig
    behaviours: dict[str, BehaviourConfig] = Field(min_length=1)
    users: TableConfig | None = None
    items: TableConfig | None = None


Behaviours: TypeAlias = Mapping[str, BehaviourConfig]

_KINDS: Mapping[str, ColumnKind] = {
    "user": "id",
    "item": "id",
    "time": "time",
    "slate": "id",
    "position": "number",
    "propensity": "number",
    "session": "id",
}


def read_own(config: OwnData, folder: Path) -> Interactions:
    """Read the files that the description names, relative to `folder`."""
    layout = config.log
    files = [layout.open(folder / name) for name in layout.files]
    parts = _read_parts(files, layout, log_kinds(layout, config.behaviours))
    users, user_files = _read_features(config.users, folder)
    items, item_files = _read_features(config.items, folder)
    return build_interactions(
        _joined(parts, layout),
        layout,
        config.behaviours,
        users=users,
        items=items,
        raw_files=(
            *(file.record(part.height) for file, part in zip(files, parts, strict=True)),
            *user_files,
            *item_files,
        ),
        origin=config.model_dump(mode="json", exclude_defaults=True),
        rho=config.rho,
    )


def log_kinds(columns: LogColumns, behaviours: Behaviours) -> dict[str, ColumnKind]:
    """Return the columns that are read from a log, and what each holds."""
    check_names(list(behaviours), RESERVED_NAMES, "behaviour")
    kinds = {column: _KINDS[name] for name, column in columns.named.items()}
    taken = {column: name for name, column in columns.named.items()}
    columns_of = {name: behaviour.column for name, behaviour in behaviours.items()}
    for name, column in columns_of.items():
        if column in taken:
            raise UserError(f"behaviour {name!r}: column {column!r} holds the {taken[column]} already")
    return kinds | {column: _response_kind(column, behaviours) for column in columns_of.values()}


def _response_kind(column: str, behaviours: Behaviours) -> ColumnKind:
    """Return what a column of responses holds: text only if every behaviour of this column compares it so."""
    users = {name: config for name, config in behaviours.items() if config.column == column}
    if all(config.comparison is None for config in users.values()):
        return "flag"
    if not any(config.is_ordered or config.comparison is None for config in users.values()):
        return "text"
    for name, config in users.items():
        if any(isinstance(value, str) for value in config.values):
            raise UserError(
                f"behaviour {name!r}: column {column!r} holds numbers for another behaviour; compare it with "
                "numbers here, too"
            )
    return "number"


def build_interactions(
    table: pl.DataFrame,
    columns: LogColumns,
    behaviours: Behaviours,
    *,
    users: FeatureTable | None = None,
    items: FeatureTable | None = None,
    raw_files: tuple[RawFile, ...] = (),
    origin: Mapping[str, JsonValue],
    rho: float,
) -> Interactions:
    """Rename the columns of a typed table, compute the responses, and validate the result."""
    time = pl.col(columns.time).to_physical() if columns.is_timed else pl.int_range(pl.len(), dtype=pl.Int64)
    responses = [config.responses(table[config.column]).alias(name) for name, config in behaviours.items()]
    shown = {name: column for name, column in columns.named.items() if name in SHOWN_COLUMNS}
    log = table.select(user=columns.user, item=columns.item, time=time, **shown)
    interactions = Interactions(
        log=log.hstack(responses),
        behaviours=tuple(Behaviour(name, config.weight) for name, config in behaviours.items()),
        users=users,
        items=items,
        raw_files=raw_files,
        timed=columns.is_timed,
        raw_columns=columns.named | {name: config.column for name, config in behaviours.items()},
        origin=origin,
        rho=rho,
    )
    return interactions.merged() if columns.merge_events else interactions


def _read_parts(files: list[TableFile], columns: LogColumns, kinds: Mapping[str, ColumnKind]) -> list[pl.DataFrame]:
    try:
        return [read_table(file, kinds) for file in files]
    except UserError as error:
        if f"no column {columns.time!r}" in str(error):
            raise UserError(f"{error}; or, if the rows are in order, pass --order file") from None
        raise


def _joined(parts: list[pl.DataFrame], columns: LogColumns) -> pl.DataFrame:
    """Join the files to one table; times are numbers in all of them, or dates in all."""
    name = columns.time
    if columns.is_timed and len({part.schema[name].is_temporal() for part in parts}) > 1:
        raise UserError(f"column {name!r} holds numbers in one log file and dates in another; write one or the other")
    return pl.concat(parts, how="vertical_relaxed")


def _read_features(config: TableConfig | None, folder: Path) -> tuple[FeatureTable | None, tuple[RawFile, ...]]:
    if config is None:
        return None, ()
    file = config.open(folder / config.file)
    kinds: dict[str, ColumnKind] = {config.id: "id"}
    columns = [pl.col(config.id).alias("id")]
    if config.title is not None:
        _use(kinds, config.title, "text", "title")
        columns.append(pl.col(config.title).alias("title"))
    check_names(list(config.features), RESERVED_FEATURES, f"{config.file}: feature")
    for name, feature in config.features.items():
        source = feature.column or name
        _use(kinds, source, "number" if feature.kind == "numeric" else "text", name)
        columns.append(pl.col(source).alias(name))
    table = read_table(file, kinds).select(columns)
    for name, feature in config.features.items():
        is_list = isinstance(table.schema[name], pl.List)
        if is_list and feature.kind != "multi":
            raise UserError(f"{file.path}: column {feature.column or name!r} holds lists; its kind is multi")
        if feature.kind == "multi" and not is_list:
            table = table.with_columns(pl.col(name).str.split(feature.separator))
    features = tuple(Feature(name, feature.kind) for name, feature in config.features.items())
    return FeatureTable(table.lazy(), features, str(file.path)), (file.record(),)


def _use(kinds: dict[str, ColumnKind], column: str, kind: ColumnKind, name: str) -> None:
    """Add a column to those that are read; one of two different kinds is an error."""
    if kinds.setdefault(column, kind) != kind:
        raise UserError(f"{name!r}: column {column!r} is already used as another kind; give it a column of its own")

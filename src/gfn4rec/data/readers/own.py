"""Anybody's own log: CSV, Parquet or JSON lines, described by a TOML file or by flags.

```toml
[log]
files = ["log.csv"]
user = "uid"
item = "video"
time = "ts"

[behaviours]
click = { column = "is_click" }
like = { column = "rating", at_least = 4 }
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

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import AfterValidator, Field, FiniteFloat, model_validator

from gfn4rec.config import StrictConfig
from gfn4rec.data.interactions import (
    RESERVED_FEATURES,
    RESERVED_NAMES,
    Behaviour,
    Feature,
    FeatureKind,
    FeatureTable,
    Interactions,
    RawFile,
    at_least,
    check_names,
)
from gfn4rec.data.table_file import TableFile
from gfn4rec.data.tables import ColumnKind, read_table
from gfn4rec.errors import UserError

_BEHAVIOUR = re.compile(r"(?P<name>[^=<>]+)(=(?P<column>[^=<>]+?)\s*(>=\s*(?P<at_least>\S+))?)?")


def _known_encoding(name: str) -> str:
    try:
        "".encode(name)
        b"".decode(name)
    except LookupError:
        raise ValueError("no such encoding; try utf-8, latin-1 or gb18030") from None
    return name


def _known_separator(text: str) -> str:
    text = text.replace("\\t", "\t")
    if not text or not text.isascii() or any(sign in text for sign in '"\r\n'):
        raise ValueError("write one or more plain characters, as in ; or \\t")
    return text


Encoding = Annotated[str, AfterValidator(_known_encoding)]
Separator = Annotated[str, AfterValidator(_known_separator)]


class LogConfig(StrictConfig):
    """The log itself."""

    files: tuple[str, ...] = Field(min_length=1)  # read in this order
    user: str = "user"  # the columns' names
    item: str = "item"
    time: str = "time"
    order: Literal["time", "file"] = "time"  # "file": there are no times, the rows are in order as they stand
    separator: Separator = ","  # of CSV files
    is_quoted: bool = True  # fields may stand in quotation marks
    encoding: Encoding = "utf-8"

    @model_validator(mode="after")
    def _columns_differ(self) -> "LogConfig":
        timed = (("user", "time"), ("item", "time")) if self.order == "time" else ()
        for one, other in (("user", "item"), *timed):
            if getattr(self, one) == getattr(self, other):
                raise ValueError(f"the columns of {one} and {other} are the same, {getattr(self, one)!r}")
        return self


class BehaviourConfig(StrictConfig):
    """A response: a 0/1 column, or a number with a threshold."""

    column: str
    at_least: FiniteFloat | None = None
    weight: FiniteFloat = 1.0


class FeatureConfig(StrictConfig):
    """A feature: a column and its kind."""

    kind: FeatureKind
    column: str | None = None  # the feature's own name if absent
    separator: str = "|"  # between the values of a multi-valued feature in a text file


class TableConfig(StrictConfig):
    """A table of users or items."""

    file: str
    id: str
    title: str | None = None
    separator: Separator = ","
    is_quoted: bool = True
    encoding: Encoding = "utf-8"
    features: dict[str, FeatureConfig] = Field(default_factory=dict)


class OwnData(StrictConfig):
    """What a TOML description of own data may say."""

    log: LogConfig
    behaviours: dict[str, BehaviourConfig] = Field(min_length=1)
    users: TableConfig | None = None
    items: TableConfig | None = None


def parse_behaviour(text: str) -> tuple[str, dict[str, Any]]:
    """`click`, `click=is_click` or `like=rating>=4` -> the name and the values of a BehaviourConfig."""
    match = _BEHAVIOUR.fullmatch(text.strip())
    if match is None:
        raise UserError(f"--behaviour {text!r}: write NAME, NAME=COLUMN or NAME=COLUMN>=NUMBER")
    name = match["name"].strip()
    values: dict[str, Any] = {"column": (match["column"] or name).strip()}
    if match["at_least"] is not None:
        try:
            values["at_least"] = float(match["at_least"])
        except ValueError:
            raise UserError(f"--behaviour {text!r}: {match['at_least']!r} is not a number") from None
    return name, values


def read_own(config: OwnData, folder: Path) -> Interactions:
    """Read the files the description names, relative to `folder`."""
    log_config = config.log
    check_names(list(config.behaviours), RESERVED_NAMES, "behaviour")
    kinds: dict[str, ColumnKind] = {log_config.user: "id", log_config.item: "id"}
    if log_config.order == "time":
        kinds[log_config.time] = "time"
    for name, behaviour in config.behaviours.items():
        if kinds.get(behaviour.column) in ("id", "time"):
            raise UserError(
                f"behaviour {name!r}: column {behaviour.column!r} is the user, the item or the time already"
            )
        kinds[behaviour.column] = "number" if behaviour.at_least is not None else kinds.get(behaviour.column, "flag")
    files = [
        TableFile(folder / name, log_config.separator, None, log_config.encoding, log_config.is_quoted)
        for name in log_config.files
    ]
    try:
        parts = [read_table(file, kinds) for file in files]
    except UserError as error:
        if f"no column {log_config.time!r}" in str(error):
            raise UserError(f"{error}; or, if the rows stand in order, pass --order file") from None
        raise
    log = _named(_joined(parts, config), config)
    users, user_files = _read_features(config.users, folder)
    items, item_files = _read_features(config.items, folder)
    return Interactions(
        log=log,
        behaviours=tuple(Behaviour(name, behaviour.weight) for name, behaviour in config.behaviours.items()),
        users=users,
        items=items,
        raw_files=(
            *(file.record(part.height) for file, part in zip(files, parts, strict=True)),
            *user_files,
            *item_files,
        ),
        timed=log_config.order == "time",
        raw_columns={"user": log_config.user, "item": log_config.item, "time": log_config.time}
        | {name: behaviour.column for name, behaviour in config.behaviours.items()},
        origin=config.model_dump(mode="json", exclude_defaults=True),
    )


def _joined(parts: list[pl.DataFrame], config: OwnData) -> pl.DataFrame:
    """One table of all files; times must mean the same in each, and end up as numbers."""
    name = config.log.time
    if config.log.order == "time" and len({part.schema[name].is_temporal() for part in parts}) > 1:
        raise UserError(f"column {name!r} holds numbers in one log file and dates in another; write one or the other")
    table = pl.concat(parts, how="vertical_relaxed")
    is_temporal = config.log.order == "time" and table.schema[name].is_temporal()
    return table.with_columns(table[name].to_physical()) if is_temporal else table


def _named(table: pl.DataFrame, config: OwnData) -> pl.DataFrame:
    """The table with our column names, thresholds applied."""
    log = config.log
    time = pl.col(log.time) if log.order == "time" else pl.int_range(pl.len(), dtype=pl.Int64)
    responses = [
        (pl.col(each.column) if each.at_least is None else at_least(each.column, each.at_least)).alias(name)
        for name, each in config.behaviours.items()
    ]
    return table.select(pl.col(log.user).alias("user"), pl.col(log.item).alias("item"), time.alias("time"), *responses)


def _read_features(config: TableConfig | None, folder: Path) -> tuple[FeatureTable | None, tuple[RawFile, ...]]:
    if config is None:
        return None, ()
    file = TableFile(folder / config.file, config.separator, None, config.encoding, config.is_quoted)
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
    """Note that a column is needed; one that is needed as two kinds is an error."""
    if kinds.setdefault(column, kind) != kind:
        raise UserError(f"{name!r}: column {column!r} is used in another way already; give it a column of its own")

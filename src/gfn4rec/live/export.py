"""What a store holds, as Parquet files: decisions with their propensities, events, and samples."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import polars as pl
import sqlalchemy as sa
from polars.io.plugins import register_io_source

from gfn4rec.errors import UserError
from gfn4rec.live.store.state import read_property
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.tables import decisions, events, samples
from gfn4rec.live.store.writer import StoreError
from gfn4rec.storage import MANIFEST, refuse_foreign, replace_directory

FORMAT: Final = "gfn4rec live export"
_VERSION: Final = 1
_ROWS_AT_ONCE: Final = 5000
PolarsType: TypeAlias = pl.DataType | type[pl.DataType]
Report: TypeAlias = Callable[[str, int, int], None]

_TEXTS: Final = pl.List(pl.String)
_NUMBERS: Final = pl.List(pl.Float64)
_HISTORY: Final = pl.List(pl.Struct({"item": pl.String, "behaviours": _TEXTS}))


@dataclass(frozen=True)
class _Table:
    """How the rows of a table become those of a file."""

    table: sa.Table
    key: sa.Column[int]
    schema: Mapping[str, PolarsType]
    row: Callable[[sa.RowMapping], dict[str, object]]


def _decision(row: sa.RowMapping) -> dict[str, object]:
    history = [{"item": item, "behaviours": names} for item, names in row["history"]]
    own = {"history": history, "rule": json.dumps(row["rule"], ensure_ascii=False, sort_keys=True)}
    return {**row, **row["sampling"], **own}


TABLES: Final[Mapping[str, _Table]] = {
    "decisions": _Table(
        decisions,
        decisions.c.number,
        {
            "decision_id": pl.String,
            "request_id": pl.String,
            "place": pl.Int64,  # of the slate among those of its request
            "user": pl.String,
            "created": pl.Float64,  # times are seconds since 1970
            "state": pl.String,
            "slate": _TEXTS,
            "log_prob": _NUMBERS,  # of each step, under the sampling that drew the slate: the propensity
            "learned_log_prob": _NUMBERS,  # of each step, at temperature 1
            "greediness": pl.Float64,
            "reward_weight": pl.Float64,
            "epsilon": pl.Float64,
            "rule": pl.String,  # JSON: which items were candidates
            "version": pl.Int64,
            "revision": pl.Int64,  # of the catalogue
            "history": _HISTORY,  # what the policy read, oldest first
            "responses": pl.List(_TEXTS),  # of each item so far; those of samples are final
            "notes": _TEXTS,
        },
        _decision,
    ),
    "events": _Table(
        events,
        events.c.number,
        {
            "event_id": pl.String,
            "decision_id": pl.String,
            "item": pl.String,
            "behaviour": pl.String,
            "value": pl.Int64,
            "client_time": pl.Float64,
            "received": pl.Float64,
            "status": pl.String,
        },
        dict,
    ),
    "samples": _Table(
        samples,
        samples.c.seq,
        {
            "seq": pl.Int64,
            "decision_id": pl.String,
            "responses": pl.List(_TEXTS),
            "item_rewards": _NUMBERS,
            "reward": pl.Float64,
            "closed": pl.Float64,
        },
        dict,
    ),
}


def export(url: str, out: Path, force: bool = False, report: Report = lambda *_: None) -> dict[str, int]:
    """Write what a store holds now, as of one moment, and return the number of rows by table.

    It only reads, so that the service may run. An export that is there is replaced only with `force`.
    """
    if force:
        refuse_foreign(out, FORMAT)
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: exists already; add --force to replace an export, or choose another --out")
    store = Store(url, read_only=True)
    try:
        _require_store(store, url)
        with store.read() as connection, replace_directory(out, FORMAT) as fresh:
            begin_snapshot(connection)
            counts = {name: _write(connection, name, fresh, report) for name in TABLES}
            manifest = {"format": FORMAT, "version": _VERSION, "run": read_property(connection, "run"), "rows": counts}
            files = {f"{name}.parquet": counts[name] for name in TABLES}
            (fresh / MANIFEST).write_text(json.dumps(manifest | {"files": files}, indent=2), encoding="utf-8")
    except StoreError as error:
        raise UserError(f"{url}: cannot be read as the store of a service ({error})") from error
    finally:
        store.close()
    return counts


def begin_snapshot(connection: sa.Connection) -> None:
    """Let everything that is read from now on be as of one moment, whatever is written meanwhile."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    else:
        connection.exec_driver_sql("BEGIN")


def _require_store(store: Store, url: str) -> None:
    path = store.url.database
    if store.dialect == "SQLite" and path is not None and not Path(path).is_file():
        raise UserError(f"{url}: there is no store; name that of a service, or its run")


def _write(connection: sa.Connection, name: str, directory: Path, report: Report) -> int:
    """Write a table to a file, a part at a time, and return the number of its rows."""
    table = TABLES[name]
    total = connection.scalar(sa.select(sa.func.count()).select_from(table.table)) or 0
    done = 0

    def parts(columns: list[str] | None, *_: object) -> Iterator[pl.DataFrame]:
        nonlocal done
        for part in _rows(connection, table):
            done += len(part)
            report(name, done, total)
            frame = pl.DataFrame(part, schema=table.schema)
            yield frame if columns is None else frame.select(columns)

    register_io_source(parts, schema=dict(table.schema)).sink_parquet(directory / f"{name}.parquet")
    return done


def _rows(connection: sa.Connection, table: _Table) -> Iterator[list[dict[str, object]]]:
    """Yield the rows of a table in the order of its key, some at a time; at least one part, which may be empty."""
    last, is_first = 0, True
    while True:
        query = sa.select(table.table).where(table.key > last).order_by(table.key).limit(_ROWS_AT_ONCE)
        rows = connection.execute(query).mappings().all()
        if rows or is_first:
            yield [_typed(table.row(row), table.schema) for row in rows]
        if not rows:
            return
        last, is_first = rows[-1][table.key.name], False


def _typed(row: Mapping[str, Any], schema: Mapping[str, PolarsType]) -> dict[str, object]:
    """Return the columns of a schema; JSON writes some whole numbers without a point, which are floats, too."""
    return {key: list(map(float, row[key])) if kind == _NUMBERS else row[key] for key, kind in schema.items()}

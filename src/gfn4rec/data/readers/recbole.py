"""RecBole's atomic files: tab-separated text whose headers carry types, `rating:float`.

Their headers say all that a description of one's own data says, so they are read as own data.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gfn4rec.data.interactions import RESERVED_FEATURES, FeatureKind, Interactions
from gfn4rec.data.readers.own import OwnData, read_own
from gfn4rec.data.table_file import TableFile
from gfn4rec.errors import UserError

_LAYOUT = {"separator": "\t", "is_quoted": False}
_KINDS: Mapping[str, FeatureKind] = {"token": "categorical", "token_seq": "multi", "float": "numeric"}


def read_recbole(
    raw: Path,
    behaviours: Mapping[str, Mapping[str, Any]],
    kinds: Mapping[str, FeatureKind] | None = None,
    rename: Mapping[str, str] | None = None,
    order: str = "time",
) -> Interactions:
    """Read `NAME.inter` and, where they exist, `NAME.user` and `NAME.item`.

    `behaviours` are described as for own data, with the columns' plain names. Without `kinds`, each token column is a
    categorical feature, each token_seq a multi-valued and each float a numeric one, but for an item's title.
    """
    inter = _only_inter(raw)
    typed = _typed_columns(inter)
    if not behaviours:
        choices = ", ".join(name for name in typed if name not in ("user_id", "item_id", "timestamp"))
        raise UserError(f'{inter}: say what counts as a response, as in --behaviour "like=rating>=4"; it has {choices}')
    log = {
        "files": [inter.name],
        "user": typed.get("user_id", "user_id:token"),
        "item": typed.get("item_id", "item_id:token"),
        "time": typed.get("timestamp", "timestamp:float"),
        "order": order,
    }
    values: dict[str, Any] = {
        "log": log | _LAYOUT,
        "behaviours": {
            name: {**each, "column": typed.get(each["column"], each["column"])} for name, each in behaviours.items()
        },
    }
    for table, suffix, key in (("users", ".user", "user_id"), ("items", ".item", "item_id")):
        path = inter.with_suffix(suffix)
        if path.exists():
            values[table] = _table(path, key, kinds, rename or {})
    return read_own(OwnData.parse(values, str(inter)), inter.parent)


def _only_inter(raw: Path) -> Path:
    found = [raw] if raw.is_file() else sorted(raw.glob("*.inter"))
    if not found:
        raise UserError(f"{raw}: a folder without .inter file; name a log file, or a TOML description of several")
    if len(found) > 1:
        raise UserError(f"{raw}: {len(found)} .inter files in it; name one of them")
    return found[0]


def _typed_columns(path: Path) -> dict[str, str]:
    """`rating` -> `rating:float`, for every column of the file."""
    columns = {}
    for header in TableFile(path, "\t", is_quoted=False).column_names():
        name, _, kind = header.partition(":")
        if name in columns:
            raise UserError(f"{path}: two columns are called {name!r}; rename one of them")
        if kind not in (*_KINDS, "float_seq"):
            raise UserError(f"{path}: column {header!r} has no type; RecBole headers read name:token, name:float, ...")
        columns[name] = header
    return columns


def _table(path: Path, key: str, kinds: Mapping[str, FeatureKind] | None, rename: Mapping[str, str]) -> dict[str, Any]:
    columns = _typed_columns(path)
    if key not in columns:
        raise UserError(f"{path}: no column {key}:token")
    title = next((name for name in columns if name.endswith("title")), None) if key == "item_id" else None
    features = {}
    for name, header in columns.items():
        kind = _KINDS.get(header.partition(":")[2]) if kinds is None else kinds.get(name)
        if kind and name not in (key, title):
            name = f"{name}_feature" if name in RESERVED_FEATURES else rename.get(name, name)
            features[name] = {"column": header, "kind": kind, "separator": " "}
    return {
        "file": path.name,
        "id": columns[key],
        "title": columns[title] if title else None,
        "features": features,
    } | _LAYOUT

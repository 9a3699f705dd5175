"""RecBole's atomic files: tab-separated text whose headers carry types, as in `rating:float`.

Their headers say what a description of own data says, so they are read as own data.
"""

from collections.abc import Mapping
from pathlib import Path

from gfn4rec.data.interactions import RESERVED_FEATURES, FeatureKind, Interactions
from gfn4rec.data.readers.own import FeatureConfig, LogConfig, OwnData, TableConfig, read_own
from gfn4rec.data.readers.responses import BehaviourConfig
from gfn4rec.data.table_file import TableFile
from gfn4rec.errors import UserError

_SEPARATOR = "\t"
_KINDS: Mapping[str, FeatureKind] = {"token": "categorical", "token_seq": "multi", "float": "numeric"}


def read_recbole(
    raw: Path,
    behaviours: Mapping[str, BehaviourConfig],
    kinds: Mapping[str, FeatureKind] | None = None,
    rename: Mapping[str, str] | None = None,
    order: str = "time",
) -> Interactions:
    """Read `NAME.inter` and, where they exist, `NAME.user` and `NAME.item`.

    `behaviours` are described as for own data, by the plain names of columns. Without `kinds`, a token column is a
    categorical feature, a token_seq column a multi-valued one and a float column a numeric one. An item's title is
    no feature.
    """
    inter = _only_inter(raw)
    typed = _typed_columns(inter)
    if not behaviours:
        choices = ", ".join(name for name in typed if name not in ("user_id", "item_id", "timestamp"))
        raise UserError(f'{inter}: say what counts as a response, as in --behaviour "like=rating>=4"; it has {choices}')
    tables = {
        suffix: _table(inter.with_suffix(suffix), key, kinds, rename or {})
        for suffix, key in ((".user", "user_id"), (".item", "item_id"))
        if inter.with_suffix(suffix).exists()
    }
    config = OwnData(
        log=_log_config(inter, typed, order),
        behaviours={
            name: behaviour.model_copy(update={"column": typed.get(behaviour.column, behaviour.column)})
            for name, behaviour in behaviours.items()
        },
        users=tables.get(".user"),
        items=tables.get(".item"),
    )
    return read_own(config, inter.parent)


def _log_config(inter: Path, typed: Mapping[str, str], order: str) -> LogConfig:
    values = {
        "files": [inter.name],
        "user": typed.get("user_id", "user_id:token"),
        "item": typed.get("item_id", "item_id:token"),
        "time": typed.get("timestamp", "timestamp:float"),
        "order": order,
        "separator": _SEPARATOR,
        "is_quoted": False,
    }
    return LogConfig.parse(values, str(inter))


def _only_inter(raw: Path) -> Path:
    paths = [raw] if raw.is_file() else sorted(raw.glob("*.inter"))
    if not paths:
        raise UserError(f"{raw}: a folder without .inter file; name a log file, or a TOML description of several")
    if len(paths) > 1:
        raise UserError(f"{raw}: {len(paths)} .inter files in it; name one of them")
    return paths[0]


def _typed_columns(path: Path) -> dict[str, str]:
    """Map the plain name of every column to its header, as `rating` to `rating:float`."""
    columns = {}
    for header in TableFile(path, _SEPARATOR, is_quoted=False).column_names():
        name, _, kind = header.partition(":")
        if name in columns:
            raise UserError(f"{path}: two columns are called {name!r}; rename one of them")
        if kind not in (*_KINDS, "float_seq"):
            raise UserError(f"{path}: column {header!r} has no type; RecBole headers read name:token, name:float, ...")
        columns[name] = header
    return columns


def _table(path: Path, key: str, kinds: Mapping[str, FeatureKind] | None, rename: Mapping[str, str]) -> TableConfig:
    columns = _typed_columns(path)
    if key not in columns:
        raise UserError(f"{path}: no column {key}:token")
    title = next((name for name in columns if name.endswith("title")), None) if key == "item_id" else None
    features = {}
    for name, header in columns.items():
        kind = _KINDS.get(header.partition(":")[2]) if kinds is None else kinds.get(name)
        if kind and name not in (key, title):
            name = f"{name}_feature" if name in RESERVED_FEATURES else rename.get(name, name)
            features[name] = FeatureConfig(column=header, kind=kind, separator=" ")
    return TableConfig(
        file=path.name,
        id=columns[key],
        title=columns[title] if title else None,
        separator=_SEPARATOR,
        is_quoted=False,
        features=features,
    )

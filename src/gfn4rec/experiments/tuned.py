"""The settings that a search has found best: a TOML file with a table for each policy or model, online and offline."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from gfn4rec.config import nearest, read_toml
from gfn4rec.errors import UserError
from gfn4rec.experiments.models import MODELS
from gfn4rec.policies import POLICIES
from gfn4rec.storage import write_whole
from gfn4rec.training.config import KINDS, Kind, resolve_settings

TUNED: Final = "tuned.toml"
Tuned: TypeAlias = dict[Kind, dict[str, dict[str, Any]]]  # changes by how it learns, and by policy or model


def write_tuned(path: Path, tuned: Mapping[Kind, Mapping[str, Mapping[str, Any]]]) -> None:
    """Write changes: numbers, booleans, texts and lists of them."""
    tables = []
    for kind, by_name in tuned.items():
        for name, changes in by_name.items():
            lines = [f"{_key(key)} = {_value(key, value)}\n" for key, value in changes.items()]
            tables.append(f"[{kind}.{_key(name)}]\n{''.join(lines)}")
    write_whole(path, "\n".join(tables))


def read_tuned(path: Path) -> Tuned:
    """Changes, each of them checked against the policy's settings and the loop's."""
    content = read_toml(path)
    tuned: Tuned = {kind: _tables(content.pop(kind, {}), path, kind) for kind in KINDS}
    for name in content:
        raise UserError(f"{path}: [{name}]: write {' or '.join(f'[{kind}.{_key(name)}]' for kind in KINDS)}")
    for kind, by_name in tuned.items():
        for name, changes in by_name.items():
            try:
                if name not in (*MODELS, *POLICIES):
                    raise UserError(f"no policy or model {name!r}; {nearest(name, [*POLICIES, *MODELS])}")
                resolve_settings(kind, MODELS[name].policy if name in MODELS else name, changes=changes)
            except UserError as error:
                raise UserError(f"{path}: [{kind}.{_key(name)}]: {error}") from error
    return tuned


def _tables(values: Any, path: Path, kind: Kind) -> dict[str, dict[str, Any]]:
    if not isinstance(values, dict):
        raise UserError(f"{path}: {kind}: write tables, as [{kind}.gfn], not {values!r}")
    for name, changes in values.items():
        if not isinstance(changes, dict):
            raise UserError(f"{path}: {kind}.{name}: write a table, [{kind}.{_key(name)}], not {changes!r}")
    return values


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _value(key: str, value: Any) -> str:
    """Of these kinds of values JSON and TOML write the same."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, bool | int | float | str) for part in parts):
        raise UserError(f"{key}: write a number, a boolean, a text or a list of them, not {value!r}")
    return json.dumps(value, ensure_ascii=False)

"""The settings that a search has found best: a TOML file with a table for each policy or model."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gfn4rec.config import nearest, read_toml
from gfn4rec.errors import UserError
from gfn4rec.experiments.models import MODELS
from gfn4rec.policies import POLICIES
from gfn4rec.storage import write_whole
from gfn4rec.training.config import Kind, resolve_settings

Tuned: TypeAlias = dict[str, dict[str, Any]]  # changes by policy, or by model


def write_tuned(path: Path, tuned: Mapping[str, Mapping[str, Any]]) -> None:
    """Write changes by name: numbers, booleans, texts and lists of them."""
    tables = []
    for name, changes in tuned.items():
        lines = [f"{_key(key)} = {_value(key, value)}\n" for key, value in changes.items()]
        tables.append(f"[{_key(name)}]\n{''.join(lines)}")
    write_whole(path, "\n".join(tables))


def read_tuned(path: Path, kind: Kind = "online") -> Tuned:
    """Changes by name, each of them checked against the policy's settings and the loop's."""
    tuned = read_toml(path)
    for name, changes in tuned.items():
        if not isinstance(changes, dict):
            raise UserError(f"{path}: {name}: write a table, [{name}], not {changes!r}")
        try:
            if name not in (*MODELS, *POLICIES):
                raise UserError(f"no policy or model {name!r}; {nearest(name, [*POLICIES, *MODELS])}")
            resolve_settings(kind, MODELS[name].policy if name in MODELS else name, changes=changes)
        except UserError as error:
            raise UserError(f"{path}: [{name}]: {error}") from error
    return tuned


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _value(key: str, value: Any) -> str:
    """Of these kinds of values JSON and TOML write the same."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, bool | int | float | str) for part in parts):
        raise UserError(f"{key}: write a number, a boolean, a text or a list of them, not {value!r}")
    return json.dumps(value, ensure_ascii=False)

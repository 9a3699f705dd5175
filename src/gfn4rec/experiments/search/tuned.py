"""The best settings of searches: a TOML file with a table per mode and policy or model, as `[online.gfn]`."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from gfn4rec.config import nearest, read_toml
from gfn4rec.errors import UserError
from gfn4rec.policies import POLICIES
from gfn4rec.storage import write_whole
from gfn4rec.training.config import MODES, Mode, resolve_settings

TUNED: Final = "tuned.toml"
Tuned: TypeAlias = dict[Mode, dict[str, dict[str, object]]]  # settings by mode and by policy or model


def write_tuned(path: Path, tuned: Mapping[Mode, Mapping[str, Mapping[str, object]]]) -> None:
    """Write settings: numbers, booleans, texts and lists of them."""
    tables = []
    for mode, by_name in tuned.items():
        for name, changes in by_name.items():
            lines = [f"{_key(key)} = {_value(key, value)}\n" for key, value in changes.items()]
            tables.append(f"[{mode}.{_key(name)}]\n{''.join(lines)}")
    write_whole(path, "\n".join(tables))


def read_tuned(path: Path, models: Mapping[str, str] | None = None) -> Tuned:
    """Read settings, and check them against those of the policy and the training loop.

    `models` has names that tables may have besides those of policies, and the policy of each.
    """
    content, policies = read_toml(path), {**{name: name for name in POLICIES}, **(models or {})}
    tuned: Tuned = {mode: _tables(content.pop(mode, {}), path, mode) for mode in MODES}
    for name in content:
        raise UserError(f"{path}: [{name}]: write {' or '.join(f'[{mode}.{_key(name)}]' for mode in MODES)}")
    for mode, by_name in tuned.items():
        for name, changes in by_name.items():
            try:
                if name not in policies:
                    raise UserError(f"no policy or model {name!r}; {nearest(name, list(policies))}")
                resolve_settings(mode, policies[name], changes=changes)
            except UserError as error:
                raise UserError(f"{path}: [{mode}.{_key(name)}]: {error}") from error
    return tuned


def _tables(values: object, path: Path, mode: Mode) -> dict[str, dict[str, object]]:
    if not isinstance(values, dict):
        raise UserError(f"{path}: {mode}: write tables, as [{mode}.gfn], not {values!r}")
    for name, changes in values.items():
        if not isinstance(changes, dict):
            raise UserError(f"{path}: {mode}.{name}: write a table, [{mode}.{_key(name)}], not {changes!r}")
    return values


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _value(key: str, value: object) -> str:
    """Write a value as TOML, which is the same as JSON for these types."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, bool | int | float | str) for part in parts):
        raise UserError(f"{key}: write a number, a boolean, a text or a list of them, not {value!r}")
    return json.dumps(value, ensure_ascii=False)

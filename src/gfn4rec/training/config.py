"""The settings of a run: which policy, how it learns, who answers."""

import copy
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from pydantic import Field, field_validator

from gfn4rec.config import StrictConfig, describe_settings, nearest, read_toml
from gfn4rec.errors import UserError
from gfn4rec.policies import policy_class
from gfn4rec.policies.base import MIN_TEMPERATURE
from gfn4rec.training.learner import LearnerConfig

Kind: TypeAlias = Literal["online", "offline"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_TABLES: Final = ("settings", "training", "users")  # of a file


class OnlineConfig(LearnerConfig):
    """The online loop of Algorithm 1; the defaults are the paper's."""

    num_steps: int = Field(default=5000, ge=1)
    """Inference steps; each shows a slate to every user."""
    warmup_steps: int = Field(default=100, ge=0)
    """Inference steps before the first learning step."""
    learning_steps: int = Field(default=1, ge=1)
    """Learning steps after each inference step."""
    learning_batch: int = Field(default=128, ge=1)
    """Slates in a learning step."""
    newest_share: float = Field(default=0.5, ge=0, le=1)
    """Share of a learning batch that comes from the last inference step; the rest comes from the whole buffer."""
    buffer_size: int = Field(default=50_000, ge=1)
    """Slates the replay buffer holds."""
    temperature: float = Field(default=1.0, ge=0)
    """Of the slates shown while learning; 0 shows the most likely ones."""

    @field_validator("temperature")
    @classmethod
    def _is_zero_or_not_too_small(cls, temperature: float) -> float:
        if 0 < temperature < MIN_TEMPERATURE:
            raise ValueError(f"write 0, or at least {MIN_TEMPERATURE:g}")
        return temperature

    epsilon: float = Field(default=0.0, ge=0, le=1)
    """Share of items drawn uniformly while learning."""
    evaluate_every: int = Field(default=500, ge=1)
    """Steps between evaluations on the way; the first is before any step, and some more are before the second."""
    evaluation_batches: int = Field(default=10, ge=1)
    """Batches of an evaluation on the way, greedy and sampled each."""
    final_batches: int = Field(default=100, ge=1)
    """Batches of the final evaluation, greedy and sampled each."""
    checkpoint_every: int = Field(default=500, ge=1)
    """Steps between checkpoints."""


class OfflineConfig(LearnerConfig):
    """Learning from the logged training slates."""

    num_steps: int = Field(default=10_000, ge=1)
    """Learning steps, at most."""
    learning_batch: int = Field(default=128, ge=1)
    """Slates in a learning step."""
    evaluate_every: int = Field(default=500, ge=1)
    """Steps between looks at the validation slates."""
    patience: int = Field(default=5, ge=1)
    """Looks without a lower validation loss before learning stops."""
    validation_slates: int = Field(default=4096, ge=1)
    """Validation slates that are looked at, at most."""
    final_batches: int = Field(default=100, ge=1)
    """Batches of the final evaluation in the simulator, greedy and sampled each."""
    checkpoint_every: int = Field(default=500, ge=1)
    """Steps between checkpoints."""


class UsersConfig(StrictConfig):
    """Who answers, online and in evaluations."""

    num_users: int = Field(default=128, ge=1)
    """Users at a time."""
    episode_length: int = Field(default=5, ge=1)
    """Slates before all users are replaced."""
    rho: float | None = Field(default=None, ge=0)
    """Strength of item influence; by default that of the simulator."""


class RunSettings(StrictConfig):
    """What a user can choose of a run, all of it resolved."""

    kind: Kind
    policy: str
    seed: int = 0
    policy_settings: dict[str, Any]
    training: dict[str, Any]
    users: UsersConfig


def resolve_settings(
    kind: Kind,
    policy: str | None = None,
    file: Path | None = None,
    changes: Mapping[str, Any] | Sequence[str] = (),
    seed: int | None = None,
) -> RunSettings:
    """Settings from a TOML file and changes to them, as a mapping or as texts `key=value`.

    The file has `policy`, `seed`, and the tables `[settings]` (the policy's), `[training]` and `[users]`. A change
    names its key as `gfn4rec policy list` and `gfn4rec train options` show it, with or without its table.
    """
    content = read_toml(file) if file else {}
    where = str(file) if file else "settings"
    known = ["policy", "seed", *_TABLES]
    for key in content:
        if key not in known:
            raise UserError(f"{where}: unknown key {key!r}; {nearest(key, sorted(known))}")
    name = policy or _policy_name(content, where)
    tables = {key: _table(content, key, where) for key in _TABLES}
    kinds = table_configs(kind, name)
    best = policy_class(name).training_defaults
    tables["training"] = {key: best[key] for key in best if key in kinds["training"].model_fields} | tables["training"]
    if kind == "offline":
        tables["settings"] = {**policy_class(name).offline_defaults, **tables["settings"]}
    named = changes.items() if isinstance(changes, Mapping) else [parse_change(text) for text in changes]
    for key, value in named:
        _apply(key, value, tables, kinds)
    parsed = {key: kinds[key].parse(tables[key], f"{where}: [{key}]") for key in tables}
    users, training = parsed["users"], parsed["training"]
    assert isinstance(users, UsersConfig)
    if policy_class(name).is_learned:
        ranker = getattr(parsed["settings"], "ranker", None) if policy_class(name).learns_in_stages else None
        _refuse_idle(training, 0 if ranker is None else ranker.first_steps, where)
    values = {
        "kind": kind,
        "policy": name,
        "seed": content.get("seed", 0) if seed is None else seed,
        "policy_settings": parsed["settings"].model_dump(mode="json"),
        "training": parsed["training"].model_dump(mode="json"),
        "users": users,
    }
    return RunSettings.parse(values, where)


def _policy_name(content: dict[str, Any], where: str) -> str:
    name = content.get("policy")
    if name is None:
        raise UserError("no policy; name one with --policy, or in the file of --config")
    if not isinstance(name, str):
        raise UserError(f"{where}: policy: write a name, not {name!r}")
    return name


def _refuse_idle(training: StrictConfig, first_steps: int, where: str) -> None:
    """A run that ends before all of it has begun to learn is a mistake."""
    assert isinstance(training, OnlineConfig | OfflineConfig)
    num_steps = training.num_steps
    if isinstance(training, OnlineConfig):
        num_steps, idle = num_steps - training.warmup_steps, training.warmup_steps
        if num_steps <= 0:
            told = f"nothing would be learned in {training.num_steps} steps; lower warmup_steps, which is {idle}"
            raise UserError(f"{where}: {told}")
        num_steps *= training.learning_steps
    if num_steps <= first_steps:
        told = f"the re-ranker would not learn in {num_steps} learning steps; lower ranker.first_steps, which is"
        raise UserError(f"{where}: {told} {first_steps}")


def _table(content: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    table = copy.deepcopy(content.get(key, {}))
    if not isinstance(table, dict):
        raise UserError(f"{where}: {key}: write a table, [{key}], not {table!r}")
    return table


def table_configs(kind: Kind, policy: str) -> dict[str, type[StrictConfig]]:
    """The tables of a settings file."""
    training = OnlineConfig if kind == "online" else OfflineConfig
    return {"settings": policy_class(policy).Config, "training": training, "users": UsersConfig}


def merge_changes(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Changes by their keys without tables, later ones over earlier ones."""
    return {_without_table(key): value for layer in layers for key, value in layer.items()}


def _without_table(key: str) -> str:
    """No two tables share a key, so nothing is lost."""
    table, _, inner = key.partition(".")
    return inner if table in _TABLES else key


def parse_change(text: str) -> tuple[str, Any]:
    """A key and its value: a TOML value, or the text itself."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UserError(f"--set {text}: write key=value")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def _apply(key: str, value: Any, tables: dict[str, dict[str, Any]], kinds: dict[str, type[StrictConfig]]) -> None:
    """Put a change where it belongs: in the table it names, or in the one that has its key."""
    keys = {table: [each.key for each in describe_settings(config())] for table, config in kinds.items()}
    table, _, inner = key.partition(".")
    if table not in tables or inner not in keys[table]:
        found = [each for each, names in keys.items() if key in names]
        if not found:
            if key in ("policy", "seed"):
                raise UserError(f"settings: {key} is none of them; give it as --{key}")
            every = [name for names in keys.values() for name in names]
            raise UserError(f"settings: unknown key {key!r}; {nearest(key, every)}")
        table, inner = found[0], key
    target = tables[table]
    *parts, last = inner.split(".")
    for part in parts:
        target = target.setdefault(part, {})
        if not isinstance(target, dict):
            raise UserError(f"settings: {part}: write a table, not {target!r}")
    target[last] = value

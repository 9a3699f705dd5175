"""The settings of a run: which policy, how it learns, and which simulated users respond."""

import copy
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from gfn4rec.config import ADDED_LATER, StrictConfig, describe_settings, nearest, read_toml
from gfn4rec.errors import UserError
from gfn4rec.policies import DEFAULT_POLICY, policy_class
from gfn4rec.policies.base import PolicyConfig
from gfn4rec.schema import MIN_TEMPERATURE, Sampling
from gfn4rec.simulator.effects import NO_EFFECTS, ListEffects
from gfn4rec.training.learner import LearnerConfig
from gfn4rec.training.online_learner import OnlineLearnerConfig

Mode: TypeAlias = Literal["online", "offline"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
Changes: TypeAlias = Mapping[str, object]
"""Settings by key, as in `gfn4rec policy show` and `gfn4rec train options`, with or without their table."""
_TABLES: Final = ("settings", "training", "users")  # of a settings file


class OnlineConfig(OnlineLearnerConfig):
    """The online loop of Algorithm 1; the defaults are the paper's."""

    num_steps: int = Field(default=5000, ge=1)
    """Number of inference steps; each shows a slate to every user."""
    warmup_steps: int = Field(default=100, ge=0)
    """Number of inference steps before the first learning step."""
    temperature: float = Field(default=1.0, ge=0)
    """Sampling temperature of the slates shown in training; 0 is greedy."""
    epsilon: float = Field(default=0.0, ge=0, le=1)
    """Probability that an item of a slate shown in training is drawn uniformly."""
    evaluate_every: int = Field(default=500, ge=1)
    """Steps between evaluations; there is one before the first step, and six up to step evaluate_every."""
    evaluation_batches: int = Field(default=10, ge=1)
    """Number of greedy and of sampled batches in an evaluation."""
    final_batches: int = Field(default=100, ge=1)
    """Number of greedy and of sampled batches in the final evaluation."""
    checkpoint_every: int = Field(default=500, ge=1)
    """Steps between checkpoints."""
    log_steps: int = Field(default=0, ge=0, json_schema_extra=ADDED_LATER)
    """Largest number of learning steps on the slates of the log before the first online step."""

    @field_validator("temperature")
    @classmethod
    def _is_zero_or_not_too_small(cls, temperature: float) -> float:
        if 0 < temperature < MIN_TEMPERATURE:
            raise ValueError(f"write 0, or at least {MIN_TEMPERATURE:g}")
        return temperature

    @property
    def sampling(self) -> Sampling:
        """How the slates shown while learning are drawn."""
        if self.temperature == 0:
            return Sampling(greedy=True, epsilon=self.epsilon)
        return Sampling(self.temperature, epsilon=self.epsilon)

    @property
    def num_learning_steps(self) -> int:
        """Learning steps of a whole run."""
        return (self.num_steps - self.warmup_steps) * self.learning_steps

    def refuse_idle(self, idle_steps: int, where: str) -> None:
        """Raise a `UserError` if a run would end before the policy, or all of it, has begun to learn."""
        if self.num_learning_steps <= 0:
            problem = f"nothing would be learned in {self.num_steps} steps"
            raise UserError(f"{where}: {problem}; lower warmup_steps, which is {self.warmup_steps}")
        _refuse_idle_reranker(self.num_learning_steps, idle_steps, where)


class OfflineConfig(LearnerConfig):
    """Learning from the logged training slates."""

    num_steps: int = Field(default=10_000, ge=1)
    """Largest number of learning steps."""
    num_epochs: int | None = Field(default=None, ge=1, json_schema_extra=ADDED_LATER)
    """Largest number of passes over the training slates; by default there is no limit."""
    learning_batch: int = Field(default=128, ge=1)
    """Number of slates in the batch of a learning step."""
    evaluate_every: int = Field(default=500, ge=1)
    """Steps between evaluations of the validation loss."""
    patience: int = Field(default=5, ge=1)
    """Number of evaluations without a lower validation loss after which training, or that of a part, stops."""
    validation_slates: int = Field(default=4096, ge=1)
    """Largest number of validation slates to evaluate."""
    final_batches: int = Field(default=100, ge=1)
    """Number of greedy and of sampled batches in the final evaluation in the simulator."""
    checkpoint_every: int = Field(default=500, ge=1)
    """Steps between checkpoints."""

    def steps_on(self, num_slates: int) -> int:
        """Return the largest number of learning steps on so many training slates."""
        if self.num_epochs is None:
            return self.num_steps
        return min(self.num_steps, self.num_epochs * max(1, num_slates // self.learning_batch))

    def refuse_idle(self, idle_steps: int, where: str, num_slates: int | None = None) -> None:
        """Raise a `UserError` if a run would end before all of the policy has begun to learn."""
        num_steps = self.num_steps if num_slates is None else self.steps_on(num_slates)
        _refuse_idle_reranker(num_steps, idle_steps, where)


def _refuse_idle_reranker(num_learning_steps: int, idle_steps: int, where: str) -> None:
    if num_learning_steps <= idle_steps:
        problem = f"the re-ranker would not learn in {num_learning_steps} learning steps"
        raise UserError(f"{where}: {problem}; lower ranker.first_steps, which is {idle_steps}")


class UsersConfig(StrictConfig):
    """The simulated users of online learning and of evaluations."""

    num_users: int = Field(default=128, ge=1)
    """Number of simulated users who are shown slates at the same time."""
    episode_length: int = Field(default=5, ge=1)
    """Number of slates that a user is shown before all users are replaced."""
    rho: float | None = Field(default=None, ge=0)
    """Strength of the influence of a slate's items on each other; by default that of the simulator."""
    pessimism: float | None = Field(default=None, ge=0, allow_inf_nan=False, json_schema_extra=ADDED_LATER)
    """How little is believed of items that users hardly ever choose, from 0; by default that of the simulator."""
    saturation: float | None = Field(default=None, ge=0, le=1, json_schema_extra=ADDED_LATER)
    """Share of an item's responses that each earlier item of its category takes away; by default the simulator's."""
    complements: float | None = Field(default=None, ge=0, allow_inf_nan=False, json_schema_extra=ADDED_LATER)
    """How many more responses, as a share, an item gets beside a complement; by default that of the simulator."""
    position_decay: float | None = Field(default=None, ge=0, le=1, json_schema_extra=ADDED_LATER)
    """Probability that a user stops after a position, whatever the responses are; by default the simulator's."""
    cascade: float | None = Field(default=None, ge=0, le=1, json_schema_extra=ADDED_LATER)
    """Probability that a user stops after a position with a response; by default that of the simulator."""
    category: str | None = Field(default=None, json_schema_extra=ADDED_LATER)
    """Item feature with the categories; by default the simulator's, or else the first one that has them."""

    def effects(self, default: ListEffects = NO_EFFECTS) -> ListEffects:
        """Return the list effects of these settings, and those of a simulator where nothing is set."""
        chosen = {name: getattr(self, name) for name in ListEffects.model_fields}
        return default.model_copy(update={name: value for name, value in chosen.items() if value is not None})


class RunSettings(StrictConfig):
    """The settings of a run, all of them resolved. `resolve_settings` makes them.

    >>> settings = resolve_settings("offline", "cf")
    >>> settings.mode, settings.policy, settings.training.patience
    ('offline', 'cf', 5)
    """

    mode: Mode = Field(validation_alias="kind", serialization_alias="kind")  # `kind` on disk and in keys
    policy: str
    seed: int = 0
    policy_settings: SerializeAsAny[PolicyConfig]
    training: OnlineConfig | OfflineConfig
    users: UsersConfig

    @model_validator(mode="before")
    @classmethod
    def _parse_tables(cls, values: object) -> object:
        """Parse the tables of a file by the classes that the policy and the mode name."""
        if not isinstance(values, dict):
            return values
        mode, policy = values.get("kind", values.get("mode")), values.get("policy")
        if mode not in MODES:
            raise UserError(f"{'mode' if 'mode' in values else 'kind'}: choose {' or '.join(MODES)}, not {mode!r}")
        if not isinstance(policy, str):
            raise UserError(f"policy: write a name, not {policy!r}")
        configs, parsed = table_configs(mode, policy), dict[str, StrictConfig]()
        for key, table in (("policy_settings", "settings"), ("training", "training")):
            value, config = values.get(key), configs[table]
            if isinstance(value, dict):
                parsed[key] = config.parse(value, key)
            elif isinstance(value, StrictConfig) and not isinstance(value, config):
                raise UserError(f"{key}: {policy} {mode} needs {config.__name__}, not {type(value).__name__}")
        return {**values, **parsed}


def resolve_settings(
    mode: Mode,
    policy: str | None = None,
    file: Path | str | None = None,
    changes: Changes | Sequence[str] = (),
    seed: int | None = None,
) -> RunSettings:
    """Return settings from a TOML file and changes to them, as a mapping or as texts `key=value`.

    The file has `policy`, `seed`, and the tables `[settings]` (the policy's), `[training]` and `[users]`. A change
    names its key as `gfn4rec policy show` and `gfn4rec train options` print it, with or without its table.

    >>> resolve_settings("online", "gfn", changes={"b_f": 0.7, "num_steps": 1000}).policy_settings.b_f
    0.7
    """
    where = str(file) if file else "settings"
    content = _read_settings(Path(file)) if file else {}
    name = policy or _policy_name(content, where)
    configs = table_configs(mode, name)
    tables = _with_defaults({key: _table(content, key, where) for key in _TABLES}, mode, name)
    named = changes.items() if isinstance(changes, Mapping) else [parse_change(text) for text in changes]
    for key, value in named:
        _apply(key, value, tables, configs)
    parsed = {key: configs[key].parse(tables[key], f"{where}: [{key}]") for key in tables}
    values = {
        "kind": mode,
        "policy": name,
        "seed": content.get("seed", 0) if seed is None else seed,
        "policy_settings": parsed["settings"],
        "training": parsed["training"],
        "users": parsed["users"],
    }
    settings = RunSettings.parse(values, where)
    if policy_class(name).is_learned:
        settings.training.refuse_idle(settings.policy_settings.idle_steps, where)
    return settings


def log_settings(settings: RunSettings) -> RunSettings:
    """Return the settings of the offline run on the log that an online run begins with.

    It has the learning rate of offline training, because weights to start with need a larger one than weights to go on
    with, and the online run's schedule and clipping. Its batches are those of offline training unless the online run's
    are smaller.
    """
    online = settings.training
    assert isinstance(online, OnlineConfig)
    offline = resolve_settings("offline", settings.policy).training
    changes = {key: getattr(online, key) for key in LearnerConfig.model_fields if key != "learning_rate"} | {
        "num_steps": online.log_steps,
        "learning_batch": min(online.learning_batch, offline.learning_batch),
    }
    training = OfflineConfig.parse({**offline.model_dump(), **changes}, "log_steps")
    training.refuse_idle(settings.policy_settings.idle_steps, "log_steps")
    return settings.model_copy(update={"mode": "offline", "training": training})


def _read_settings(file: Path) -> dict[str, object]:
    content, known = read_toml(file), ["policy", "seed", *_TABLES]
    for key in content:
        if key not in known:
            raise UserError(f"{file}: unknown key {key!r}; {nearest(key, sorted(known))}")
    return content


def _with_defaults(tables: dict[str, dict[str, object]], mode: Mode, policy: str) -> dict[str, dict[str, object]]:
    """Return the tables over the defaults that a policy has for the loop, and for itself in this mode."""
    kind, configs = policy_class(policy), table_configs(mode, policy)
    defaults = {**kind.training_defaults, **(kind.offline_defaults if mode == "offline" else {})}
    return {
        key: {**{name: value for name, value in defaults.items() if name in configs[key].model_fields}, **table}
        for key, table in tables.items()
    }


def _policy_name(content: Mapping[str, object], where: str) -> str:
    name = content.get("policy", DEFAULT_POLICY)
    if not isinstance(name, str):
        raise UserError(f"{where}: policy: write a name, not {name!r}")
    return name


def _table(content: Mapping[str, object], key: str, where: str) -> dict[str, object]:
    table = copy.deepcopy(content.get(key, {}))
    if not isinstance(table, dict):
        raise UserError(f"{where}: {key}: write a table, [{key}], not {table!r}")
    return table


def table_configs(mode: Mode, policy: str) -> dict[str, type[StrictConfig]]:
    """Return the configuration classes of the tables of a settings file."""
    training = OnlineConfig if mode == "online" else OfflineConfig
    return {"settings": policy_class(policy).Config, "training": training, "users": UsersConfig}


def merge_changes(*layers: Changes) -> dict[str, object]:
    """Return changes by their keys without tables; later layers override earlier ones."""
    return {_without_table(key): value for layer in layers for key, value in layer.items()}


def _without_table(key: str) -> str:
    """No two tables share a key, so nothing is lost."""
    table, _, inner = key.partition(".")
    return inner if table in _TABLES else key


def parse_change(text: str, option: str = "--set") -> tuple[str, object]:
    """Return the key and the value of `key=value`; the value is TOML, or else the text itself."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UserError(f"{option} {text}: write key=value")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def _apply(
    key: str, value: object, tables: dict[str, dict[str, object]], configs: dict[str, type[StrictConfig]]
) -> None:
    """Put a change into the table that it names, or into the one that has its key."""
    keys = {table: [setting.key for setting in describe_settings(config())] for table, config in configs.items()}
    table, _, inner = key.partition(".")
    if table not in tables or inner not in keys[table]:
        having = [name for name, names in keys.items() if key in names]
        if not having:
            if key in ("policy", "seed"):
                raise UserError(f"settings: {key} is not a setting; give it as --{key}")
            every = [name for names in keys.values() for name in names]
            raise UserError(f"settings: unknown key {key!r}; {nearest(key, every)}")
        table, inner = having[0], key
    target = tables[table]
    *parts, last = inner.split(".")
    for part in parts:
        nested = target.setdefault(part, {})
        if not isinstance(nested, dict):
            raise UserError(f"settings: {part}: write a table, not {nested!r}")
        target = nested
    target[last] = value

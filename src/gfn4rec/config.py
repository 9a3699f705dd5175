"""The strict base class of all configurations, read from TOML files."""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gfn4rec.errors import UserError

ADDED_LATER: Final[JsonDict] = {"added_later": True}
"""Marks a setting that is newer than stored results, as in `Field(default=0, json_schema_extra=ADDED_LATER)`.

The default must compute what was computed before the setting existed; see `identity_values`.
"""


class StrictConfig(BaseModel):
    """A frozen configuration. An unknown key is an error that suggests the nearest valid one."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )

    @classmethod
    def parse(cls, values: Mapping[str, object], where: str) -> Self:
        """Return the configuration; raise a one-line `UserError` that starts with `where` if a value is invalid."""
        try:
            return cls.model_validate(values)
        except UserError as error:  # from a nested configuration that parses itself
            raise UserError(f"{where}: {error}") from error
        except ValidationError as error:
            # A misspelt key often makes another one missing; report the misspelt one.
            first = min(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
            raise UserError(f"{where}: {_describe(cls, first)}") from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the configuration in a TOML file."""
        return cls.parse(read_toml(path), str(path))


def identity_values(config: BaseModel) -> dict[str, Any]:
    """Return the settings that identify a configuration in the keys of stored results.

    A setting that was added later is left out while it has its default, so that older results are still found.
    """
    values = config.model_dump(mode="json")
    for name, field in type(config).model_fields.items():
        key, value = field.serialization_alias or name, getattr(config, name)
        if isinstance(value, BaseModel):
            values[key] = identity_values(value)
        elif _is_newer_default(field, value):
            values.pop(key, None)
    return values


class GrownConfig(StrictConfig):
    """A configuration that is written without what was `ADDED_LATER`, while it has its default.

    Files that were written before, and digests of them, therefore stay as they are.
    """

    @model_serializer(mode="wrap")
    def _without_newer_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields = type(self).model_fields
        return {
            name: value
            for name, value in write(self).items()
            if not _is_newer_default(fields[name], getattr(self, name))
        }


def _is_newer_default(field: FieldInfo, value: object) -> bool:
    return field.json_schema_extra == ADDED_LATER and value == field.get_default(call_default_factory=True)


def read_toml(path: Path) -> dict[str, object]:
    """Return the content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML ({error})") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def nearest(word: str, candidates: list[str]) -> str:
    """Return a remedy for a misspelt word: the closest candidate, or all candidates."""
    close = difflib.get_close_matches(word, candidates, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(candidates)}"


def _describe(model: type[BaseModel], error: ErrorDetails) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key {key!r}; {nearest(str(error['loc'][-1]), _fields_at(model, error['loc']))}"
    if error["type"] == "missing":
        return f"missing key {key!r}"
    problem = error["msg"].removeprefix("Value error, ")
    got = "" if isinstance(error["input"], dict) else f", got {error['input']!r}"
    return f"{key}: {problem}{got}" if key else problem


def _fields_at(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """Return the valid keys at the level of the unknown one, found by walking down the model."""
    for part in location[:-1]:
        annotation = model.model_fields[part].annotation if _is_model(model) and part in model.model_fields else model
        model = next((inner for inner in _inner_models(annotation)), model)
    return list(model.model_fields) if _is_model(model) else []


def _is_model(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)


def _inner_models(annotation: Any) -> list[type[BaseModel]]:
    if _is_model(annotation):
        return [annotation]
    return [model for inner in getattr(annotation, "__args__", ()) for model in _inner_models(inner)]


@dataclass(frozen=True)
class Setting:
    """A setting with its key as users write it: `part.key` if it belongs to a nested configuration."""

    key: str
    default: object
    meaning: str


def describe_settings(config: BaseModel, prefix: str = "") -> list[Setting]:
    """Return all settings of a configuration, those of nested configurations included; `config` has the defaults."""
    settings = []
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            settings += describe_settings(value, f"{prefix}{name}.")
        else:
            meaning = field.description or _inherited_meaning(type(config), name)
            settings.append(Setting(prefix + name, value, " ".join(meaning.split())))
    return settings


def _inherited_meaning(config: type[BaseModel], name: str) -> str:
    """Return the description of a setting from a base class, if this class only changes its default."""
    fields = (base.model_fields.get(name) for base in config.__mro__ if issubclass(base, BaseModel))
    return next((field.description for field in fields if field is not None and field.description), "")

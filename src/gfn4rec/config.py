"""The strict base of every configuration, and how a TOML file becomes one."""

import difflib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from gfn4rec.errors import UserError


class StrictConfig(BaseModel):
    """Frozen, and an unknown key is an error that names the nearest valid one."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, values: dict[str, Any], where: str) -> Self:
        """Validate `values`; a mistake becomes one line that starts with `where`."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            # A misspelt key often leaves another one missing; it is the one to name.
            first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
            raise UserError(f"{where}: {_describe(cls, first)}") from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a TOML file."""
        return cls.parse(read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML ({error})") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def nearest(word: str, candidates: list[str]) -> str:
    """A remedy for a misspelt word: the closest candidate, or all of them."""
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
    """The valid keys beside the offending one: walk down the model by the location."""
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
    """A setting as a user writes it, `part.key` for one of a part."""

    key: str
    default: Any
    meaning: str


def describe_settings(config: BaseModel, prefix: str = "") -> list[Setting]:
    """All settings of a configuration, parts spelt out; `config` has the defaults."""
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
    """What a setting means where a class gives it another default only."""
    fields = (base.model_fields.get(name) for base in config.__mro__ if issubclass(base, BaseModel))
    return next((field.description for field in fields if field is not None and field.description), "")

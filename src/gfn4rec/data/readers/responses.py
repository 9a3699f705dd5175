"""What counts as a response: `is_click` (a column of 0 and 1), or a comparison such as `event_type==purchase`."""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

import polars as pl
from pydantic import FiniteFloat, StringConstraints, model_validator

from gfn4rec.config import StrictConfig, nearest
from gfn4rec.errors import UserError

Comparison = Literal["==", "!=", "<", "<=", ">", ">=", "in"]
Value: TypeAlias = FiniteFloat | Annotated[str, StringConstraints(min_length=1)]

FORM = 'COLUMN, "COLUMN>=NUMBER", "COLUMN==VALUE" or "COLUMN in VALUE, VALUE" (also != < <= >)'

_NAMED = re.compile(r"(?P<name>[^=<>!]+)(=(?P<response>.*))?")
_RESPONSE = re.compile(r"(?P<column>[^=<>!]+?)(\s*(?P<sign>[=!]=|[<>]=?)\s*|\s+(?P<within>in)\s+)(?P<value>[^=<>!].*)")
_COLUMN = re.compile(r"[^=<>!]+")
_NUM_SHOWN_VALUES = 20
_ORDERINGS: Mapping[str | None, Callable[[Any, Any], pl.Series]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class BehaviourConfig(StrictConfig):
    """A response: a 0/1 column, or a column and what its values are compared with.

    >>> BehaviourConfig.model_validate("event_type in purchase, order").value
    ('purchase', 'order')
    >>> BehaviourConfig.model_validate({"column": "rating", "at_least": 4}).comparison
    '>='
    """

    column: str
    comparison: Comparison | None = None
    value: Value | tuple[Value, ...] | None = None
    weight: FiniteFloat = 1.0

    @model_validator(mode="before")
    @classmethod
    def _read_short_forms(cls, given: Any) -> Any:
        """Accept the text of a flag, and `at_least = X` for `comparison = ">=", value = X`."""
        if isinstance(given, str):
            return response_parts(given)
        if isinstance(given, Mapping) and given.get("at_least") is not None and not {"comparison", "value"} & {*given}:
            others = {key: value for key, value in given.items() if key != "at_least"}
            return others | {"comparison": ">=", "value": given["at_least"]}
        return given

    @model_validator(mode="after")
    def _comparison_has_its_value(self) -> Self:
        if (self.comparison is None) != (self.value is None):
            raise ValueError("comparison and value belong together; give both or neither")
        if self.comparison is not None and (self.comparison == "in") != isinstance(self.value, tuple):
            raise ValueError("`in` is followed by a list of values, other comparisons by one value")
        if self.is_ordered and not isinstance(self.value, float):
            raise ValueError(f"{self.value!r} is not a number")
        return self

    @property
    def is_ordered(self) -> bool:
        """Whether the comparison needs numbers."""
        return self.comparison in ("<", "<=", ">", ">=")

    @property
    def values(self) -> tuple[float | str, ...]:
        """What the column is compared with; nothing if it holds the response itself."""
        if self.value is None:
            return ()
        return self.value if isinstance(self.value, tuple) else (self.value,)

    def responses(self, column: pl.Series) -> pl.Series:
        """Return the responses of a column of numbers, flags or text. A missing value stays null."""
        if self.comparison is None:
            return column
        if isinstance(column.dtype, pl.List):
            raise UserError(f"column {self.column!r} holds lists; responses are compared with single values")
        if column.dtype != pl.String:
            column = column.cast(pl.Float64).fill_nan(None)
        elif not self.is_ordered and not any((column == str(value)).any() for value in self.values):
            self._refuse_unknown_text(column)
        if self.is_ordered:
            return _ORDERINGS[self.comparison](column, self.value)
        is_one = column.is_null() & False
        for value in self.values:
            is_text = column.dtype == pl.String and not isinstance(value, str)
            found = column.cast(pl.Float64, strict=False) == value if is_text else column == value
            is_one |= found.fill_null(False)
        is_response = ~is_one if self.comparison == "!=" else is_one
        return is_response.set(column.is_null(), None)

    def _refuse_unknown_text(self, column: pl.Series) -> None:
        """Raise an error if text that a column is compared with never occurs in it: it is misspelt."""
        words = [value for value in self.values if isinstance(value, str)]
        if len(words) == len(self.values):
            frequent = column.drop_nulls().value_counts(sort=True)[self.column].head(_NUM_SHOWN_VALUES).to_list()
            raise UserError(f"column {self.column!r} never holds {words[0]!r}; {nearest(words[0], frequent)}")


def parse_behaviour(text: str) -> tuple[str, BehaviourConfig]:
    """Parse the flag's `click`, `click=is_click` or `like=rating>=4`: a name, and what counts as this response."""
    where = f"--behaviour {text!r}"
    match = _NAMED.fullmatch(text.strip())
    has_name = match is not None and not (match["response"] or "").startswith("=")
    if not has_name and _RESPONSE.fullmatch(text.strip()):
        raise UserError(f"{where}: begin with a name, as in NAME={text.strip()}")
    if match is None:
        raise UserError(f"{where}: write NAME, or NAME= and {FORM}")
    name = match["name"].strip()
    return name, parse_response(name if match["response"] is None else match["response"], where)


def parse_response(text: str, where: str) -> BehaviourConfig:
    """Parse `is_click` or `rating>=4`; errors start with `where`."""
    try:
        parts = response_parts(text)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None
    return BehaviourConfig.parse(parts, where)


def response_parts(text: str) -> dict[str, object]:
    """Split `rating>=4` into its column, its comparison and its value."""
    match = _RESPONSE.fullmatch(text.strip())
    if match is None:
        if not _COLUMN.fullmatch(text.strip()):
            raise ValueError(f"write {FORM}")
        return {"column": text.strip()}
    comparison = match["sign"] or match["within"]
    if comparison != "in":
        return {"column": match["column"].strip(), "comparison": comparison, "value": _value(match["value"])}
    listed = match["value"].strip().removeprefix("(").removesuffix(")")
    values = tuple(_value(value) for value in listed.split(","))
    return {"column": match["column"].strip(), "comparison": comparison, "value": values}


def _value(text: str) -> float | str:
    """Return a number if the text is one; quotation marks make it text."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text

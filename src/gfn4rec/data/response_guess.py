"""Guesses the behaviours of a log from the columns that say how users responded."""

import re
from collections.abc import Callable, Mapping, Sequence

from gfn4rec.data.interactions import RESERVED_NAMES
from gfn4rec.data.profiles import Column
from gfn4rec.data.readers.responses import BehaviourConfig, parse_behaviour
from gfn4rec.data.roles import Role
from gfn4rec.errors import UserError

_BESIDE_NAME = re.compile(r"^(is|has|did|num|count)[_ ]+|[_ ]+(bool|flag|count)$", re.IGNORECASE)
_NEGATIVE = re.compile(r"(?:^|[^a-z])(hate|dislike|skip|block|report|unfollow|unlike|downvote)", re.IGNORECASE)
_LIKED_SHARE = 0.8  # of the highest rating, as 4 of 5 stars
_QUANTITIES = {"quantity", "qty", "amount", "price", "units", "count", "plays", "weight"}
_NEGATIVE_WEIGHT = -1.0


def guess_behaviours(columns: Sequence[Column], roles: Sequence[Role]) -> dict[str, BehaviourConfig]:
    """Return behaviours by name, as far as an option can express them."""
    behaviours: dict[str, BehaviourConfig] = {}
    for column, role in zip(columns, roles, strict=True):
        for name, behaviour in _GUESSES[role](column) if role in _GUESSES else ():
            _add(behaviours, name, behaviour)
    if behaviours:
        return behaviours
    for column, role in zip(columns, roles, strict=True):
        if role in ("", "feature") and _is_quantity(column):  # every row is a response
            _add(behaviours, "chosen", BehaviourConfig(column=column.name, comparison=">", value=0.0))
            break
    return behaviours


def response_text(behaviour: BehaviourConfig) -> str:
    """Return a response as the option --behaviour takes it after the name."""
    if not behaviour.values:
        return behaviour.column
    if isinstance(behaviour.value, tuple):
        return f"{behaviour.column} in {', '.join(map(str, behaviour.value))}"
    (value,) = behaviour.values
    written = _number(value) if isinstance(value, float) else value
    plain = f"{behaviour.column}{behaviour.comparison}{written}"
    return plain if _means(plain, behaviour) else f"{behaviour.column}{behaviour.comparison}'{written}'"


def _means(text: str, behaviour: BehaviourConfig) -> bool:
    try:
        return parse_behaviour(f"name={text}")[1] == behaviour.model_copy(update={"weight": 1.0})
    except UserError:
        return False


def _flag(column: Column) -> list[tuple[str, BehaviourConfig]]:
    if column.type == "flag":
        behaviour = BehaviourConfig(column=column.name)
    elif column.yes:
        behaviour = _equal(column, column.yes)
    else:  # counts
        behaviour = BehaviourConfig(column=column.name, comparison=">=", value=1.0)
    return [(_BESIDE_NAME.sub("", column.name), behaviour)]


def _rating(column: Column) -> list[tuple[str, BehaviourConfig]]:
    """Return the least of the values that are nearly as high as the highest."""
    values = [] if column.numbers is None else column.numbers.unique().to_list()
    least = min(value for value in values if value >= _LIKED_SHARE * max(values))
    return [("like", BehaviourConfig(column=column.name, comparison=">=", value=least))]


def _events(column: Column) -> list[tuple[str, BehaviourConfig]]:
    if column.type == "text":
        return [(word, _equal(column, written)) for word, written in column.spellings.items()]
    numbers = [] if column.numbers is None else column.numbers.unique().to_list()
    return [
        (f"{column.name}_{_number(number)}", BehaviourConfig(column=column.name, comparison="==", value=number))
        for number in numbers
    ]


def _equal(column: Column, written: Sequence[str]) -> BehaviourConfig:
    """Return the response that a text is one of these, which differ in capital letters."""
    if len(written) == 1:
        return BehaviourConfig(column=column.name, comparison="==", value=written[0])
    return BehaviourConfig(column=column.name, comparison="in", value=tuple(written))


def _is_quantity(column: Column) -> bool:
    is_named = bool(_QUANTITIES & {*column.words}) and "id" not in column.words
    return is_named and column.numbers is not None and not column.share_empty and bool((column.numbers > 0).all())


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def _add(behaviours: dict[str, BehaviourConfig], name: str, behaviour: BehaviourConfig) -> None:
    """Add a behaviour under a valid and new name, unless an option cannot express it."""
    weight = _NEGATIVE_WEIGHT if _NEGATIVE.search(name) else 1.0
    name = re.sub(r"[^\w.:+/-]+", "_", name).strip("_.:+/-") or "response"
    if name in RESERVED_NAMES:
        name = f"{name}_response"
    if name in behaviours:
        name = f"{name}_{len(behaviours) + 1}"
    if _means(response_text(behaviour), behaviour):
        behaviours[name] = behaviour.model_copy(update={"weight": weight})


_GUESSES: Mapping[Role, Callable[[Column], list[tuple[str, BehaviourConfig]]]] = {
    "response": _flag,
    "rating": _rating,
    "event type": _events,
}

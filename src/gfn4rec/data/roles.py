"""Guesses what the columns of a log are for, by their names and values."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from gfn4rec.data.profiles import Column

Role = Literal[
    "user",
    "item",
    "time",
    "slate",
    "position",
    "propensity",
    "response",
    "rating",
    "event type",
    "session",
    "feature",
    "",
]


def _list(words: str) -> list[str]:
    return words.split()


_FILLERS = {"id", "ids", "idx", "index", "key", "code", "hash", "no", "unique", "parent", "encoded", "anon", "orig"}
_USER = _list(
    "user uid visitor customer member reviewer client buyer viewer listener reader subscriber player person account "
    "consumer shopper profile username cookie device kunde nutzer benutzer who u"
)
_ITEM = _list(
    "item iid product movie film video vid asin sku song track article book news ad advertisement creative game app "
    "recipe business listing hotel restaurant poi venue course post photo clip show content document doc url isbn "
    "episode podcast artist job goods thing object artikel produkt what i"
)
_TIME = set(_list("timestamp datetime time ts date dat when created at day moment t unix datum zeit"))
_NO_TIME = set(
    _list(
        "play watch duration length stay spent dwell elapsed zone hour hourmin week birth birthday release upload "
        "update updated modified num count response"
    )
)
_SLATE = _list("slate request req impression impr imp display exposure query srch search recommendation pageview serp")
_SESSION = _list("session sess visit trip journey basket transaction order cart")
_POSITION = {"position", "pos", "rank", "slot"}
_PROPENSITY = {"propensity", "pscore", "probability", "prob", "ips"}
_RATING = {"rating", "rate", "stars", "star", "score", "overall", "grade", "vote"}
_EVENT = {"event", "action", "behavior", "behaviour", "activity", "interaction", "feedback", "operation"}
_EVENT_VALUES = set(
    _list(
        "view pv click buy purchase cart addtocart add_to_cart fav favorite favourite like dislike share order "
        "transaction impression show play skip download install save rate"
    )
)
_RESPONSE = re.compile(
    "click|like(?!l)|dislik|unlik|hate|block|report|view(?!er)|buy(?!er)|bought|purchas|order|cart|play(?!er)|watch|"
    "listen(?!er)|read(?!er|y)|shar|follow(?!er)|unfollow|comment|forward|repl|skip|fav|sav|bookmark|install|conver|"
    "complet|finish|subscri(?!ber)|download|booking|booked|respon|feedback|label|target|reward|positiv|interact|engag|"
    "rent|appl|tap|open|upvot|downvot|thumb|collect|wish|gift|gekauft|geklickt|gesehen"
)
_NO_COUNT = {"time", "duration", "ms", "sec", "seconds", "ratio", "stay", "length", "date", "id", "price", "rate"}
_MOST_EVENTS = 20
_MOST_RATINGS = 11
_HIGHEST_POSITION = 1000


def guess_roles(columns: Sequence[Column], has_names: bool) -> list[Role]:
    """Return the role of each column, "" for none. Columns that share a name have none, for they cannot be used."""
    guess = _Roles(columns)
    guess.take("user", lambda column: _id_score(column, _USER))
    guess.take("item", lambda column: _id_score(column, _ITEM))
    guess.take("slate", lambda column: _id_score(column, _SLATE) if _is_repeated(column) else 0)
    guess.take("position", _position_score)
    guess.take("propensity", _propensity_score)
    guess.take("time", _time_score)
    guess.take("event type", _event_score)
    guess.take_all("rating", _is_rating)
    guess.take_all("response", _is_response)
    guess.take("session", lambda column: _id_score(column, _SESSION) if _is_repeated(column) else 0)
    guess.take("time", lambda column: float(column.has_times and not _NO_TIME & {*column.words}))
    guess.take("time", lambda column: float(column.type == "ambiguous date" and not _NO_TIME & {*column.words}))
    if not has_names:
        guess.take("rating", lambda column: float(_has_rating_values(column)))
    guess.take_ids(has_names)
    if not {"response", "rating", "event type"} & {*guess.roles}:
        guess.take_all("response", lambda column: column.type == "flag" and len(column.distinct) > 1)
        guess.take_all("response", lambda column: bool(column.yes))
        guess.take("response", lambda column: float(_has_only_ones(column)))
    guess.take_all("feature", _is_feature)
    return guess.roles


class _Roles:
    """The columns and their roles; those without one are free."""

    def __init__(self, columns: Sequence[Column]) -> None:
        names = [column.name for column in columns]
        self.roles: list[Role] = [""] * len(columns)
        self._free = {
            place: column
            for place, column in enumerate(columns)
            if names.count(column.name) == 1 and column.type != "empty"
        }

    def take(self, role: Role, score: Callable[[Column], float]) -> None:
        """Give the role to the free column with the highest score, unless one has it or all scores are 0."""
        scores = {place: score(column) for place, column in self._free.items()}
        best = max(scores, key=lambda place: scores[place], default=None)
        if role not in self.roles and best is not None and scores[best] > 0:
            self._give(role, best)

    def take_all(self, role: Role, holds: Callable[[Column], bool]) -> None:
        """Give the role to all free columns for which this holds."""
        for place in [place for place, column in self._free.items() if holds(column)]:
            self._give(role, place)

    def take_ids(self, has_names: bool) -> None:
        """Take users and items by their values if names do not say them, as far as there is one way to do so."""
        wanted: list[Role] = [role for role in ("user", "item") if role not in self.roles]
        may_be = [place for place, column in self._free.items() if _may_be_ids(column, has_names)]
        if len(may_be) == len(wanted) or (not has_names and len(may_be) > len(wanted)):
            for role, place in zip(wanted, may_be, strict=False):
                self._give(role, place)

    def _give(self, role: Role, place: int) -> None:
        self.roles[place] = role
        del self._free[place]


def _words(column: Column, vocabulary: Sequence[str]) -> list[str]:
    """Return the words of the name, with `userid` as `user`, `id`."""
    words = []
    for word in column.words:
        plain = word.removesuffix("s") if word.removesuffix("s") in vocabulary else word
        stem = plain.removesuffix("id")
        words += [stem, "id"] if stem != plain and stem in vocabulary else [plain]
    return words


def _id_score(column: Column, vocabulary: Sequence[str]) -> float:
    """Return how much a column's name is that of ids of a kind; words that come first in the vocabulary win ties."""
    words = _words(column, vocabulary)
    known = [vocabulary.index(word) for word in words if word in vocabulary]
    if not (known and column.is_id):
        return 0
    others = {*words} - {*vocabulary} - _FILLERS
    if others and "id" not in words:
        return 0
    return (1 if others else 3) + ("id" in words) + 0.5 * (1 - min(known) / len(vocabulary))


def _is_repeated(column: Column) -> bool:
    """Return whether several rows share a value, as the items of a slate do."""
    return column.type != "flag" and 1.2 * len(column.distinct) <= column.num_rows


def _position_score(column: Column) -> float:
    if column.type not in ("integer", "flag") or column.numbers is None or not _POSITION & {*column.words}:
        return 0
    return float(column.numbers.is_between(0, _HIGHEST_POSITION).all())


def _propensity_score(column: Column) -> float:
    """Return whether a column is named like the probability of being shown, not like that of a response."""
    words = {*column.words}
    return float(column.is_number and bool(_PROPENSITY & words) and not any(map(_RESPONSE.match, words)))


def _time_score(column: Column) -> float:
    words = {*column.words}
    is_named = bool(words & _TIME) or any(word.endswith(("time", "date", "timestamp")) for word in words)
    if not is_named or words & _NO_TIME:
        return 0
    if column.has_times:
        return 4 - (column.type == "date")  # numbers have the finer resolution
    return {"ambiguous date": 2.0, "integer": 1.0, "number": 1.0, "flag": 1.0}.get(column.type, 0.0)


def _event_score(column: Column) -> float:
    if column.type not in ("text", "integer") or len(column.distinct) > _MOST_EVENTS:
        return 0
    is_named = bool(_EVENT & {*column.words})
    if column.type == "integer":
        return float(is_named)
    has_events = any(str(value).strip().lower() in _EVENT_VALUES for value in column.distinct)
    return 2 * is_named + has_events


def _is_rating(column: Column) -> bool:
    words = {*column.words}
    context = {*_USER, *_ITEM, *_FILLERS, "review", "value"}
    return column.type in ("integer", "number") and bool(words & _RATING) and words <= _RATING | context


def _has_rating_values(column: Column) -> bool:
    if column.numbers is None or column.type == "flag" or len(column.distinct) > _MOST_RATINGS:
        return False
    return bool((column.numbers.is_between(0, 10) & ((2 * column.numbers) % 1 == 0)).all())


def _is_response(column: Column) -> bool:
    """Return whether a column of 0 and 1, of yes and no, or of counts from 0 on, is named like a response."""
    if not any(_RESPONSE.match(word) for word in column.words):
        return False
    if column.numbers is None:
        return bool(column.yes)
    is_count = column.type == "integer" and column.numbers.min() == 0 and not _NO_COUNT & {*column.words}
    return column.type == "flag" or is_count


def _is_feature(column: Column) -> bool:
    return column.type != "nested" and 1 < len(column.distinct) <= max(2, column.num_rows // 2)


def _has_only_ones(column: Column) -> bool:
    return column.type == "flag" and column.numbers is not None and bool((column.numbers == 1).all())


def _may_be_ids(column: Column, has_names: bool) -> bool:
    """Return whether the values may be ids; those of a column with another name must be many."""
    is_many = not has_names or len(column.distinct) ** 2 >= column.num_rows
    return column.is_id and column.type != "number" and not column.share_empty and _is_repeated(column) and is_many

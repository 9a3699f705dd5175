"""Logs of 20 users, who each had 30 rows of different items, and what is found in them."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from gfn4rec.data.inspection import Inspection

Log: TypeAlias = dict[str, list[object]]
Columns: TypeAlias = dict[str, Callable[[int], object]]
NUM_ROWS = 600


def make_log(columns: Columns, user: str = "user", item: str = "item") -> Log:
    """Return the ids, and more columns by row number. Each item has 20 rows."""
    ids: Log = {user: [row % 20 for row in range(NUM_ROWS)], item: [row // 20 for row in range(NUM_ROWS)]}
    return ids | {name: [value(row) for row in range(NUM_ROWS)] for name, value in columns.items()}


def write(path: Path, log: Log, has_header: bool = True, separator: str = ",", encoding: str = "utf-8") -> Path:
    rows = [[("" if value is None else str(value)) for value in row] for row in zip(*log.values(), strict=True)]
    lines = [separator.join(row) for row in ([list(log), *rows] if has_header else rows)]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


def roles(found: Inspection) -> dict[str, str]:
    return {column.name: column.role for column in found.columns if column.role}


def responses(found: Inspection) -> dict[str, str]:
    return {behaviour.name: behaviour.response for behaviour in found.behaviours}


def seconds(row: int) -> int:
    return 1_700_000_000 + 60 * row


def date(row: int) -> str:
    return f"2024-01-{1 + row // 60:02d} 10:{row % 60:02d}:00"


RATINGS: Columns = {"rating": lambda row: 1 + row % 5, "timestamp": seconds}
CLICKS: Columns = {"timestamp": seconds, "click": lambda row: row % 2}
IMPRESSIONS: Columns = {
    "requestId": lambda row: f"r{row % 20}-{row // 100}",  # of five items
    "rank": lambda row: 1 + row // 20 % 5,
    "propensity": lambda row: 0.1 + row % 7 / 10,
    "event_time": date,
    "is_click": lambda row: int(row % 4 == 0),
    "is_hate": lambda row: int(row % 10 == 0),
    "play_time_ms": lambda row: row * 7 % 500,
    "genre": lambda row: f"g{row % 3}",
    "constant": lambda _: "x",
}

"""The values that the paper prints, by its names of the data sets, and how far ours are from them."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, TypeAlias

from pydantic import Field

from gfn4rec.config import StrictConfig
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.experiments.report.tables import Table, mark_cells

PAPER_PREPARATION: Final = {"core": 20, "slate_size": 6}
NOTABLE: Final = 0.05  # relative differences above this are listed

Rows: TypeAlias = dict[str, dict[str, float]]
Reasons: TypeAlias = Mapping[str, Mapping[str, str]]
"""Texts by the name of a table and the label of a row."""


class Published(StrictConfig):
    """The paper's values for one data set; tables that the paper does not have for it are empty."""

    name: str
    data_sets: tuple[str, ...]
    alike: tuple[str, ...] = ()
    """Similar data sets: they use its settings and its claims are judged on them, but no values are compared."""
    summary: dict[str, float]
    reward_range: str
    settings: dict[str, float] = Field(default_factory=dict)
    """The settings of GFN4Rec that the paper reports."""
    online: Rows = Field(default_factory=dict)
    offline: Rows = Field(default_factory=dict)
    balance: Rows = Field(default_factory=dict)
    sensitivity: dict[str, Rows] = Field(default_factory=dict)
    time: Rows = Field(default_factory=dict)
    reasons: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Why our values differ, as far as it is known, by table and row."""


NO_VALUES: Final = Published(name="", data_sets=(), summary={}, reward_range="")


@cache
def published() -> tuple[Published, ...]:
    """Return the values of all data sets of the paper."""
    text = resources.files("gfn4rec.experiments.paper").joinpath("published.toml").read_text(encoding="utf-8")
    return tuple(Published.parse({"name": name, **table}, name) for name, table in tomllib.loads(text).items())


def published_for(data_set: str, prepared: PrepareConfig) -> Published | None:
    """Return what to compare a data set with, if anything; values only if it is prepared as in the paper."""
    # Sessions, other histories and sampled items are in this only if they were asked for.
    is_prepared_alike = prepared.model_dump(exclude={"test_slates", "val_slates"}) == PAPER_PREPARATION
    for entry in published():
        if is_prepared_alike and data_set in entry.data_sets:
            return entry
        if data_set in (*entry.data_sets, *entry.alike):
            return Published(**entry.model_dump(include={"name", "summary", "reward_range", "settings"}), data_sets=())
    return None


def describe_differences(tables: Sequence[Table], reasons: Reasons) -> list[str]:
    """Return a paragraph for each table with published values, and one for each reason of a row that differs."""
    differences = {table.name: _differences(table) for table in tables}
    paragraphs = [_describe(table.title, rows) for table in tables if (rows := differences[table.name])]
    for name, reasons_by_row in reasons.items():
        differing = {label for label, columns in differences.get(name, {}).items() if _notable(columns)}
        paragraphs += [f"{label}: {reason}" for label, reason in reasons_by_row.items() if label in differing]
    return paragraphs


def _differences(table: Table) -> Rows:
    """Return relative differences from the published values, by row and column label."""
    by_row = {
        row.label: {
            cell.column.in_sentence: cell.relative_difference for cell in cells if cell.relative_difference is not None
        }
        for row, cells in mark_cells(table)
    }
    return {label: columns for label, columns in by_row.items() if columns}


def _notable(columns: Mapping[str, float]) -> dict[str, float]:
    return {label: difference for label, difference in columns.items() if abs(difference) > NOTABLE}


def _describe(title: str, differences: Rows) -> str:
    notable = {label: _notable(columns) for label, columns in differences.items()}
    num_values, num_notable = (sum(map(len, rows.values())) for rows in (differences, notable))
    if not num_notable:
        return f"{title}: all values are within {NOTABLE:.0%} of the paper's."
    lists = [
        f"{label}: {'; '.join(f'{column} {difference:+.0%}' for column, difference in columns.items())}."
        for label, columns in notable.items()
        if columns
    ]
    verb = "differs" if num_notable == 1 else "differ"
    summary = f"{title}: {num_notable} of {num_values} values {verb} from the paper's by more than {NOTABLE:.0%}."
    return " ".join([summary, *lists])

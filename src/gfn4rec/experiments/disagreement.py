"""Where our figures and the paper's are far apart, in words, and why, as far as it is known."""

from collections.abc import Mapping, Sequence
from typing import Final

from gfn4rec.experiments.tables import Table, judge

NOTABLE: Final = 0.05  # of a published figure is a difference worth a word


def disagreements(tables: Sequence[Table], reasons: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A paragraph for each table with published figures, then one for each row that is far from them with a reason.

    `reasons` are by the names of tables and the labels of their rows.
    """
    differences = {table.name: _differences(table) for table in tables}
    told = [_tell(table.title, differences[table.name]) for table in tables if differences[table.name]]
    for name, of_table in reasons.items():
        far = {label for (label, _), each in differences.get(name, {}).items() if abs(each) > NOTABLE}
        told += [f"{label}: {reason}" for label, reason in of_table.items() if label in far]
    return told


def _differences(table: Table) -> dict[tuple[str, str], float]:
    """By the labels of rows and columns, as shares of the published figures."""
    return {
        (row.label, cell.column.label): cell.relative_difference
        for row, cells in judge(table)
        for cell in cells
        if cell.relative_difference is not None
    }


def _tell(title: str, differences: Mapping[tuple[str, str], float]) -> str:
    far = [
        f"{label}, {column.lower()} {each:+.0%}" for (label, column), each in differences.items() if abs(each) > NOTABLE
    ]
    if not far:
        return f"{title}: all figures are within {NOTABLE:.0%} of the paper's."
    return f"{title}: more than {NOTABLE:.0%} from the paper's are {'; '.join(far)}."

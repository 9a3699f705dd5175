"""Tables of metrics: the values of each row over seeds, the published values, and which row is best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from gfn4rec.experiments.report.statistics import mean, paired_p, standard_deviation

SIGNIFICANT: Final = 0.05
BETTER: Final = "*"
WORSE: Final = "†"
EMPTY: Final = "–"  # noqa: RUF001 - the dash in an empty cell


@dataclass(frozen=True)
class Column:
    """A metric."""

    key: str
    label: str
    decimals: int = 3
    is_better: Literal["higher", "lower", "none"] = "higher"

    @property
    def heading(self) -> str:
        """The label with an arrow that points to the better side."""
        return self.label + {"higher": " ↑", "lower": " ↓", "none": ""}[self.is_better]

    @property
    def in_sentence(self) -> str:
        """The label with a small first letter, unless it starts with an abbreviation."""
        return self.label[0].lower() + self.label[1:] if self.label[1:2].islower() else self.label

    def write(self, value: float) -> str:
        """Format a value with the metric's number of decimals."""
        return f"{value:z.{self.decimals}f}"


@dataclass(frozen=True)
class Row:
    """The values of one model or variant."""

    label: str
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Values by column, one per seed; all rows have their seeds in the same order."""
    published: Mapping[str, float] = field(default_factory=dict)
    """The paper's values by column."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts by column, shown where there is no value."""
    is_baseline: bool = True


@dataclass(frozen=True)
class Table:
    """Rows of values; `name` is used for file names and for the anchor on the page."""

    name: str
    title: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Cell:
    """A row's entry in a column, compared with the other rows."""

    column: Column
    values: Sequence[float] = ()
    published: float | None = None
    text: str | None = None
    is_best: bool = False
    is_strongest: bool = False
    """Whether it is the best of the baselines."""
    p: float | None = None
    """p of the test against the strongest baseline; None for baselines."""
    is_ahead: bool = False
    """Whether it is better than the strongest baseline."""

    @property
    def mean(self) -> float | None:
        """The mean over seeds."""
        return mean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds."""
        return standard_deviation(self.values)

    @property
    def mark(self) -> str:
        """The sign of a significant difference from the strongest baseline."""
        if self.p is None or self.p >= SIGNIFICANT:
            return ""
        return BETTER if self.is_ahead else WORSE

    @property
    def difference(self) -> float | None:
        """Our mean minus the published value."""
        return None if self.mean is None or self.published is None else self.mean - self.published

    @property
    def relative_difference(self) -> float | None:
        """The difference as a fraction of the published value."""
        return self.difference / abs(self.published) if self.published and self.difference is not None else None

    @property
    def ours(self) -> str:
        """Our value as text: mean and standard deviation."""
        if self.mean is None:
            return self.text or EMPTY
        spread = "" if self.deviation is None else f" ± {self.column.write(self.deviation)}"
        return self.column.write(self.mean) + spread

    @property
    def paper(self) -> str:
        """The published value as text, with the relative difference of ours; empty if there is none."""
        if self.published is None:
            return ""
        relative = self.relative_difference
        return self.column.write(self.published) + ("" if relative is None else f" ({relative:+z.1%})")


def mark_cells(table: Table) -> list[tuple[Row, list[Cell]]]:
    """Return each row with its cells in the order of the columns, the best ones marked."""
    columns = [_mark_column(column, table.rows) for column in table.columns]
    return [(row, [cells[number] for cells in columns]) for number, row in enumerate(table.rows)]


def legend(table: Table) -> str:
    """Explain the marks that occur in this table."""
    cells = [cell for _, row in mark_cells(table) for cell in row]
    has_mark = {
        "bold: best": any(cell.is_best for cell in cells),
        "underlined: strongest baseline": any(cell.is_strongest for cell in cells),
        **{
            f"{mark}: {word} than the strongest baseline (paired t-test, p < {SIGNIFICANT})": any(
                cell.mark == mark for cell in cells
            )
            for mark, word in ((BETTER, "better"), (WORSE, "worse"))
        },
    }
    parts = [*_describe_seeds(cells), *(text for text, is_used in has_mark.items() if is_used)]
    if any(cell.relative_difference is not None for cell in cells):
        parts.append("in brackets: our difference from the paper")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _describe_seeds(cells: Sequence[Cell]) -> list[str]:
    counts = [len(cell.values) for cell in cells if cell.values]
    least, most = min(counts, default=0), max(counts, default=0)
    if most < 2:
        is_compared = any(cell.is_best for cell in cells)  # a table without a best row states facts, not measurements
        return ["one seed"] if is_compared else []
    return [f"mean ± standard deviation over {most if least == most else f'{least} to {most}'} seeds"]


def _mark_column(column: Column, rows: Sequence[Row]) -> list[Cell]:
    cells = [_cell(column, row) for row in rows]
    if column.is_better == "none":
        return cells
    best, strongest = _find_best(column, cells), _find_strongest(column, rows, cells)
    return [
        replace(
            cell,
            is_best=_is_as_good(cell, best),
            is_strongest=row.is_baseline and _is_as_good(cell, strongest),
            p=None if row.is_baseline else _test(cell, strongest),
            is_ahead=strongest is not None and _find_best(column, [strongest, cell]) is cell,
        )
        for row, cell in zip(rows, cells, strict=True)
    ]


def _find_strongest(column: Column, rows: Sequence[Row], cells: Sequence[Cell]) -> Cell | None:
    """Return the best baseline, None if a baseline was not measured: it might have been the best."""
    measured = [(row, cell) for row, cell in zip(rows, cells, strict=True) if row.values]
    baselines = [cell for row, cell in measured if row.is_baseline]
    # If all rows are baselines, the strongest one is the best row, which has its own mark.
    if len(baselines) == len(measured) or any(cell.mean is None for cell in baselines):
        return None
    return _find_best(column, baselines)


def _cell(column: Column, row: Row) -> Cell:
    key = column.key
    return Cell(column, tuple(row.values.get(key, ())), row.published.get(key), row.texts.get(key))


def _find_best(column: Column, cells: Sequence[Cell]) -> Cell | None:
    sign = -1 if column.is_better == "lower" else 1
    measured = [(sign * cell.mean, cell) for cell in cells if cell.mean is not None]
    return max(measured, key=lambda pair: pair[0])[1] if measured else None


def _is_as_good(cell: Cell, best: Cell | None) -> bool:
    """Whether both are equal as written: values that a reader sees as ties share the marks."""
    if cell.mean is None or best is None or best.mean is None:
        return False
    return cell.column.write(cell.mean) == cell.column.write(best.mean)


def _test(cell: Cell, strongest: Cell | None) -> float | None:
    """Return p of the paired test; both cells need the same number of seeds."""
    if strongest is None or len(cell.values) != len(strongest.values):
        return None
    return paired_p(cell.values, strongest.values)

"""Tables of figures: what each row attains over seeds, beside the published value, and which row is best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from gfn4rec.experiments.statistics import mean, paired_p, standard_deviation

SIGNIFICANT: Final = 0.05
BETTER: Final = "*"
WORSE: Final = "†"
NOTHING: Final = "–"  # noqa: RUF001 - a dash of a table's empty cell


@dataclass(frozen=True)
class Column:
    """A metric."""

    key: str
    label: str
    decimals: int = 3
    is_better: Literal["higher", "lower", "none"] = "higher"

    @property
    def heading(self) -> str:
        """The label, with an arrow to the better side."""
        return self.label + {"higher": " ↑", "lower": " ↓", "none": ""}[self.is_better]

    def write(self, value: float) -> str:
        """With the metric's decimals."""
        return f"{value:z.{self.decimals}f}"


@dataclass(frozen=True)
class Row:
    """What one policy, or one variant, has in the columns."""

    label: str
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By column, one per seed, in the same order of seeds in all rows."""
    published: Mapping[str, float] = field(default_factory=dict)
    """By column, what the paper reports."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """By column, a word where there is no figure."""
    is_baseline: bool = True


@dataclass(frozen=True)
class Table:
    """Rows of figures; the name is that of its files and of its place in a page."""

    name: str
    title: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Cell:
    """A row in a column, judged against the others."""

    column: Column
    values: Sequence[float] = ()
    published: float | None = None
    text: str | None = None
    is_best: bool = False
    is_strongest: bool = False
    """Best of the baselines."""
    p: float | None = None
    """Of a row that is no baseline, against the strongest one."""
    is_ahead: bool = False
    """Of the strongest one."""

    @property
    def mean(self) -> float | None:
        """Over seeds."""
        return mean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Over seeds."""
        return standard_deviation(self.values)

    @property
    def mark(self) -> str:
        """Of one that differs from the strongest baseline."""
        if self.p is None or self.p >= SIGNIFICANT:
            return ""
        return BETTER if self.is_ahead else WORSE

    @property
    def difference(self) -> float | None:
        """Ours less the published one."""
        return None if self.mean is None or self.published is None else self.mean - self.published

    @property
    def relative_difference(self) -> float | None:
        """As a share of the published one."""
        return self.difference / abs(self.published) if self.published and self.difference is not None else None

    @property
    def figure(self) -> str:
        """Ours, in words."""
        if self.mean is None:
            return self.text or NOTHING
        spread = "" if self.deviation is None else f" ± {self.column.write(self.deviation)}"
        return self.column.write(self.mean) + spread

    @property
    def paper(self) -> str | None:
        """The published one and how far ours is from it, in words."""
        if self.published is None:
            return None
        share = self.relative_difference
        return f"paper {self.column.write(self.published)}" + ("" if share is None else f" ({share:+z.1%})")


def judge(table: Table) -> list[tuple[Row, list[Cell]]]:
    """Each row with its cells, in the order of the columns."""
    columns = [_judge_column(column, table.rows) for column in table.columns]
    return [(row, [cells[number] for cells in columns]) for number, row in enumerate(table.rows)]


def legend(table: Table) -> str:
    """What the marks of this table mean; only those it has."""
    cells = [cell for _, row in judge(table) for cell in row]
    marks = {
        "bold: best": any(cell.is_best for cell in cells),
        "underlined: strongest baseline": any(cell.is_strongest for cell in cells),
        **{
            f"{mark}: {word} than it, p < {SIGNIFICANT} in a paired t-test": any(cell.mark == mark for cell in cells)
            for mark, word in ((BETTER, "better"), (WORSE, "worse"))
        },
    }
    told = "; ".join([*_seeds(cells), *(mark for mark, is_there in marks.items() if is_there)])
    return f"{told[0].upper()}{told[1:]}." if told else ""


def _seeds(cells: Sequence[Cell]) -> list[str]:
    counts = [len(cell.values) for cell in cells if cell.values]
    least, most = min(counts, default=0), max(counts, default=0)
    if most < 2:
        is_judged = any(cell.is_best for cell in cells)  # else these are facts, which no seed moves
        return ["one seed"] if is_judged else []
    return [f"mean ± standard deviation over {most if least == most else f'{least} to {most}'} seeds"]


def _judge_column(column: Column, rows: Sequence[Row]) -> list[Cell]:
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
    """None where a baseline was not measured, which might have been it."""
    with_figures = [(row, cell) for row, cell in zip(rows, cells, strict=True) if row.values]
    baselines = [cell for row, cell in with_figures if row.is_baseline]
    # Where all are baselines, the strongest is the best, and a second mark would tell nothing.
    if len(baselines) == len(with_figures) or any(cell.mean is None for cell in baselines):
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
    """As far as a reader can see: ties are ties of what is written."""
    if cell.mean is None or best is None or best.mean is None:
        return False
    return cell.column.write(cell.mean) == cell.column.write(best.mean)


def _test(cell: Cell, strongest: Cell | None) -> float | None:
    """Seeds are paired, so both need all of them."""
    if strongest is None or len(cell.values) != len(strongest.values):
        return None
    return paired_p(cell.values, strongest.values)

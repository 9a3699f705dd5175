"""Tables as Markdown, LaTeX, CSV and HTML."""

import csv
import html
import io
import textwrap
from collections.abc import Callable, Sequence
from typing import Literal

from gfn4rec.experiments.report.tables import Cell, Column, Row, Table, legend, mark_cells

CSV_HEADER = (
    "row",
    "column",
    "mean",
    "standard deviation",
    "seeds",
    "published",
    "difference",
    "difference in percent",
    "p",
    "text",
)
_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_|[]"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": "$<$", ">": "$>$", "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--", "†": r"\dag{}"}  # noqa: RUF001
)


_LONG_TEXT = 40  # more characters than this need a column that breaks lines
_LINE_WIDTH = 120


def to_markdown(table: Table) -> str:
    """Write the caption and a table in GitHub's Markdown."""
    title, text = (part.translate(_MARKDOWN) for part in (table.title, _describe(table)))
    lines = [wrap(f"**{title}.** {text}".rstrip()), ""]
    lines.append(_line(["", *(column.heading.translate(_MARKDOWN) for column in table.columns)]))
    lines.append(_line(["---", *("---" if _content(table, column) == "text" else "---:" for column in table.columns)]))
    for row, cells in mark_cells(table):
        label = row.label.translate(_MARKDOWN)
        lines.append(_line([label, *map(_markdown_cell, cells)]))
        if has_paper_row(cells):
            lines.append(_line([f"{label}, paper", *(cell.paper for cell in cells)]))
    return "\n".join(lines) + "\n"


def to_latex(table: Table) -> str:
    """Write a floating table that needs no LaTeX package."""
    caption = f"{table.title}. {_describe(table)}".rstrip().translate(_LATEX)
    head = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", rf"\label{{tab:{table.name}}}"]
    headings = " & ".join(["", *(column.heading.translate(_LATEX) for column in table.columns)])
    alignments = "".join(_latex_alignment(table, column) for column in table.columns)
    labels = _latex_text_column([row.label for row in table.rows])
    body = [rf"\begin{{tabular}}{{{labels}{alignments}}}", r"\hline", rf"{headings} \\".strip(), r"\hline"]
    for row, cells in mark_cells(table):
        label = row.label.translate(_LATEX)
        body.append(" & ".join([label, *map(_latex_cell, cells)]) + r" \\")
        if has_paper_row(cells):
            body.append(" & ".join([f"{label}, paper", *(cell.paper.translate(_LATEX) for cell in cells)]) + r" \\")
    return "\n".join([*head, *body, r"\hline", r"\end{tabular}", r"\end{table}"]) + "\n"


def to_csv(table: Table) -> str:
    """Write one line for each row and column that is not empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for row, cells in mark_cells(table):
        writer.writerows(_csv_line(row, cell) for cell in cells if cell.values or cell.paper or cell.text)
    return buffer.getvalue()


def to_html(table: Table) -> str:
    """Write an HTML fragment: the table in a box that scrolls sideways."""
    name = html.escape(table.name)
    caption = f"<strong>{html.escape(table.title)}.</strong> {html.escape(_describe(table))}"
    headings = "".join(
        f'<th scope="col" class="{_content(table, column)}">{_html_heading(column)}</th>' for column in table.columns
    )
    lines = [
        f'<div class="table" id="table-{name}" role="region" aria-label="{html.escape(table.title)}" tabindex="0">',
        f"<table><caption><span>{caption}</span></caption>",
        f"<thead><tr><td></td>{headings}</tr></thead>",
        "<tbody>",
    ]
    has_baselines = any(row.is_baseline for row in table.rows)  # otherwise there is nothing to set our rows off from
    for row, cells in mark_cells(table):
        group = "ours" if has_baselines and not row.is_baseline else ""
        lines.append(_html_row(table, row.label, group, cells, _html_cell))
        if has_paper_row(cells):
            lines.append(
                _html_row(table, "paper", f"{group} paper".strip(), cells, lambda cell: html.escape(cell.paper))
            )
    return "\n".join([*lines, "</tbody></table>", "</div>"]) + "\n"


def has_paper_row(cells: Sequence[Cell]) -> bool:
    """Whether published values follow in a row of their own."""
    return any(cell.paper for cell in cells)


def wrap(text: str) -> str:
    """Break a paragraph of Markdown into lines."""
    return textwrap.fill(text, _LINE_WIDTH, break_long_words=False, break_on_hyphens=False)


def _describe(table: Table) -> str:
    return " ".join(part for part in (table.caption, legend(table)) if part)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    text = cell.ours.translate(_MARKDOWN)
    text = f"**{text}**" if cell.is_best else text
    text = f"<u>{text}</u>" if cell.is_strongest else text
    return text + cell.mark.translate(_MARKDOWN)


def _latex_cell(cell: Cell) -> str:
    text = cell.ours.translate(_LATEX)
    text = rf"\textbf{{{text}}}" if cell.is_best else text
    text = rf"\underline{{{text}}}" if cell.is_strongest else text
    return text + (f"$^{{{cell.mark.translate(_LATEX)}}}$" if cell.mark else "")


def _content(table: Table, column: Column) -> Literal["number", "text"]:
    """Say what a column holds: numbers are aligned right, texts left; a text among numbers is aligned with them."""
    has_numbers = any(row.values.get(column.key) for row in table.rows)
    return "text" if not has_numbers and any(column.key in row.texts for row in table.rows) else "number"


def _latex_alignment(table: Table, column: Column) -> str:
    """Return the column specification; long texts get a column that breaks lines."""
    texts = _latex_text_column([row.texts.get(column.key, "") for row in table.rows])
    return "r" if texts == "l" and _content(table, column) == "number" else texts


def _latex_text_column(texts: Sequence[str]) -> str:
    return r"p{0.4\textwidth}" if max(map(len, texts), default=0) > _LONG_TEXT else "l"


def _html_row(table: Table, label: str, classes: str, cells: Sequence[Cell], write: Callable[[Cell], str]) -> str:
    attribute = f' class="{classes}"' if classes else ""
    entries = "".join(f'<td class="{_content(table, cell.column)}">{write(cell)}</td>' for cell in cells)
    return f'<tr{attribute}><th scope="row">{html.escape(label)}</th>{entries}</tr>'


def _html_heading(column: Column) -> str:
    """Return the heading with its arrow kept on the line of the last word."""
    return html.escape(column.heading).replace(" ↑", "&nbsp;↑").replace(" ↓", "&nbsp;↓")


def _html_cell(cell: Cell) -> str:
    text = html.escape(cell.ours)
    text = f"<strong>{text}</strong>" if cell.is_best else text
    text = f"<u>{text}</u>" if cell.is_strongest else text
    return text + (f"<sup>{cell.mark}</sup>" if cell.mark else "")


def _csv_line(row: Row, cell: Cell) -> list[str]:
    relative = cell.relative_difference
    numbers = (
        cell.mean,
        cell.deviation,
        len(cell.values),
        cell.published,
        cell.difference,
        None if relative is None else 100 * relative,
        cell.p,
    )
    written = ("" if number is None else f"{number:.6g}" for number in numbers)
    return [row.label, cell.column.key, *written, cell.text or ""]

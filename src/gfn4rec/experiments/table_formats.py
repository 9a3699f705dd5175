"""A table as Markdown, LaTeX, CSV and HTML."""

import csv
import html
import io
from collections.abc import Sequence

from gfn4rec.experiments.tables import Cell, Column, Row, Table, judge, legend

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


_SENTENCE = 40  # more letters than that do not stay on one line


def to_markdown(table: Table) -> str:
    """A caption and a table as GitHub shows them."""
    title, text = (part.translate(_MARKDOWN) for part in (table.title, _text(table)))
    lines = [f"**{title}.** {text}".rstrip(), ""]
    lines.append(_line(["", *(column.heading.translate(_MARKDOWN) for column in table.columns)]))
    lines.append(_line(["---", *("---" if _kind(table, column) == "word" else "---:" for column in table.columns)]))
    for row, cells in judge(table):
        lines.append(_line([row.label.translate(_MARKDOWN), *map(_markdown_cell, cells)]))
    return "\n".join(lines) + "\n"


def to_latex(table: Table) -> str:
    """A floating table that needs no package."""
    caption = f"{table.title}. {_text(table)}".rstrip().translate(_LATEX)
    head = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", rf"\label{{tab:{table.name}}}"]
    headings = " & ".join(["", *(column.heading.translate(_LATEX) for column in table.columns)])
    places = "".join(_latex_place(table, column) for column in table.columns)
    labels = _latex_words([row.label for row in table.rows])
    body = [rf"\begin{{tabular}}{{{labels}{places}}}", r"\hline", rf"{headings} \\".strip(), r"\hline"]
    for row, cells in judge(table):
        body.append(" & ".join([row.label.translate(_LATEX), *map(_latex_cell, cells)]) + r" \\")
    return "\n".join([*head, *body, r"\hline", r"\end{tabular}", r"\end{table}"]) + "\n"


def to_csv(table: Table) -> str:
    """One line for each row and column that says something."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for row, cells in judge(table):
        writer.writerows(_csv_line(row, cell) for cell in cells if cell.values or cell.paper or cell.text)
    return buffer.getvalue()


def to_html(table: Table) -> str:
    """A fragment: a box that scrolls sideways by itself, with the table in it."""
    name = html.escape(table.name)
    caption = f"<strong>{html.escape(table.title)}.</strong> {html.escape(_text(table))}"
    headings = "".join(
        f'<th scope="col" class="{_kind(table, column)}">{html.escape(column.heading)}</th>' for column in table.columns
    )
    lines = [
        f'<div class="table" id="table-{name}" role="region" aria-label="{html.escape(table.title)}" tabindex="0">',
        f"<table><caption><span>{caption}</span></caption>",
        f"<thead><tr><td></td>{headings}</tr></thead>",
        "<tbody>",
    ]
    for row, cells in judge(table):
        kind = "" if row.is_baseline else ' class="ours"'
        label = f'<th scope="row">{html.escape(row.label)}</th>'
        lines.append(f"<tr{kind}>{label}{''.join(_html_cell(table, cell) for cell in cells)}</tr>")
    return "\n".join([*lines, "</tbody></table>", "</div>"]) + "\n"


def _text(table: Table) -> str:
    return " ".join(part for part in (table.caption, legend(table)) if part)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    figure = cell.figure.translate(_MARKDOWN)
    figure = f"**{figure}**" if cell.is_best else figure
    figure = f"<u>{figure}</u>" if cell.is_strongest else figure
    mark = cell.mark.translate(_MARKDOWN)
    return figure + mark + (f"<br><sub>{cell.paper}</sub>" if cell.paper else "")


def _latex_cell(cell: Cell) -> str:
    figure = cell.figure.translate(_LATEX)
    figure = rf"\textbf{{{figure}}}" if cell.is_best else figure
    figure = rf"\underline{{{figure}}}" if cell.is_strongest else figure
    mark = f"$^{{{cell.mark.translate(_LATEX)}}}$" if cell.mark else ""
    return figure + mark + (rf" {{\footnotesize {cell.paper.translate(_LATEX)}}}" if cell.paper else "")


def _kind(table: Table, column: Column) -> str:
    """Figures stand right, words left; a word among figures stands with them."""
    has_figures = any(row.values.get(column.key) for row in table.rows)
    return "word" if not has_figures and any(column.key in row.texts for row in table.rows) else "figure"


def _latex_place(table: Table, column: Column) -> str:
    """Figures stand right, words left, sentences in a box that breaks them."""
    words = _latex_words([row.texts.get(column.key, "") for row in table.rows])
    return "r" if words == "l" and _kind(table, column) == "figure" else words


def _latex_words(texts: Sequence[str]) -> str:
    return r"p{0.4\textwidth}" if max(map(len, texts), default=0) > _SENTENCE else "l"


def _html_cell(table: Table, cell: Cell) -> str:
    figure = html.escape(cell.figure)
    figure = f"<strong>{figure}</strong>" if cell.is_best else figure
    figure = f"<u>{figure}</u>" if cell.is_strongest else figure
    mark = f"<sup>{cell.mark}</sup>" if cell.mark else ""
    paper = f"<small>{html.escape(cell.paper)}</small>" if cell.paper else ""
    return f'<td class="{_kind(table, cell.column)}">{figure}{mark}{paper}</td>'


def _csv_line(row: Row, cell: Cell) -> list[str]:
    share = cell.relative_difference
    figures = (
        cell.mean,
        cell.deviation,
        len(cell.values),
        cell.published,
        cell.difference,
        None if share is None else 100 * share,
        cell.p,
    )
    written = ("" if figure is None else f"{figure:.6g}" for figure in figures)
    return [row.label, cell.column.key, *written, cell.text or ""]

import csv
import html
import io
from dataclasses import replace
from typing import Literal

import pytest

from gfn4rec.experiments.report.table_formats import to_csv, to_html, to_latex, to_markdown
from gfn4rec.experiments.report.tables import Cell, Column, Row, Table, legend, mark_cells

REWARD = Column("reward", "Reward", decimals=2)
SMALL = Table(
    "small_table",
    "Small & neat",
    "100% of it.",
    [REWARD, Column("verdict", "Verdict", is_better="none")],
    [
        Row("A_1", {"reward": [1.0, 3.0]}, {"reward": 1.6}, {"verdict": "a < b"}),
        Row("B", {"reward": [4.0, 4.0]}, is_baseline=False),
    ],
)


def judged(column: Column, **rows: tuple[bool, list[float]]) -> dict[str, Cell]:
    """One column of rows, each a baseline or not, with its seeds."""
    made = [Row(label, {column.key: seeds}, is_baseline=is_baseline) for label, (is_baseline, seeds) in rows.items()]
    return {row.label: cells[0] for row, cells in mark_cells(Table("t", "T", "", [column], made))}


def test_markdown_of_a_small_table() -> None:
    assert to_markdown(SMALL) == (
        "**Small &amp; neat.** 100% of it. Mean ± standard deviation over 2 seeds; bold: best; "
        "underlined: strongest baseline; in\n"
        "brackets: our difference from the paper.\n"
        "\n"
        "|  | Reward ↑ | Verdict |\n"
        "| --- | ---: | --- |\n"
        "| A\\_1 | <u>2.00 ± 1.41</u> | a &lt; b |\n"
        "| A\\_1, paper | 1.60 (+25.0%) |  |\n"
        "| B | **4.00 ± 0.00** | – |\n"  # noqa: RUF001
    )


def test_latex_of_a_small_table() -> None:
    assert to_latex(SMALL) == (
        "\\begin{table}\n"
        "\\centering\n"
        "\\caption{Small \\& neat. 100\\% of it. Mean $\\pm$ standard deviation over 2 seeds; bold: best; "
        "underlined: strongest baseline; in brackets: our difference from the paper.}\n"
        "\\label{tab:small_table}\n"
        "\\begin{tabular}{lrl}\n"
        "\\hline\n"
        "& Reward $\\uparrow$ & Verdict \\\\\n"
        "\\hline\n"
        "A\\_1 & \\underline{2.00 $\\pm$ 1.41} & a $<$ b \\\\\n"
        "A\\_1, paper & 1.60 (+25.0\\%) &  \\\\\n"
        "B & \\textbf{4.00 $\\pm$ 0.00} & -- \\\\\n"
        "\\hline\n"
        "\\end{tabular}\n"
        "\\end{table}\n"
    )


def test_csv_of_a_small_table() -> None:
    assert to_csv(SMALL) == (
        "row,column,mean,standard deviation,seeds,published,difference,difference in percent,p,text\n"
        "A_1,reward,2,1.41421,2,1.6,0.4,25,,\n"
        "A_1,verdict,,,0,,,,,a < b\n"
        "B,reward,4,0,2,,,,,\n"
    )


def test_html_of_a_small_table() -> None:
    text = to_html(SMALL)
    assert "<strong>Small &amp; neat.</strong> 100% of it." in text
    assert '<th scope="col" class="number">Reward&nbsp;↑</th><th scope="col" class="text">Verdict</th>' in text
    assert '<td class="number"><u>2.00 ± 1.41</u></td><td class="text">a &lt; b</td>' in text
    paper = '<tr class="paper"><th scope="row">paper</th><td class="number">1.60 (+25.0%)</td><td class="text"></td>'
    assert paper in text
    assert '<tr class="ours"><th scope="row">B</th><td class="number"><strong>4.00 ± 0.00</strong></td>' in text


def test_long_texts_are_broken_and_a_text_among_numbers_is_aligned_with_them() -> None:
    columns = [REWARD, Column("note", "Note", is_better="none")]
    rows = [Row("A", {"reward": [1.0]}, texts={"note": "word " * 9}), Row("B", texts={"reward": "none"})]
    table = Table("t", "T", "", columns, rows)
    assert r"\begin{tabular}{lrp{0.4\textwidth}}" in to_latex(table)
    assert "| --- | ---: | --- |" in to_markdown(table)


def test_one_seed_has_no_deviation() -> None:
    table = replace(SMALL, rows=[Row("A", {"reward": [2.0]}), Row("B", {"reward": [1.0]})])
    assert "| A | **2.00** |" in to_markdown(table)
    assert "±" not in to_markdown(table)
    assert legend(table) == "One seed; bold: best."


def test_the_better_side_is_the_columns_own() -> None:
    rows = {"low": (True, [1.0]), "high": (False, [2.0])}
    assert judged(REWARD, **rows)["high"].is_best
    assert not judged(REWARD, **rows)["low"].is_best
    lower = judged(replace(REWARD, is_better="lower"), **rows)
    assert lower["low"].is_best
    assert not lower["high"].is_best
    neither = judged(replace(REWARD, is_better="none"), **rows)
    assert not any(cell.is_best or cell.is_strongest for cell in neither.values())


def test_the_strongest_baseline_of_a_column_where_lower_is_better() -> None:
    cells = judged(replace(REWARD, is_better="lower"), weak=(True, [3.0]), strong=(True, [2.0]), ours=(False, [1.0]))
    assert [cell.is_strongest for cell in cells.values()] == [False, True, False]


def test_values_that_are_written_alike_share_the_marks() -> None:
    cells = judged(REWARD, a=(True, [2.001]), b=(True, [2.004]), c=(True, [1.99]), ours=(False, [2.0]))
    assert [cell.is_best for cell in cells.values()] == [True, True, False, True]
    assert [cell.is_strongest for cell in cells.values()] == [True, True, False, False]


def test_baselines_alone_are_not_underlined() -> None:
    assert not any(cell.is_strongest for cell in judged(REWARD, a=(True, [2.0]), b=(True, [1.0])).values())


SEEDS = [1.0, 1.1, 0.9, 1.05, 0.95]
MORE = [1.31, 1.39, 1.2, 1.36, 1.25]


def test_a_star_needs_five_seeds_and_the_strongest_baseline() -> None:
    weak = [0.5, 0.6, 0.4, 0.5, 0.5]
    near = [1.01, 1.09, 0.92, 1.03, 0.95]
    cells = judged(REWARD, weak=(True, weak), strong=(True, SEEDS), ours=(False, MORE), near=(False, near))
    assert [cell.mark for cell in cells.values()] == ["", "", "*", ""]
    assert cells["near"].p is not None  # compared with the strong one: against the weak one it would have a star
    assert cells["weak"].p is None
    four = judged(REWARD, strong=(True, SEEDS[:4]), ours=(False, MORE[:4]))
    assert four["ours"].p is None


def test_a_row_with_other_seeds_is_not_tested() -> None:
    assert judged(REWARD, strong=(True, SEEDS), ours=(False, [*MORE, 1.3]))["ours"].p is None


def test_the_star_in_each_format() -> None:
    rows = [Row("strong", {"reward": SEEDS}), Row("ours", {"reward": MORE}, is_baseline=False)]
    table = Table("t", "T", "", [REWARD], rows)
    assert r"| ours | **1.30 ± 0.08**\* |" in to_markdown(table)
    assert r"ours & \textbf{1.30 $\pm$ 0.08}$^{*}$ \\" in to_latex(table)
    assert "<strong>1.30 ± 0.08</strong><sup>*</sup>" in to_html(table)
    (line,) = [line for line in csv.DictReader(io.StringIO(to_csv(table))) if line["row"] == "ours"]
    assert float(line["p"]) < 0.001
    assert legend(table).endswith("; *: better than the strongest baseline (paired t-test, p < 0.05).")


@pytest.mark.parametrize(("is_better", "strong", "ours"), [("higher", MORE, SEEDS), ("lower", SEEDS, MORE)])
def test_the_dagger_of_what_is_worse(
    is_better: Literal["higher", "lower"], strong: list[float], ours: list[float]
) -> None:
    rows = [Row("strong", {"reward": strong}), Row("ours", {"reward": ours}, is_baseline=False)]
    table = Table("t", "T", "", [replace(REWARD, is_better=is_better)], rows)
    written = f"{sum(ours) / 5:.2f} ± 0.08"
    assert f"| ours | {written}† |" in to_markdown(table)
    assert r"$^{\dag{}}$ \\" in to_latex(table)
    assert f"{written}<sup>†</sup>" in to_html(table)
    assert legend(table).endswith("strongest baseline; †: worse than the strongest baseline (paired t-test, p < 0.05).")


def test_where_a_baseline_is_missing_none_is_called_the_strongest() -> None:
    weak = Row("weak", {"reward": [0.5, 0.6, 0.4, 0.5, 0.5]})
    ours = Row("ours", {"reward": MORE}, is_baseline=False)
    elsewhere, text = Row("elsewhere", {"other": SEEDS}), Row("text", texts={"reward": "many"})
    for rows, is_known in (((weak, ours, text), True), ((weak, ours, text, elsewhere), False)):
        (of_weak,), (of_ours,), *_ = (cells for _, cells in mark_cells(Table("t", "T", "", [REWARD], rows)))
        assert (of_weak.is_strongest, of_ours.p is not None) == (is_known, is_known)
        assert of_ours.is_best


def test_long_labels_are_broken_in_latex() -> None:
    table = Table("t", "T", "", [REWARD], [Row("word " * 9, {"reward": [1.0]})])
    assert r"\begin{tabular}{p{0.4\textwidth}r}" in to_latex(table)


def test_best_and_strongest_is_both() -> None:
    rows = [Row("base", {"reward": [2.0]}), Row("ours", {"reward": [1.0]}, is_baseline=False)]
    table = Table("t", "T", "", [REWARD], rows)
    assert "<u>**2.00**</u>" in to_markdown(table)
    assert r"\underline{\textbf{2.00}}" in to_latex(table)
    assert "<u><strong>2.00</strong></u>" in to_html(table)


@pytest.mark.parametrize(
    ("seeds", "published", "text"),
    [
        ([1.5], 2.0, "2.00 (-25.0%)"),
        ([1.0], -2.0, "-2.00 (+150.0%)"),
        ([1.0], 0.0, "0.00"),
        ([1.99999], 2.0, "2.00 (+0.0%)"),
        ([], 2.0, "2.00"),
    ],
)
def test_the_published_value_and_the_difference(seeds: list[float], published: float, text: str) -> None:
    assert Cell(REWARD, seeds, published).paper == text


def test_what_was_not_measured_is_a_dash() -> None:
    assert Cell(REWARD, (), 2.0).ours == "–"  # noqa: RUF001
    assert Cell(REWARD, (), 2.0).difference is None


def test_missing_seeds_are_mentioned() -> None:
    table = Table("t", "T", "", [REWARD], [Row("a", {"reward": [1.0, 2.0]}), Row("b", {"reward": [1.0, 2.0, 3.0]})])
    assert legend(table).startswith("Mean ± standard deviation over 2 to 3 seeds")


def test_signs_are_escaped_everywhere() -> None:
    signs = r"a_b & 5% <i> {x} $1 #2 ~ ^ \n *|"
    table = Table("t", signs, signs, [Column("c", signs, is_better="none")], [Row(signs, texts={"c": signs})])
    markdown = r"a\_b &amp; 5% &lt;i&gt; {x} $1 #2 ~ ^ \\n \*\|"
    assert to_markdown(table).count(markdown) == 5
    latex = r"a\_b \& 5\% $<$i$>$ \{x\} \$1 \#2 \textasciitilde{} \textasciicircum{} \textbackslash{}n *|"
    assert to_latex(table).count(latex) == 5
    assert to_html(table).count(html.escape(signs)) == 6  # the box has the title as its label too
    assert "<i>" not in to_html(table)


def test_rows_of_a_table_without_baselines_are_not_set_off() -> None:
    rows = [Row("A", {"reward": [1.0]}, is_baseline=False), Row("B", {"reward": [2.0]}, is_baseline=False)]
    assert 'class="ours"' not in to_html(Table("t", "T", "", [REWARD], rows))

"""Tables of held-out metrics: of results that have them, and of older ones."""

from gfn4rec.experiments.paper import comparisons, frontiers
from gfn4rec.experiments.report.table_formats import to_markdown
from gfn4rec.metrics import metrics_of
from tests.experiments.book import Book, cell


def test_held_out_metrics_stand_beside_references(book: Book) -> None:
    book.held_out["offline", "CF"] = {"greedy": {"recall": 0.02}, "popularity": {"recall": 0.03, "rare_share": 0.25}}
    table = comparisons.offline_held_out_table(book.results())
    assert [row.label for row in table.rows][-2:] == ["Popularity", "Random"]
    assert [column.key for column in table.columns] == [metric.key for metric in metrics_of("held_out")]
    assert cell(table, "CF", "recall") == (0.02, 0.02)
    assert cell(table, "Popularity", "recall") == (0.03, 0.03)
    assert cell(table, "PRM", "recall") is None
    lines = to_markdown(table).splitlines()
    (popularity,) = [line for line in lines if line.startswith("| Popularity ")]
    assert "| **0.250 ± 0.000** |" in popularity


def test_results_without_held_out_metrics_show_dashes(book: Book) -> None:
    """Results that were committed before there were such metrics are used as they are."""
    for table in (comparisons.online_held_out_table(book.results()), frontiers.fair_held_out_table(book.results())):
        rows = [line for line in to_markdown(table).splitlines() if line.startswith("| ")][2:]
        assert len(rows) == len(table.rows)
        assert all(line.count("| – ") == 9 for line in rows)  # noqa: RUF001 - the dash of an empty cell

"""What every row of the table of metrics promises; a new row is covered unedited."""

import inspect
import subprocess
import sys
from types import ModuleType

import pytest

from gfn4rec.evaluation import held_out, oracle, ranking, slates
from gfn4rec.metrics import METRICS, Group, Metric, by_authors_rule, metrics_of
from tests.conftest import REPOSITORY

MODULES: dict[Group, ModuleType] = {"slates": slates, "ranking": ranking, "oracle": oracle, "held_out": held_out}


def functions(module: ModuleType) -> list[str]:
    """Return the public functions that a module defines."""
    return [
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    ]


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_row_has_a_function_of_its_name(metric: Metric) -> None:
    assert metric.key in functions(MODULES[metric.group])
    assert METRICS[metric.key] is metric


@pytest.mark.parametrize("group", ["slates", "ranking", "held_out"])
def test_a_function_has_a_row_of_its_name(group: Group) -> None:
    assert sorted(functions(MODULES[group])) == sorted(metric.key for metric in metrics_of(group))


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_row_stands_in_the_docs(metric: Metric) -> None:
    key = f"{metric.key}_<behaviour>" if metric.is_per_behaviour else metric.key
    better = "–" if metric.better == "none" else metric.better  # noqa: RUF001 - a dash of a table's empty cell
    text = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
    assert f"\n| {metric.label} | `{key}` | {better} | {metric.meaning} |\n" in text


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_meaning_is_one_sentence(metric: Metric) -> None:
    assert metric.meaning[0].isupper()
    assert metric.meaning.endswith(".")
    assert "|" not in metric.meaning + metric.label
    assert metric.authors_rule is None or METRICS[metric.authors_rule].group == metric.group


def test_values_as_text() -> None:
    assert METRICS["reward"].write(-0.0001) == "0.000"
    assert METRICS["coverage"].write(12.34) == "12.3"
    assert METRICS["oracle_share"].write(0.9876) == "98.8%"


def test_the_authors_rule_replaces_ranking_metrics_only() -> None:
    row = dict.fromkeys(METRICS, 0.0) | {"ild_reference": 1.0, "r_ndcg_unsorted": 2.0, "r_mrr_unsorted": 3.0}
    assert by_authors_rule(row) == row | {"r_ndcg": 2.0, "r_mrr": 3.0}


def test_the_table_needs_no_torch() -> None:
    code = "import sys, gfn4rec.metrics; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

"""A new metric costs one function and one row: evaluation, command line, curves and tables then have it."""

from pathlib import Path

import pytest
from torch import Tensor

from gfn4rec.cli.metrics import print_metrics
from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation import ranking, slates
from gfn4rec.evaluation.protocol import evaluate_in_simulator, evaluate_on_log
from gfn4rec.evaluation.slates import ShownSlates
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.execute import execute
from gfn4rec.experiments.paper import comparisons, figures
from gfn4rec.metrics import METRICS, Metric
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Sampling
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from tests.experiments.book import Book, cell
from tests.experiments.conftest import small_job
from tests.simulator.conftest import FixedUsers

WORST = Metric("worst_reward", "slates", "Worst reward", 2, "lower", "Smallest reward of a slate of a batch.")
BIASED = Metric("bias", "ranking", "Bias", 1, "none", "Mean difference of score and reward.")


def worst_reward(shown: ShownSlates) -> float:
    return float(shown.feedback.reward_B.min())


def bias(score_BK: Tensor, reward_BK: Tensor) -> float:
    return float((score_BK - reward_BK).mean())


@pytest.fixture(autouse=True)
def _new_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    for metric, module, function in ((WORST, slates, worst_reward), (BIASED, ranking, bias)):
        monkeypatch.setitem(METRICS, metric.key, metric)
        monkeypatch.setattr(module, metric.key, function, raising=False)


def test_evaluation_and_command_line_have_it(data: SlateData, capsys: pytest.CaptureFixture[str]) -> None:
    environment = UserEnvironment(data, FixedUsers(data), EnvironmentConfig(num_users=32, rho=0.0), seed=0)
    policy = build_policy("popularity", Catalogue.of(data))
    row = evaluate_in_simulator(policy, environment, Sampling(), 2, seed=1)
    assert row["worst_reward"] < row["reward"]
    assert "bias" in row
    assert "bias" in evaluate_on_log(policy, data, batch_size=32)
    print_metrics({"greedy": row})
    heading, line, *_ = capsys.readouterr().out.splitlines()
    assert "Worst reward" in heading
    assert "Bias" in heading
    assert f"{row['worst_reward']:.2f}" in line.split()


def test_tables_have_it_where_it_was_measured(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    book.greedy["online", "CF"] = book.greedy["offline", "GFN4Rec"] = {"worst_reward": 0.25, "bias": -1.5}
    table = comparisons.online_table(book.results())
    assert "Worst reward ↓" in [column.heading for column in table.columns]
    assert cell(table, "CF", "worst_reward") == (0.25, 0.25)
    balance = comparisons.balance_table(book.results())
    assert cell(balance, "TB", "bias") == (-1.5, -1.5)
    labels = [column.label for column in balance.columns]
    assert "Bias" in labels
    assert "Bias (test)" not in labels
    book.test["offline", "GFN4Rec"] = {"bias": 0.5}
    assert "Bias (test)" in [column.label for column in comparisons.balance_table(book.results()).columns]
    last = comparisons.last_steps_table(book.results())
    assert "worst_reward" not in [column.key for column in last.columns]  # nobody has measured it
    drawn: dict[str, str] = {}
    monkeypatch.setattr(figures, "plot_curves", lambda _, metrics: drawn.update(metrics))
    figures.curves_figure(book.results())
    assert "worst_reward" not in drawn
    book.curve["online", "GFN4Rec"] = [({"worst_reward": 0.1}, {"worst_reward": 0.2})]
    figures.curves_figure(book.results())
    assert drawn["worst_reward"] == "Worst reward"


def test_runs_have_it(benchmark: Benchmark, tmp_path: Path) -> None:
    result = execute(small_job(), benchmark, tmp_path)
    assert result is not None
    assert {"worst_reward", "bias"} <= set(result.metrics["greedy"])
    assert "worst_reward" in (result.last_steps or {})
    assert all("worst_reward" in point.greedy for point in result.curve)

"""Results of all models, with metrics that a test sets."""

from collections.abc import Sequence
from typing import Any

from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.evaluation.frontier import FrontierPoint
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.result import CurvePoint, JobResult
from gfn4rec.experiments.paper.models import MODELS
from gfn4rec.experiments.paper.protocol import BUDGETS, Need, Protocol
from gfn4rec.experiments.paper.published import published_for
from gfn4rec.experiments.paper.results import Results
from gfn4rec.experiments.report.tables import Table

SEEDS = (0, 1)


def oracle_point(sampler: str, coverage: float, reward: float) -> FrontierPoint:
    return FrontierPoint(sampler, None, reward, 0.1, coverage, 0.9, 0.8, 0.0)


class Book:
    """Results of all models: metrics as a test sets them, the same for all seeds."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark, self.protocol = benchmark, Protocol(BUDGETS["paper"], num_seeds=len(SEEDS))
        self.greedy: dict[Need, dict[str, float]] = {}
        self.sampled: dict[Need, dict[str, float]] = {}
        self.test: dict[Need, dict[str, float]] = {}
        self.curve: dict[Need, list[tuple[dict[str, float], dict[str, float]]]] = {}
        self.curve_by_seed: dict[Need, list[list[tuple[dict[str, float], dict[str, float]]]]] = {}
        self.steps: dict[Need, Sequence[int]] = {}  # of the evaluations
        self.seconds: dict[Need, float] = {}
        self.oracle: list[FrontierPoint] = []
        self.by_seed: dict[Need, list[dict[str, float]]] = {}
        self.last_steps: dict[Need, dict[str, float]] = {}
        self.has_test = True
        self.held_out: dict[Need, dict[str, dict[str, float]]] = {}

    def results(self, published: str = "ml-1m") -> Results:
        needs: list[Need] = [(mode, model) for mode in ("online", "offline") for model in MODELS]
        runs = {need: [self._run(need, seed) for seed in SEEDS] for need in needs}
        paper = published_for(published, PrepareConfig())
        return Results(self.benchmark, self.protocol, runs, self.oracle, paper)

    def _greedy(self, need: Need, seed: int) -> dict[str, float]:
        return self.by_seed[need][seed] if need in self.by_seed else self.greedy.get(need, {})

    def _run(self, need: Need, seed: int) -> JobResult:
        base = {
            "reward": 1.0,
            "expected_reward": 1.0,
            "max_reward": 2.0,
            "coverage": 10.0,
            "ild": 0.5,
            "r_ndcg": 0.4,
            "r_mrr": 0.04,
        }
        points = self.curve.get(need, [(base, base), (base, base)])
        if need in self.curve_by_seed:
            points = self.curve_by_seed[need][seed]
        return JobResult(
            key=f"{need} {seed}",
            job=self.protocol.jobs(need)[seed],
            data="made up",
            simulator="none",
            step=1000,
            seconds=self.seconds.get(need, 100.0) + seed,
            last_steps=base | self.last_steps.get(need, {}),
            metrics={"greedy": base | self._greedy(need, seed), "T=1": base | self.sampled.get(need, {})},
            test={"r_ndcg": 0.3, "r_mrr": 0.03} | self.test.get(need, {}) if self.has_test else None,
            held_out=self.held_out.get(need),
            curve=tuple(
                CurvePoint(step=number, greedy=base | one, sampled=base | other)
                for number, (one, other) in zip(self.steps.get(need, range(len(points))), points, strict=True)
            ),
        )


def cell(table: Table, label: str, column: str) -> Any:
    """Return the values or the text in a row and a column."""
    (row,) = [row for row in table.rows if row.label == label]
    return row.values.get(column, row.texts.get(column))

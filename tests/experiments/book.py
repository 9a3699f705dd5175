"""Figures of all models, to be written in by a test."""

from collections.abc import Sequence
from typing import Any

from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.experiments.findings import Findings
from gfn4rec.experiments.models import MODELS
from gfn4rec.experiments.outcome import CurvePoint, Outcome
from gfn4rec.experiments.protocol import BUDGETS, Need, Protocol
from gfn4rec.experiments.published import published_for
from gfn4rec.experiments.tables import Table
from gfn4rec.experiments.world import World

SEEDS = (0, 1)


class Book:
    """Outcomes of all models: reward, coverage and so on as they are written in, the same for all seeds."""

    def __init__(self, world: World) -> None:
        self.world, self.protocol = world, Protocol(BUDGETS["paper"], num_seeds=len(SEEDS))
        self.greedy: dict[Need, dict[str, float]] = {}
        self.sampled: dict[Need, dict[str, float]] = {}
        self.test: dict[Need, dict[str, float]] = {}
        self.curve: dict[Need, list[tuple[dict[str, float], dict[str, float]]]] = {}
        self.curve_by_seed: dict[Need, list[list[tuple[dict[str, float], dict[str, float]]]]] = {}
        self.steps: dict[Need, Sequence[int]] = {}  # of the looks
        self.seconds: dict[Need, float] = {}
        self.ruler: list[dict[str, Any]] = []
        self.by_seed: dict[Need, list[dict[str, float]]] = {}
        self.last_steps: dict[Need, dict[str, float]] = {}
        self.has_test = True

    def findings(self, published: str = "ml-1m") -> Findings:
        needs: list[Need] = [(kind, model) for kind in ("online", "offline") for model in MODELS]
        outcomes = {need: [self._outcome(need, seed) for seed in SEEDS] for need in needs}
        return Findings(self.world, self.protocol, outcomes, self.ruler, published_for(published, PrepareConfig()))

    def _greedy(self, need: Need, seed: int) -> dict[str, float]:
        return self.by_seed[need][seed] if need in self.by_seed else self.greedy.get(need, {})

    def _outcome(self, need: Need, seed: int) -> Outcome:
        base = {
            "reward": 1.0,
            "expected_reward": 1.0,
            "max_reward": 2.0,
            "coverage": 10.0,
            "ild": 0.5,
            "r_ndcg": 0.4,
            "r_mrr": 0.04,
        }
        looks = self.curve.get(need, [(base, base), (base, base)])
        if need in self.curve_by_seed:
            looks = self.curve_by_seed[need][seed]
        return Outcome(
            key=f"{need} {seed}",
            job=self.protocol.jobs(need)[seed],
            data="made up",
            simulator="none",
            step=1000,
            seconds=self.seconds.get(need, 100.0) + seed,
            last_steps=base | self.last_steps.get(need, {}),
            figures={"greedy": base | self._greedy(need, seed), "T=1": base | self.sampled.get(need, {})},
            test={"r_ndcg": 0.3, "r_mrr": 0.03} | self.test.get(need, {}) if self.has_test else None,
            curve=tuple(
                CurvePoint(step=number, greedy=base | one, sampled=base | other)
                for number, (one, other) in zip(self.steps.get(need, range(len(looks))), looks, strict=True)
            ),
        )


def cell(table: Table, label: str, column: str) -> Any:
    """What a table has in a row and a column."""
    (row,) = [row for row in table.rows if row.label == label]
    return row.values.get(column, row.texts.get(column))

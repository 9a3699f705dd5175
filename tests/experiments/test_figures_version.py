"""A change that moves metrics raises `CODE_VERSION`; otherwise results of earlier code would be taken for new ones."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.execute import execute
from gfn4rec.experiments.jobs.job import CODE_VERSION
from gfn4rec.training.config import Mode
from tests.experiments.conftest import small_job


class Case(NamedTuple):
    """A policy with some settings."""

    policy: str
    mode: Mode
    changes: tuple[tuple[str, Any], ...] = ()


METRICS = ("expected_reward", "ild", "r_ndcg")  # greedy, then sampled; then R-NDCG on the log
KNOWN: dict[int, dict[Case, tuple[float, ...]]] = {
    1: {
        Case("gfn", "online"): (0.2653, 0.2053, 0.3699, 0.2606, 0.2031, 0.1885, 0.2772),
        Case("gfn", "online", (("objective", "db"),)): (0.2651, 0.2129, 0.4128, 0.2585, 0.2167, 0.2931, 0.2486),
        Case("cf", "online", (("temperature", 0.0),)): (0.2346, 0.2890, 0.1833, 0.2503, 0.3283, 0.2576, 0.1668),
        Case("list-cvae", "online"): (0.2484, 0.4167, 0.2036, 0.2462, 0.3086, 0.1801, 0.3161),
        Case("cf", "offline"): (0.2070, 0.2701, 0.1202, 0.2474, 0.3357, 0.2887, 0.2958),
        Case("gfn", "offline"): (0.1109, 0.2898, 0.0902, 0.1810, 0.3841, 0.0919, 0.2503),
        Case("list-cvae", "offline"): (0.2449, 0.3589, 0.3263, 0.2418, 0.3156, 0.2202, 0.3732),
        Case("rerank-cf", "offline"): (0.1492, 0.2996, 0.1491, 0.2222, 0.3474, 0.1160, 0.4103),
        Case("prm", "offline"): (0.1491, 0.3162, 0.1557, 0.2233, 0.3570, 0.1191, 0.3625),
        Case("prm", "offline", (("others", "ranked"),)): (0.1798, 0.3664, 0.0982, 0.2322, 0.3425, 0.2384, 0.3576),
    }
}


@pytest.mark.parametrize("case", list(KNOWN[CODE_VERSION]), ids=str)
def test_metrics_are_those_of_this_version(benchmark: Benchmark, tmp_path: Path, case: Case) -> None:
    result = execute(small_job(case.policy, case.mode, **dict(case.changes)), benchmark, tmp_path)
    assert result is not None
    assert result.test is not None
    measured = [result.metrics[way][name] for way in ("greedy", "T=1") for name in METRICS] + [result.test["r_ndcg"]]
    known = KNOWN[CODE_VERSION][case]
    assert measured == pytest.approx(known, rel=0.03), "metrics have moved: raise CODE_VERSION, write the new ones here"

"""A change that moves what is measured raises `CODE_VERSION`, or outcomes of before would be taken for those of now."""

from pathlib import Path

import pytest

from gfn4rec.experiments.execute import execute
from gfn4rec.experiments.job import CODE_VERSION
from gfn4rec.experiments.world import World
from gfn4rec.training.config import Kind
from tests.experiments.conftest import small_job

METRICS = ("expected_reward", "ild", "r_ndcg")  # greedy, then sampled; then R-NDCG on the log
KNOWN: dict[int, dict[tuple[str, Kind], tuple[float, ...]]] = {
    1: {
        ("gfn", "online"): (0.2653, 0.2053, 0.3699, 0.2606, 0.2031, 0.1885, 0.2772),
        ("list-cvae", "online"): (0.2484, 0.4167, 0.2036, 0.2462, 0.3086, 0.1801, 0.3161),
        ("cf", "offline"): (0.2070, 0.2701, 0.1202, 0.2474, 0.3357, 0.2887, 0.2958),
        ("prm", "offline"): (0.1798, 0.3664, 0.0982, 0.2322, 0.3425, 0.2384, 0.3576),
    }
}


@pytest.mark.parametrize(("policy", "kind"), list(KNOWN[CODE_VERSION]))
def test_figures_are_those_of_this_version(world: World, tmp_path: Path, policy: str, kind: Kind) -> None:
    outcome = execute(small_job(policy, kind), world, tmp_path)
    assert outcome is not None
    assert outcome.test is not None
    found = [outcome.figures[way][name] for way in ("greedy", "T=1") for name in METRICS] + [outcome.test["r_ndcg"]]
    known = KNOWN[CODE_VERSION][policy, kind]
    assert found == pytest.approx(known, rel=0.03), "figures have moved: raise CODE_VERSION, write the new ones here"

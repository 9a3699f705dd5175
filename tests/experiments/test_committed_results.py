"""What lies in docs/results can be read by the code as it is."""

from pathlib import Path

import pytest

from gfn4rec.cli import main
from gfn4rec.experiments.outcome import OutcomeStore
from gfn4rec.experiments.protocol import read_protocol
from gfn4rec.experiments.reproduce import needs_of
from gfn4rec.experiments.tuned import read_tuned
from gfn4rec.experiments.world import World
from gfn4rec.simulator.checkpoint import read_simulator_manifest

RESULTS = Path(__file__).parents[2] / "docs" / "results"
OUTCOMES = sorted(path.stem for path in (RESULTS / "runs").glob("*.json") if not path.stem.startswith("ruler-"))


def test_every_outcome_is_found_by_its_key(tmp_path: Path) -> None:
    store = OutcomeStore(tmp_path, RESULTS / "runs")
    assert OUTCOMES
    assert [key for key in OUTCOMES if store.find(key) is None] == []


@pytest.mark.parametrize("path", sorted((RESULTS / "simulators").iterdir()), ids=lambda path: path.name)
def test_every_simulator_is_whole(path: Path) -> None:
    manifest = read_simulator_manifest(path)
    assert manifest.is_finished
    assert manifest.data.name == path.name


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/tuned.toml")), ids=lambda path: path.parent.name)
def test_settings_that_were_found_are_settings(path: Path) -> None:
    assert read_tuned(path)


def test_no_run_of_committed_tables_would_be_made_again(tmp_path: Path) -> None:
    """A setting that is new, or has another default, changes all keys: then `CODE_VERSION` might as well be raised."""
    assert main(["data", "prepare", "synthetic-small", "--out", str(tmp_path / "data")]) == 0
    world, protocol = World(tmp_path / "data", RESULTS / "simulators" / "synthetic-small"), read_protocol("paper")
    keys = {job.key(world) for need in needs_of(["objectives"]) for job in protocol.jobs(need)}
    assert len(keys) == 9
    assert keys <= set(OUTCOMES)

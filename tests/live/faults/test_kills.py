"""Real processes are killed under traffic: nothing that was acknowledged is lost, and nothing is done twice."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from fault_audit import compare
from fault_harness import kill_often, learned_again

from gfn4rec.cli.compute import choose_device
from tests.live.conftest import DIALECTS
from tests.live.http.serving import make_run

NUM_KILLS = 5
LONGEST_PAUSE = 0.3  # seconds before a kill


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of the default policy."""
    return make_run(tmp_path_factory.mktemp("killed"))


@pytest.fixture
def as_in_the_service() -> Iterator[None]:
    """Round in this process as in those of the service, so that its learner can be followed bit by bit."""
    threads = torch.get_num_threads()
    choose_device("cpu", 1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.usefixtures("as_in_the_service")
def test_kills_lose_nothing_double_nothing_and_change_nothing_that_is_learned(
    run: Path, tmp_path: Path, new_store_url: Callable[[str], str], dialect: str
) -> None:
    """The learner's weights are those of one that was never killed, to the last bit."""
    directory, store = tmp_path / "live", new_store_url(dialect)
    directory.mkdir()
    kills, book = kill_often(run, directory, store, NUM_KILLS, seed=0, longest=LONGEST_PAUSE)
    assert (len(kills.ready), kills.num_learner) == (NUM_KILLS, NUM_KILLS)
    audit = compare(book, store)
    assert audit.faults == []
    assert audit.num_samples == audit.num_decisions >= len(book.decisions) > 0
    assert audit.num_events >= len(book.events) > 0
    assert learned_again(run, directory, store, tmp_path / "again") == []

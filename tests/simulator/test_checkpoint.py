"""A simulator on disk: read and checksummed once, whatever is made of it."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gfn4rec import storage
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import identity_of
from gfn4rec.errors import UserError
from gfn4rec.nn import weights
from gfn4rec.nn.weights import write_directory
from gfn4rec.simulator import checkpoint
from gfn4rec.simulator.checkpoint import (
    WEIGHTS,
    SimulatorFiles,
    SimulatorManifest,
    build_model,
    load_simulator,
    read_simulator_manifest,
)
from gfn4rec.simulator.response_model import ResponseModelConfig

SIZES = ResponseModelConfig(dim=8, embedding_dim=4, num_heads=2, feedforward_dim=8, state_dim=16, history_length=60)


@pytest.fixture
def simulator(data: SlateData, tmp_path: Path) -> Path:
    model = build_model(SIZES, data)
    manifest = SimulatorManifest(
        kind="response model", data=identity_of(data.manifest), model=SIZES.model_dump(mode="json"), rho=0.1
    )
    write_directory(tmp_path / "simulator", manifest, {WEIGHTS: model.state_dict()})
    return tmp_path / "simulator"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the manifest was read, a file was checksummed, and weights were loaded."""
    count = Counter[str]()

    def counted(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            count[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(checkpoint, "raw_manifest", counted("manifest", storage.raw_manifest))
    monkeypatch.setattr(weights, "_sha256", counted("checksum", weights._sha256))
    monkeypatch.setattr(checkpoint, "load_tensors", counted("weights", weights.load_tensors))
    return count


def test_one_read_serves_the_manifest_the_history_length_and_the_model(
    data: SlateData, simulator: Path, reads: Counter[str]
) -> None:
    files = SimulatorFiles.open(simulator)
    assert files.history_length == 60
    assert files.manifest.rho == 0.1
    files.refuse_unusable(data.manifest)
    assert reads == {"manifest": 1, "checksum": 1}
    model = files.load(data)
    assert reads == {"manifest": 1, "checksum": 1, "weights": 1}
    reads.clear()
    again, manifest = load_simulator(simulator, data)
    assert reads == {"manifest": 1, "checksum": 1, "weights": 1}
    assert manifest == files.manifest
    assert torch.equal(again.item_embedding_ND, model.item_embedding_ND)


def test_an_unfinished_one_is_opened_but_not_loaded(data: SlateData, simulator: Path) -> None:
    files = SimulatorFiles.open(simulator)
    unfinished = SimulatorFiles(simulator, files.manifest.model_copy(update={"is_finished": False}))
    with pytest.raises(UserError, match="simulator: its training is not finished; resume it with"):
        unfinished.load(data)


def test_what_was_written_is_what_is_read(simulator: Path) -> None:
    manifest = read_simulator_manifest(simulator)
    assert manifest.sizes == SIZES
    assert manifest.model_copy(update={"kind": "reference", "model": {}}).sizes.model_dump()["enc_dim"] == 32

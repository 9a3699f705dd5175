"""Simulators on disk: safetensors and JSON, refused if damaged, not finite, or made for another data set."""

from pathlib import Path
from typing import Any, Final, Literal

import torch
from pydantic import Field

from gfn4rec import __version__
from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import DataIdentity, refuse_other_data
from gfn4rec.data.manifest import Manifest
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import DirectoryManifest, check_files, load_tensors, load_weights
from gfn4rec.simulator.reference import ReferenceConfig, ReferenceModel
from gfn4rec.simulator.response_model import ResponseModel, ResponseModelConfig
from gfn4rec.storage import MANIFEST, raw_manifest

FORMAT: Final = "gfn4rec simulator"
VERSION: Final = 1
WEIGHTS: Final = "model.safetensors"


class Metric(StrictConfig):
    """How well a behaviour is predicted; None where it never or always occurs."""

    auc: float | None
    bayes_auc: float | None = None  # of the true probabilities, where the log is synthetic
    calibration_error: float
    rate: float
    num_rows: int


class SimulatorManifest(DirectoryManifest):
    """`manifest.json` of a simulator."""

    format: str = FORMAT
    version: int = VERSION
    kind: Literal["response model", "reference"]
    data: DataIdentity
    model: dict[str, Any]
    rho: float = Field(ge=0)
    training: dict[str, Any] = Field(default_factory=dict)
    epochs: tuple[dict[str, Any], ...] = ()  # loss and validation AUC of each
    is_finished: bool = True
    metrics: dict[str, dict[str, Metric]] = Field(default_factory=dict)  # split -> behaviour -> metric
    versions: dict[str, str] = Field(default_factory=lambda: {"gfn4rec": __version__, "torch": torch.__version__})


def read_simulator_manifest(directory: Path) -> SimulatorManifest:
    """The manifest, after a check that the files beside it are whole."""
    maker = "`gfn4rec simulator train`"
    values = raw_manifest(directory, FORMAT, VERSION, "simulator", maker)
    manifest = SimulatorManifest.parse(values, f"{directory / MANIFEST} is damaged, make it again with {maker}")
    check_files(directory, manifest.files, f"make the simulator again with {maker}")
    return manifest


def usable_simulator(directory: Path, data: Manifest) -> SimulatorManifest:
    """The manifest of one that is finished and was made for this data set."""
    manifest = read_simulator_manifest(directory)
    refuse_other_data(manifest.data, data, directory)
    if not manifest.is_finished:
        command = f"gfn4rec simulator train DATA --out {directory} --resume"
        raise UserError(f"{directory}: its training is not over; go on with `{command}`")
    return manifest


def load_simulator(directory: Path, data: SlateData) -> tuple[ResponseModel | ReferenceModel, SimulatorManifest]:
    """A frozen model, ready for the environment of the data set it was made for."""
    manifest = usable_simulator(directory, data.manifest)
    model = build_model(manifest.kind, manifest.model, data)
    load_weights(model, load_tensors(directory / WEIGHTS), directory / WEIGHTS)
    return model.to(data.device).freeze(), manifest


def build_model(
    kind: Literal["response model", "reference"], config: dict[str, Any], data: SlateData
) -> ResponseModel | ReferenceModel:
    """An untrained model for a data set."""
    sizes = (data.num_users, data.num_items, len(data.behaviours), data.user_features, data.item_features)
    if kind == "reference":
        return ReferenceModel(*sizes, ReferenceConfig.parse(config, "reference model"))
    return ResponseModel(*sizes, ResponseModelConfig.parse(config, "response model"))

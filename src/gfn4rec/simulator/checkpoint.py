"""Simulators on disk: safetensors and JSON, refused if damaged, not finite, or made for another data set."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final, Literal

import torch
from pydantic import Field
from safetensors.torch import save_file
from torch import Tensor

from gfn4rec import __version__
from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.simulator.reference import ReferenceConfig, ReferenceModel
from gfn4rec.simulator.response_model import ResponseModel, ResponseModelConfig
from gfn4rec.simulator.weights import load_tensors, load_weights
from gfn4rec.storage import MANIFEST, raw_manifest, replace_directory

FORMAT: Final = "gfn4rec simulator"
VERSION: Final = 1
WEIGHTS: Final = "model.safetensors"


class DataIdentity(StrictConfig):
    """The data set a simulator belongs to: whose users, items and behaviours its weights speak of."""

    name: str
    users_sha256: str
    items_sha256: str
    behaviours: tuple[str, ...]


class Metric(StrictConfig):
    """How well a behaviour is predicted; None where it never or always occurs."""

    auc: float | None
    bayes_auc: float | None = None  # of the true probabilities, where the log is synthetic
    calibration_error: float
    rate: float
    num_rows: int


class SimulatorManifest(StrictConfig):
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
    files: dict[str, str] = Field(default_factory=dict)  # name -> sha256


def identity_of(data: SlateData) -> DataIdentity:
    """What a simulator remembers of its data set."""
    files = data.manifest.files
    return DataIdentity(
        name=data.manifest.name,
        users_sha256=files["users.parquet"].sha256,
        items_sha256=files["items.parquet"].sha256,
        behaviours=data.behaviours,
    )


def save_simulator(
    directory: Path,
    manifest: SimulatorManifest,
    tensors: dict[str, dict[str, Tensor]],
    texts: dict[str, bytes] | None = None,
) -> SimulatorManifest:
    """Write files of tensors, other files, and the manifest, whole or not at all."""
    with replace_directory(directory, FORMAT) as fresh:
        for name, values in tensors.items():
            save_file({key: value.detach().cpu().contiguous() for key, value in values.items()}, fresh / name)
        for name, content in (texts or {}).items():
            (fresh / name).write_bytes(content)
        files = {path.name: _sha256(path) for path in sorted(fresh.iterdir())}
        manifest = manifest.model_copy(update={"files": files})
        text = json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)
        (fresh / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return manifest


def read_simulator_manifest(directory: Path) -> SimulatorManifest:
    """The manifest, after a check that the files beside it are whole."""
    maker = "`gfn4rec simulator train`"
    values = raw_manifest(directory, FORMAT, VERSION, "simulator", maker)
    manifest = SimulatorManifest.parse(values, f"{directory / MANIFEST} is damaged, make it again with {maker}")
    for name, digest in manifest.files.items():
        path = directory / name
        if not path.is_file() or _sha256(path) != digest:
            raise UserError(f"{path}: missing or damaged; make the simulator again with {maker}")
    return manifest


def load_simulator(directory: Path, data: SlateData) -> tuple[ResponseModel | ReferenceModel, SimulatorManifest]:
    """A frozen model, ready for the environment of the data set it was made for."""
    manifest = read_simulator_manifest(directory)
    if manifest.data != identity_of(data):
        raise UserError(
            f"{directory}: made for another data set ({manifest.data.name}), not for this {data.manifest.name}; "
            "name the one it was trained on, or train one for this"
        )
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


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

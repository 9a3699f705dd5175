"""Simulators on disk: safetensors and JSON; damaged, non-finite or foreign ones are refused."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

import torch
from pydantic import Field

from gfn4rec import __version__
from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import DataIdentity, refuse_other_data
from gfn4rec.data.manifest import Manifest
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import DirectoryManifest, check_files, load_tensors, load_weights
from gfn4rec.simulator.cautious_model import CautiousConfig, CautiousModel
from gfn4rec.simulator.effects import NO_EFFECTS, ListEffects
from gfn4rec.simulator.reference import ReferenceConfig, ReferenceModel
from gfn4rec.simulator.response_model import ResponseModel, ResponseModelConfig
from gfn4rec.simulator.support import SupportBin
from gfn4rec.storage import MANIFEST, raw_manifest

FORMAT: Final = "gfn4rec simulator"
VERSION: Final = 1
WEIGHTS: Final = "model.safetensors"

SimulatorModel: TypeAlias = ResponseModel | CautiousModel | ReferenceModel


class Metric(StrictConfig):
    """How well a behaviour is predicted."""

    auc: float | None
    """The area under the ROC curve; None if the behaviour occurs in no row, or in every row."""
    bayes_auc: float | None = None
    """The AUC of the true probabilities, if the log is synthetic."""
    calibration_error: float
    """The expected calibration error, in bins of equal mass."""
    rate: float
    """The share of rows with the behaviour."""
    num_rows: int


class Epoch(StrictConfig):
    """The mean training loss of a pass over the log, and the validation AUC after it."""

    loss: float
    mean_auc: float
    auc: tuple[float | None, ...]
    """The AUC of each behaviour; None if it occurs in no validation row, or in every one."""


class SimulatorManifest(DirectoryManifest):
    """`manifest.json` of a simulator."""

    format: str = FORMAT
    version: int = VERSION
    kind: Literal["response model", "cautious", "reference"]
    data: DataIdentity
    model: dict[str, object]
    """The sizes of the model as they were written; `sizes` parses them."""
    rho: float = Field(ge=0)
    """The strength of item influence."""
    pessimism: float = Field(default=0.0, ge=0)
    """How often a user must choose an item, relative to a random one, for half of its probabilities to be believed."""
    effects: ListEffects = NO_EFFECTS
    """The strengths of other list effects."""
    training: dict[str, object] = Field(default_factory=dict)
    """The settings of the training as they were written."""
    epochs: tuple[Epoch, ...] = ()
    num_threads: int | None = None
    """With which it was trained; None for an imported simulator, and for old ones."""
    is_finished: bool = True
    metrics: dict[str, dict[str, Metric]] = Field(default_factory=dict)
    """By split, then by behaviour."""
    choice_auc: dict[str, float] = Field(default_factory=dict)
    """By split, the AUC of the items of the log against items drawn uniformly; empty if choices were not learned."""
    support: tuple[SupportBin, ...] = ()
    """The test rows by the number of rows of their items that were learned from."""
    versions: dict[str, str] = Field(default_factory=lambda: {"gfn4rec": __version__, "torch": torch.__version__})

    @property
    def sizes(self) -> ResponseModelConfig | ReferenceConfig:
        """The sizes of the model."""
        if self.kind == "reference":
            return ReferenceConfig.parse(self.model, "reference model")
        if self.kind == "cautious":
            return CautiousConfig.parse(self.model, "cautious model")
        return ResponseModelConfig.parse(self.model, "response model")


@dataclass(frozen=True)
class SimulatorFiles:
    """A simulator on disk whose manifest was read and whose files were checksummed, once."""

    path: Path
    manifest: SimulatorManifest

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the manifest, and refuse files that are missing or damaged."""
        maker = "`gfn4rec simulator train`"
        values = raw_manifest(path, FORMAT, VERSION, "simulator", maker)
        manifest = SimulatorManifest.parse(values, f"{path / MANIFEST} is damaged, make it again with {maker}")
        check_files(path, manifest.files, f"make the simulator again with {maker}")
        return cls(path, manifest)

    @property
    def history_length(self) -> int:
        """The number of events that the model reads of a history."""
        sizes = self.manifest.sizes
        return sizes.history_length if isinstance(sizes, ResponseModelConfig) else sizes.max_hist_seq_len

    def refuse_unusable(self, data: Manifest) -> None:
        """Refuse a simulator that was made for another data set, or whose training is not finished."""
        refuse_other_data(self.manifest.data, data, self.path)
        if not self.manifest.is_finished:
            command = f"gfn4rec simulator train DATA --out {self.path} --resume"
            raise UserError(f"{self.path}: its training is not finished; resume it with `{command}`")

    def load(self, data: SlateData) -> SimulatorModel:
        """Return the frozen model, ready for an environment of the data set it was made for."""
        self.refuse_unusable(data.manifest)
        model = build_model(self.manifest.sizes, data)
        load_weights(model, load_tensors(self.path / WEIGHTS), self.path / WEIGHTS)
        model.rho, model.effects = self.manifest.rho, self.manifest.effects
        if isinstance(model, CautiousModel):
            model.pessimism = self.manifest.pessimism
        return model.to(data.device).freeze()


def read_simulator_manifest(directory: Path) -> SimulatorManifest:
    """Return the manifest of a simulator whose files are whole."""
    return SimulatorFiles.open(directory).manifest


def usable_simulator(directory: Path, data: Manifest) -> SimulatorManifest:
    """Return the manifest of a simulator that is finished and was made for this data set."""
    files = SimulatorFiles.open(directory)
    files.refuse_unusable(data)
    return files.manifest


def load_simulator(directory: Path, data: SlateData) -> tuple[SimulatorModel, SimulatorManifest]:
    """Return the frozen model of a simulator, and its manifest."""
    files = SimulatorFiles.open(directory)
    return files.load(data), files.manifest


def build_model(sizes: ResponseModelConfig | ReferenceConfig, data: SlateData) -> SimulatorModel:
    """Return an untrained model for a data set."""
    shape = (data.num_users, data.num_items, len(data.behaviours), data.user_features, data.item_features)
    if isinstance(sizes, ReferenceConfig):
        return ReferenceModel(*shape, sizes)
    return CautiousModel(*shape, sizes) if isinstance(sizes, CautiousConfig) else ResponseModel(*shape, sizes)

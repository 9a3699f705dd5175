"""A benchmark: a data set with a simulator, and what identifies it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from gfn4rec.config import identity_values
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import content_of
from gfn4rec.data.manifest import Manifest
from gfn4rec.data.storage import read_manifest
from gfn4rec.errors import UserError
from gfn4rec.simulator.checkpoint import WEIGHTS, SimulatorManifest, read_simulator_manifest, usable_simulator
from gfn4rec.training.response_loop import ResponseTrainingConfig
from gfn4rec.training.response_training import train_response_model

ReportEpoch: TypeAlias = Callable[[int, int, int, float], None]  # epoch, step, number of steps, loss


@dataclass(frozen=True)
class Benchmark:
    """A data set and a simulator on disk. Tables about the log alone need no simulator."""

    data_path: Path
    simulator_path: Path | None

    def resolved(self) -> "Benchmark":
        """Return it with absolute paths."""
        simulator = self.simulator_path
        return replace(self, data_path=self.data_path.resolve(), simulator_path=simulator and simulator.resolve())

    @cached_property
    def data(self) -> Manifest:
        """The manifest of the data set."""
        return read_manifest(self.data_path)

    @cached_property
    def simulator(self) -> SimulatorManifest:
        """The manifest of the simulator."""
        if self.simulator_path is None:
            raise UserError("this needs simulated users; name them with --simulator")
        return usable_simulator(self.simulator_path, self.data)

    @property
    def rho(self) -> float:
        """The simulator's strength of item influence, which a job may override."""
        return self.simulator.rho

    @cached_property
    def identity(self) -> str:
        """A digest of data and simulator; it does not depend on paths or on the version that wrote the files."""
        simulator = [self.simulator.kind, self.simulator.model, self.simulator.files[WEIGHTS], self.simulator.rho]
        if self.simulator.pessimism:
            simulator.append(self.simulator.pessimism)
        if effects := self.simulator.effects.strengths():
            simulator.append(effects)
        return digest({**identity_values(content_of(self.data)), "simulator": simulator})

    def title(self) -> str:
        """Return the name for captions."""
        if self.simulator_path is None:
            return self.data.name
        simulator = "the authors' simulator" if self.simulator.kind == "reference" else "this project's simulator"
        return f"{self.data.name}, {simulator}"


def digest(values: Mapping[str, object]) -> str:
    """Return 16 hexadecimal digits that are the same for equal values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def train_simulator_if_absent(
    data_path: Path, target: Path, device: str = "cpu", report: ReportEpoch = lambda *_: None
) -> Path:
    """Train a simulator with the default settings, unless there is one; resume an interrupted training."""
    try:
        is_finished = read_simulator_manifest(target).is_finished
        is_resumed = not is_finished
    except UserError:
        is_finished = is_resumed = False
    if not is_finished:
        config = ResponseTrainingConfig()
        data = SlateData.open(data_path, config.model.history_length, device)
        train_response_model(data, config, target, data.manifest.rho, is_resumed, report)
    return target

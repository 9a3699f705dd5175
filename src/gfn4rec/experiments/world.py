"""Where an experiment takes place: a data set and the simulated users, and what tells them from any other."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gfn4rec.data.manifest import Manifest
from gfn4rec.data.storage import read_manifest
from gfn4rec.errors import UserError
from gfn4rec.simulator.checkpoint import SimulatorManifest, read_simulator_manifest


@dataclass(frozen=True)
class World:
    """A data set and a simulator on disk; what is about the log alone needs no simulator."""

    data_path: Path
    simulator_path: Path | None

    def resolved(self) -> "World":
        """The same for whoever stands elsewhere."""
        users = self.simulator_path
        return World(self.data_path.resolve(), None if users is None else users.resolve())

    @cached_property
    def data(self) -> Manifest:
        """What the data set says of itself."""
        return read_manifest(self.data_path)

    @cached_property
    def simulator(self) -> SimulatorManifest:
        """What the simulator says of itself."""
        if self.simulator_path is None:
            raise UserError("this needs simulated users; name them with --simulator")
        return read_simulator_manifest(self.simulator_path)

    @cached_property
    def identity(self) -> str:
        """Equal where the same files are, wherever they lie."""
        files = {name: entry.sha256 for name, entry in self.data.files.items()}
        return digest({"data": files, "simulator": self.simulator.files, "rho": self.simulator.rho})

    def title(self) -> str:
        """For captions."""
        if self.simulator_path is None:
            return self.data.name
        users = "the authors' simulator" if self.simulator.kind == "reference" else "this project's simulator"
        return f"{self.data.name}, {users}"


def digest(values: dict[str, Any]) -> str:
    """A short name of values that is the same wherever they are equal."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

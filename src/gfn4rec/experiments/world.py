"""Where an experiment takes place: a data set and the simulated users, and what tells them from any other."""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gfn4rec.data.identity import content_of
from gfn4rec.data.manifest import Manifest
from gfn4rec.data.storage import read_manifest
from gfn4rec.errors import UserError
from gfn4rec.simulator.checkpoint import WEIGHTS, SimulatorManifest, usable_simulator


@dataclass(frozen=True)
class World:
    """A data set and a simulator on disk; what is about the log alone needs no simulator."""

    data_path: Path
    simulator_path: Path | None

    def resolved(self) -> "World":
        """The same for whoever stands elsewhere."""
        users = self.simulator_path
        return replace(self, data_path=self.data_path.resolve(), simulator_path=users and users.resolve())

    @cached_property
    def data(self) -> Manifest:
        """What the data set says of itself."""
        return read_manifest(self.data_path)

    @cached_property
    def simulator(self) -> SimulatorManifest:
        """What the simulator says of itself."""
        if self.simulator_path is None:
            raise UserError("this needs simulated users; name them with --simulator")
        return usable_simulator(self.simulator_path, self.data)

    @property
    def rho(self) -> float:
        """How strongly items influence each other, unless a job says so."""
        return self.simulator.rho

    @cached_property
    def identity(self) -> str:
        """Equal where data and weights are and mean the same, wherever they lie, whichever version wrote them."""
        users = self.simulator
        simulator = [users.kind, users.model, users.files[WEIGHTS], users.rho]
        return digest({**content_of(self.data), "simulator": simulator})

    def title(self) -> str:
        """For captions."""
        if self.simulator_path is None:
            return self.data.name
        users = "the authors' simulator" if self.simulator.kind == "reference" else "this project's simulator"
        return f"{self.data.name}, {users}"


def digest(values: dict[str, Any]) -> str:
    """A short name of values that is the same wherever they are equal."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

"""The demo: the embedded data set, simulated users, a policy that has learned little, and a service that learns on."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gfn4rec.api import resume, train, train_simulator
from gfn4rec.client import Client, ClientError
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.read import read_data
from gfn4rec.data.storage import read_manifest
from gfn4rec.errors import UserError
from gfn4rec.live.host import Host
from gfn4rec.live.running import serve
from gfn4rec.live.supervisor import Supervisor, this_command
from gfn4rec.simulator.checkpoint import SimulatorFiles
from gfn4rec.storage import MANIFEST, refuse_any
from gfn4rec.training.config import resolve_settings
from gfn4rec.training.response_loop import ResponseTrainingConfig
from gfn4rec.training.run import Run

Tell = Callable[[str], None]
DIRECTORY: Final = Path("build/live-demo")
DATA: Final = "synthetic-small"
POLICY: Final = "gfn-anchored"
CHANGES: Final[Mapping[str, object]] = {"beta": 300.0}
"""Sharp enough that slates follow what was learned; the policy's own 60 would draw worse slates even if it knew all."""
TRAINING: Final[Mapping[str, object]] = {**CHANGES, "num_steps": 5, "learning_batch": 128}
EPOCHS: Final = 2
PESSIMISM: Final = 0.0  # users respond to all items as predicted, so that there is much to gain
# Measured by benchmarks/live_learning.py: from 0.32 to 0.61 per slate within ten minutes on two busy cores.
SERVICE: Final[Mapping[str, object]] = {"wait": 5.0}
LEARNER: Final[Mapping[str, object]] = {
    "samples_per_step": 16,
    "warmup_samples": 64,
    "learning_batch": 64,
    "publish_seconds": 10.0,
}
TRAFFIC: Final = ("--rate", "20", "--users", "500", "--delay", "1", "--duplicate", "0.01")
_PATIENCE: Final = 120.0  # seconds for the service to answer its first request


@dataclass(frozen=True)
class Demo:
    """Where the parts of the demo are."""

    directory: Path

    @property
    def data(self) -> Path:
        """The data set."""
        return self.directory / "data"

    @property
    def simulator(self) -> Path:
        """The simulated users."""
        return self.directory / "simulator"

    @property
    def run(self) -> Path:
        """The trained run that is served; the service lives inside it."""
        return self.directory / "run"

    def prepare(self, tell: Tell, progress: bool = True) -> bool:
        """Make what is missing, each part whole or not at all; return whether all is there, or it was interrupted."""
        refuse_any(self.directory)
        self._prepare_data(tell)
        self._train_users(tell, progress)
        return self._train_policy(tell, progress)

    def _prepare_data(self, tell: Tell) -> None:
        if (self.data / MANIFEST).exists():
            if read_manifest(self.data).name != DATA:
                raise UserError(f"{self.data}: is not the demo's data set; choose another --dir")
            return
        tell(f"preparing the embedded data set in {self.data}")
        prepare(read_data(DATA), PrepareConfig(), self.data, DATA)

    def _train_users(self, tell: Tell, progress: bool) -> None:
        if (self.simulator / MANIFEST).exists():
            files = SimulatorFiles.open(self.simulator)
            if files.manifest.is_finished:
                files.refuse_unusable(read_manifest(self.data))
                return
        tell(f"training simulated users in {self.simulator}")
        config = ResponseTrainingConfig().with_caution(PESSIMISM)
        train_simulator(self.data, self.simulator, EPOCHS, config=config, progress=progress)

    def _train_policy(self, tell: Tell, progress: bool) -> bool:
        if (self.run / MANIFEST).exists():
            if Run.open(self.run).results is not None:
                return True
            tell(f"resuming the training in {self.run}")
            return resume(self.run, progress=progress) is not None
        tell(f"training {POLICY} on the log in {self.run}, for a short time, so that much is left to learn")
        settings = resolve_settings("offline", POLICY, changes=TRAINING)
        return train(settings, self.data, None, self.run, progress=progress) is not None


class DemoTraffic:
    """Simulated traffic as a process of its own, which begins when the service answers and ends with it."""

    def __init__(self, demo: Demo, host: Host, url: str, tell: Tell) -> None:
        command = this_command("live", "simulate", url, "--simulator", str(demo.simulator), *TRAFFIC)
        self._url, self._tell = url, tell
        self._supervisor = Supervisor(command, host.service.clock, tell, name="the simulated traffic")
        self._thread = threading.Thread(target=self._begin, name="demo traffic", daemon=True)

    def start(self) -> None:
        """Begin to wait for the service."""
        self._thread.start()

    def stop(self) -> None:
        """End the traffic."""
        self._supervisor.stop()

    def _begin(self) -> None:
        with suppress(ClientError), Client(self._url, patience=_PATIENCE) as client:
            client.wait_until_ready()
            self._tell(f"the service answers at {self._url}; simulated users begin. Ctrl-C ends both")
            self._supervisor.start()


def serve_demo(demo: Demo, host: Host, address: str, port: int, tell: Tell) -> None:
    """Serve with simulated traffic until asked to end."""
    shown = f"[{address}]" if ":" in address else address
    traffic = DemoTraffic(demo, host, f"http://{shown}:{port}", tell)
    traffic.start()
    try:
        serve(host, address, port)
    finally:
        traffic.stop()

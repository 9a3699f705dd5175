"""What is sent to an engine: a job, or the ruler of a world."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gfn4rec.evaluation.frontier import measure_frontier
from gfn4rec.experiments.engines import Tell
from gfn4rec.experiments.execute import execute
from gfn4rec.experiments.job import CODE_VERSION, Job
from gfn4rec.experiments.outcome import Outcome
from gfn4rec.experiments.world import World, digest
from gfn4rec.training.parts import open_data, open_users

Ruler: TypeAlias = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class JobTask:
    """A job to be executed."""

    job: Job
    world: World
    runs: Path
    device: str = "cpu"
    model: str = ""
    """Its name among those compared."""

    @property
    def title(self) -> str:
        """For progress."""
        settings = self.job.settings
        return f"{self.model or settings.policy} {settings.kind}, seed {settings.seed}"

    def key(self) -> str:
        """Of what is found."""
        return self.job.key(self.world)

    def perform(self, tell: Tell) -> Outcome | None:
        """None if asked to end before."""
        total = self.job.settings.training["num_steps"]
        return execute(self.job, self.world, self.runs, self.device, lambda step, _: tell(step, total))


@dataclass(frozen=True)
class RulerTask:
    """The ruler to be measured, for the users that a job meets."""

    job: Job
    world: World
    device: str = "cpu"

    @property
    def title(self) -> str:
        """For progress."""
        return "ruler"

    def key(self) -> str:
        """Of what is found."""
        values = {
            "users": self.job.users(self.world),
            "batches": self.job.num_batches,
            "world": self.world.identity,
            "code": CODE_VERSION,
        }
        return f"ruler-{digest(values)}"

    def perform(self, tell: Tell) -> Ruler:
        """What samplers attain that see the simulator's own probabilities."""
        settings, path = self.job.settings, self.world.simulator_path
        assert path is not None, "its key has read the simulator"
        data = open_data(self.world.data_path, settings, self.device, path)
        environment = open_users(path, data, settings).environment(seed=0)
        points = measure_frontier(
            environment, num_batches=self.job.num_batches, report=lambda _, done, total: tell(done, total)
        )
        return [point.as_dict() for point in points]


Task: TypeAlias = JobTask | RulerTask


def perform(task: Task, tell: Tell) -> Outcome | Ruler | None:
    """The work of an engine."""
    return task.perform(tell)

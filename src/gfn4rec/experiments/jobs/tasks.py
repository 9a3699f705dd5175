"""Work for an engine: a job, or the oracle of a benchmark."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation.frontier import FrontierPoint, measure_frontier
from gfn4rec.experiments.benchmark import Benchmark, digest
from gfn4rec.experiments.jobs.engines import ReportProgress
from gfn4rec.experiments.jobs.execute import execute
from gfn4rec.experiments.jobs.job import CODE_VERSION, Job
from gfn4rec.experiments.jobs.result import JobResult, OracleResult
from gfn4rec.simulator.checkpoint import SimulatorFiles
from gfn4rec.training.config import UsersConfig
from gfn4rec.training.opened_run import Users


@dataclass(frozen=True)
class JobTask:
    """A job to be executed."""

    job: Job
    benchmark: Benchmark
    runs: Path
    device: str = "cpu"
    model: str = ""
    """Its name in tables."""

    @property
    def title(self) -> str:
        """How progress reports name it."""
        settings = self.job.settings
        return f"{self.model or settings.policy} {settings.mode}, seed {settings.seed}"

    def key(self) -> str:
        """Return the key of the result."""
        return self.job.key(self.benchmark)

    def perform(self, report: ReportProgress) -> JobResult | None:
        """Execute the job; None if it was interrupted."""
        total = self.job.settings.training.num_steps
        return execute(self.job, self.benchmark, self.runs, self.device, lambda step, _: report(step, total))


@dataclass(frozen=True)
class OracleTask:
    """The oracle to be measured, with the users that a job meets."""

    job: Job
    benchmark: Benchmark
    device: str = "cpu"

    @property
    def title(self) -> str:
        """How progress reports name it."""
        return "oracle"

    def key(self) -> str:
        """Return the key of the result."""
        values = {
            "users": self.job.users(self.benchmark),
            "batches": self.job.num_batches,
            "world": self.benchmark.identity,
            "code": CODE_VERSION,
        }
        return digest(values)

    def perform(self, report: ReportProgress) -> OracleResult:
        """Measure samplers that see the simulator's true probabilities."""
        settings, path = self.job.settings, self.benchmark.simulator_path
        assert path is not None, "its key has read the simulator"
        data = SlateData.open(self.benchmark.data_path, device=self.device)
        environment = Users.load(SimulatorFiles.open(path), data, settings.users).environment(seed=0)
        points = measure_frontier(
            environment, num_batches=self.job.num_batches, report=lambda _, done, total: report(done, total)
        )
        return self.result(points)

    def result(self, points: Sequence[FrontierPoint]) -> OracleResult:
        """Return the result that has these points."""
        return OracleResult(
            key=self.key(),
            data=self.benchmark.data.name,
            simulator=self.benchmark.simulator.kind,
            users=UsersConfig.parse(self.job.users(self.benchmark), "users"),
            num_batches=self.job.num_batches,
            points=tuple(points),
        )


Task: TypeAlias = JobTask | OracleTask


def perform(task: Task, report: ReportProgress) -> JobResult | OracleResult | None:
    """Do the work of an engine."""
    return task.perform(report)

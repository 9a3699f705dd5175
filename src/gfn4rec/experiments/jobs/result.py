"""Results of jobs and of oracles: what tables and plots are made of."""

from typing import Any, TypeAlias

from pydantic import Field

from gfn4rec.config import StrictConfig
from gfn4rec.evaluation.frontier import FrontierPoint
from gfn4rec.experiments.jobs.job import Job
from gfn4rec.training.config import UsersConfig

GREEDY = "greedy"
Metrics: TypeAlias = dict[str, float]


class CurvePoint(StrictConfig):
    """An evaluation during training."""

    step: int
    greedy: Metrics
    sampled: Metrics


class Example(StrictConfig):
    """A slate recommended to a user of the data set."""

    user: str
    way: str
    titles: tuple[str, ...]


class JobResult(StrictConfig):
    """What a finished job has measured."""

    key: str
    job: Job
    data: str
    """Name of the data set."""
    simulator: str
    """Kind of the simulator."""
    step: int
    """The last training step; earlier than asked for if training stopped by itself."""
    seconds: float
    """Time of training, without measurements."""
    metrics: dict[str, Metrics]
    """Metrics in the simulator, by how slates were chosen: greedy, T=1, ...; with a decoder also mmr, ...

    `_unsorted` ones follow the authors.
    """
    last_steps: Metrics | None = None
    """Means over the last steps of online training, as the paper reports them."""
    test: Metrics | None = None
    """Ranking metrics of logged slates that the policy was not trained on."""
    held_out: dict[str, Metrics] | None = None
    """Held-out metrics: of greedy slates, and of references by name; None in older results."""
    curve: tuple[CurvePoint, ...] = ()
    examples: tuple[Example, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    git_hash: str | None = None

    def completed_by(self, other: "JobResult") -> "JobResult":
        """Return this result with the metrics that only a later measurement of the same run has."""
        metrics = {way: {**other.metrics.get(way, {}), **row} for way, row in self.metrics.items()}
        test = other.test if self.test is None else {**(other.test or {}), **self.test}
        held_out = other.held_out if self.held_out is None else self.held_out
        return self.model_copy(update={"metrics": metrics, "test": test, "held_out": held_out})

    def entry(self) -> dict[str, object]:
        """Return what is stored: six digits of everything but settings."""
        values = self.model_dump(mode="json", exclude={"held_out"} if self.held_out is None else None)
        return {key: value if key == "job" else _rounded(value) for key, value in values.items()}


class OracleResult(StrictConfig):
    """What an oracle attains in a benchmark."""

    key: str
    data: str
    simulator: str
    users: UsersConfig
    num_batches: int
    points: tuple[FrontierPoint, ...]
    """One per sampler and temperature."""

    def entry(self) -> dict[str, object]:
        """Return what is stored."""
        return self.model_dump(mode="json")

    def completed_by(self, _: "OracleResult") -> "OracleResult":
        """Return this result; an oracle is measured as a whole."""
        return self


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value

"""Settings of simulated traffic."""

from pydantic import Field

from gfn4rec.config import StrictConfig


class TrafficConfig(StrictConfig):
    """How many users come how often, and what happens to their feedback on its way."""

    users: int = Field(default=500, ge=1)
    """Number of users, drawn from those of the data set."""
    rate: float = Field(default=50.0, gt=0, le=100_000, allow_inf_nan=False)
    """Requests per second, at random times that do not depend on the answers."""
    requests: int | None = Field(default=None, ge=1)
    """Number of requests after which the traffic ends."""
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Time after which it ends."""
    delay: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Mean seconds between a slate and its feedback, exponentially distributed."""
    duplicate: float = Field(default=0.0, ge=0, le=1)
    """Probability that an event is sent twice."""
    lose: float = Field(default=0.0, ge=0, le=1)
    """Probability that an event is never sent."""
    greediness: float | None = Field(default=None, ge=0, le=1)
    """That of the requests; by default that of the service."""
    seed: int = 0
    concurrency: int = Field(default=64, ge=1)
    """Largest number of requests that wait for their answers."""

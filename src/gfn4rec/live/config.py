"""Settings of the live service."""

from pydantic import Field

from gfn4rec.config import StrictConfig
from gfn4rec.schema import MAX_REWARD_WEIGHT


class ServiceConfig(StrictConfig):
    """How slates are answered, and how feedback becomes samples."""

    greediness: float = Field(default=0.0, ge=0, le=1)
    """How greedily slates are drawn where a request does not say: 0 samples, 1 is greedy."""
    reward_weight: float = Field(default=1.0, ge=0, le=MAX_REWARD_WEIGHT)
    """Weight of the reward against the prior where a request does not say."""
    epsilon: float = Field(default=0.0, ge=0, le=1)
    """Probability that an item is drawn uniformly."""
    wait: float = Field(default=600.0, gt=0)
    """Seconds for which feedback to a slate is awaited after it was shown."""
    shown_within: float = Field(default=3600.0, gt=0)
    """Seconds after which a slate that waits to be reported as shown is given up."""
    automatic_promotion: bool = True
    """Whether a new version that passes its gates is promoted at once."""
    keep_versions: int = Field(default=50, ge=2)
    """Number of versions whose weights are kept."""
    largest_batch: int = Field(default=64, ge=1)
    """Number of requests that are answered together, at most."""
    largest_queue: int = Field(default=512, ge=1)
    """Number of requests that may wait; more are refused."""


class LearnerSettings(StrictConfig):
    """How the live learner learns and publishes."""

    samples_per_step: int = Field(default=32, ge=1)
    """Number of new samples for which one learning step is made."""
    warmup_samples: int = Field(default=12_800, ge=0)
    """Number of samples before the first learning step, because a policy overfits if it learns from a few slates again
    and again. The default is that of online training: 100 batches of 128 users."""
    publish_seconds: float = Field(default=30.0, gt=0)
    """Seconds between published versions, if anything was learned in between."""
    checkpoint_seconds: float = Field(default=30.0, gt=0)
    """Seconds between checkpoints; after a crash, what was learned since is learned again."""
    learning_batch: int | None = Field(default=None, ge=1)
    """Number of slates in the batch of a learning step; default: that of the policy's online training."""
    learning_rate: float | None = Field(default=None, gt=0)
    """Adam's learning rate; default: that of the policy's online training."""

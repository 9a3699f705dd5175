"""Training defaults for policies whose residuals are mostly feedback noise."""

from collections.abc import Mapping
from typing import Final

AVERAGING: Final[Mapping[str, object]] = {
    "learning_batch": 512,
    "newest_share": 0.125,
    "learning_rate": 2e-3,
    "schedule": "cosine",
    "epsilon": 0.01,
}
"""Large batches and a decreasing learning rate average the noise out."""

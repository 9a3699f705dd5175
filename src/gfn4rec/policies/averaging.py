"""How policies learn whose residuals are, once they are good, noise of the answers."""

from collections.abc import Mapping
from typing import Any, Final

AVERAGING: Final[Mapping[str, Any]] = {
    "learning_batch": 512,
    "newest_share": 0.125,
    "learning_rate": 2e-3,
    "schedule": "cosine",
    "epsilon": 0.01,
}
"""Training defaults: many answers per step, at a falling rate, average the noise out."""

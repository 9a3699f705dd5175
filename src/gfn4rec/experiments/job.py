"""A job: one training and what is measured of it. Its key names its outcome wherever it was made."""

from typing import Any, Final

from gfn4rec.config import StrictConfig
from gfn4rec.experiments.world import World, digest
from gfn4rec.training.config import RunSettings

CODE_VERSION: Final = 1
"""Raised with any change that moves figures: outcomes of another version are not taken for those of this one."""

_WITHOUT_EFFECT = ("checkpoint_every", "final_batches", "tensorboard")  # on what a job measures


class Job(StrictConfig):
    """A run's settings, and how its policy is measured in the end."""

    settings: RunSettings
    temperatures: tuple[float, ...] = (1.0,)
    """Of the sampled slates that are measured, besides greedy ones."""
    num_batches: int = 100
    """Batches of each measurement."""

    def users(self, world: World) -> dict[str, Any]:
        """How users come and go, with the influence that is meant where none is named."""
        users = self.settings.users.model_dump(mode="json")
        return users if users["rho"] is not None else {**users, "rho": world.rho}

    def key(self, world: World) -> str:
        """Of its outcome."""
        values: dict[str, Any] = self.model_dump(mode="json")
        for name in _WITHOUT_EFFECT:
            values["settings"]["training"].pop(name, None)
        values["settings"]["users"] = self.users(world)
        return digest({"job": values, "world": world.identity, "code": CODE_VERSION})

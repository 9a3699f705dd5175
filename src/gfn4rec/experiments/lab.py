"""What every experiment needs: a world, somebody who does the work, and a device."""

from dataclasses import dataclass, replace

from gfn4rec.experiments.engines import Engine
from gfn4rec.experiments.world import World


@dataclass(frozen=True)
class Lab:
    """Where experiments are made."""

    world: World
    engine: Engine
    device: str = "cpu"

    def resolved(self) -> "Lab":
        """With whole paths: whoever does the work may stand elsewhere."""
        return replace(self, world=self.world.resolved())

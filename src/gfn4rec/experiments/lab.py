"""What every experiment needs: a world, somebody who does the work, a device, and what is known from elsewhere."""

from dataclasses import dataclass, replace
from pathlib import Path

from gfn4rec.experiments.engines import Engine
from gfn4rec.experiments.world import World


@dataclass(frozen=True)
class Lab:
    """Where experiments are made."""

    world: World
    engine: Engine
    device: str = "cpu"
    summaries: Path | None = None
    """Outcomes that travel between machines; new ones are added."""

    def resolved(self) -> "Lab":
        """With whole paths: whoever does the work may stand elsewhere."""
        summaries = None if self.summaries is None else self.summaries.resolve()
        return replace(self, world=self.world.resolved(), summaries=summaries)

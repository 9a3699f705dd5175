"""What becomes of feedback on its way to the service: it is late, lost, or sent twice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gfn4rec.client import Event
from gfn4rec.live.traffic.config import TrafficConfig


@dataclass(frozen=True)
class Delivery:
    """Events that are sent together, so many seconds after the slate."""

    delay: float
    events: tuple[Event, ...]


def deliveries(events: Sequence[Event], config: TrafficConfig, random: np.random.Generator) -> list[Delivery]:
    """Return how the events of a slate are sent: the first time together, those that are sent twice once more later."""
    is_lost, is_double = random.random((2, len(events)))
    first, again = random.exponential(1.0, 2) * config.delay
    arriving = tuple(event for event, draw in zip(events, is_lost, strict=True) if draw >= config.lose)
    double = tuple(
        event
        for event, lost, draw in zip(events, is_lost, is_double, strict=True)
        if lost >= config.lose and draw < config.duplicate
    )
    sent = (Delivery(float(first), arriving), Delivery(float(first + again), double))
    return [delivery for delivery in sent if delivery.events]

"""Opening and running simulated traffic against a service."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from gfn4rec.client import AsyncClient, Client, Status
from gfn4rec.data.dataset import HISTORY_LENGTH, SlateData
from gfn4rec.data.identity import identity_of
from gfn4rec.errors import UserError
from gfn4rec.live.supervisor import is_orphan
from gfn4rec.live.traffic.config import TrafficConfig
from gfn4rec.live.traffic.tally import Period, Summary, Tally
from gfn4rec.live.traffic.traffic import Traffic
from gfn4rec.live.traffic.users import SimulatedUsers
from gfn4rec.simulator.checkpoint import SimulatorFiles
from gfn4rec.training.config import UsersConfig
from gfn4rec.training.interruption import asked_to_end
from gfn4rec.training.opened_run import Users

Report: TypeAlias = Callable[[Period, Tally], None]


@dataclass(frozen=True)
class TrafficResult:
    """What simulated traffic came to."""

    summary: Summary
    retries: int
    seconds_behind: float
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the same as JSON has it."""
        return asdict(self)


def open_users(status: Status, simulator: Path, data: Path | None, config: TrafficConfig) -> SimulatedUsers:
    """Return simulated users of the data set that a service recommends from, by default at the place it names."""
    place = Path(status.data.directory) if data is None else data
    if data is None and not place.is_dir():
        raise UserError(f"{place}: the service's data set is not there; name its place with --data")
    opened = SlateData.open(place, HISTORY_LENGTH)
    identity = identity_of(opened.manifest)
    if (identity.users_sha256, identity.items_sha256) != (status.data.users_sha256, status.data.items_sha256):
        raise UserError(f"{place}: is not the data set of the service ({status.name}); name that one with --data")
    users = Users.load(SimulatorFiles.open(simulator), opened, UsersConfig())
    return SimulatedUsers(users, config.users, config.seed)


def simulate(
    url: str, simulator: Path, data: Path | None, config: TrafficConfig, report: Report = lambda *_: None
) -> TrafficResult:
    """Play simulated users until the end of the settings, or until asked to end."""
    with Client(url, patience=0) as client:
        users = open_users(client.status(), simulator, data, config)
    with asked_to_end() as is_asked:
        return asyncio.run(_simulate(url, users, config, lambda: is_asked() or is_orphan(), report))


async def _simulate(
    url: str, users: SimulatedUsers, config: TrafficConfig, is_ended: Callable[[], bool], report: Report
) -> TrafficResult:
    async with AsyncClient(url) as client:
        traffic = Traffic(client, users, config, is_ended, report)
        seconds = await traffic.run()
        retries = client.patience.num_retries
    summary = traffic.tally.summary(seconds)
    return TrafficResult(summary, retries, traffic.seconds_behind, _notes(summary, traffic, users, config))


def _notes(summary: Summary, traffic: Traffic, users: SimulatedUsers, config: TrafficConfig) -> tuple[str, ...]:
    """Return what a reader should know before believing the numbers."""
    notes = list(summary.problems)
    if traffic.seconds_behind:
        made = summary.whole.requests_per_second
        notes.append(f"the rate could not be kept: {made:.1f} slates/s were answered, {config.rate:g} were asked for")
    if unknown := summary.counts["unknown items"]:
        notes.append(f"{unknown} items shown are not known to the simulator; they got no response")
    if len(users.ids) < config.users:
        notes.append(f"the data set has only {len(users.ids)} users; all of them took part")
    return tuple(notes)

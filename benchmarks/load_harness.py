"""An open-loop load generator for the live service: one process, raw sockets, honest latencies."""

import asyncio
import json
import math
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

Json: TypeAlias = Any
SHARE_EXCLUDE_SEEN: Final = 0.2  # of requests; each has a list of candidates of its own
SHARE_NEW_USERS: Final = 0.2
SHARE_CLICKED: Final = 0.1  # of shown items
DELAY: Final = 1.0  # seconds between a slate and its feedback
_KEPT_SLATES: Final = 5000


class Connections:
    """Connections to a service that are kept open; one is opened when all others are in use."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, path: str, body: Json) -> tuple[int, bytes]:
        """Return the status and the body of the answer to a POST request."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Type: application/json\r\n"
        reader, writer = await self._connection()
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        text = await reader.readexactly(length)
        self._idle.append((reader, writer))
        return int(answer[9:12]), text

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():  # the service closes those that are idle for some seconds
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port, limit=2**20)

    def close(self) -> None:
        """Close the connections that are not in use."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()


@dataclass
class Phase:
    """What happened to the requests of some seconds: when each was due, its latency, and the version that answered."""

    rate: float
    due: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    version: list[int] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    """Seconds by which the generator itself was late; it must be small, or it measures itself."""
    errors: int = 0
    seconds: float = 0.0

    def percentile(self, share: float, values: Sequence[float] | None = None) -> float | None:
        """Return a percentile in milliseconds; None without values."""
        ordered = sorted(self.latency if values is None else values)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None

    def near_swaps(self, within: float = 1.0) -> tuple[list[float], list[float]]:
        """Return the latencies of requests that were due near the first answer of a new version, and the others."""
        order = sorted(range(len(self.due)), key=lambda number: self.due[number])
        swaps, newest = [], 0
        for number in order:
            if self.version[number] > newest:
                swaps += [self.due[number]] if newest else []
                newest = self.version[number]
        near = [any(abs(moment - swap) <= within for swap in swaps) for moment in self.due]
        pairs = list(zip(self.latency, near, strict=True))
        return [value for value, is_near in pairs if is_near], [value for value, is_near in pairs if not is_near]

    @property
    def num_swaps(self) -> int:
        """The number of versions that came while it lasted."""
        return max(0, len(set(self.version)) - 1)


class Load:
    """Asks for slates at random times, and sends feedback to some of the items."""

    def __init__(self, url: str, users: Sequence[str], behaviour: str, seed: int = 0) -> None:
        self.connections, self._users, self._behaviour = Connections(url), users, behaviour
        self._chance, self._number, self._seed = random.Random(seed), 0, seed
        self.slates: list[tuple[str, list[str]]] = []
        """The latest decisions with their items."""
        self.feedback_errors = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, rate: float, seconds: float) -> Phase:
        """Send requests at a mean rate for some seconds, wait for all answers, and return what happened."""
        phase, began = Phase(rate), time.perf_counter()
        due = began
        while (due := due + self._chance.expovariate(rate)) < began + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            phase.lateness.append(time.perf_counter() - due)
            self._begin(self._recommend(phase, due))
        while self._tasks:
            await asyncio.gather(*self._tasks)
        phase.seconds = time.perf_counter() - began
        return phase

    def events(self, count: int) -> list[dict[str, str]]:
        """Return so many new events for the latest slates."""
        self._number += 1
        names = (self._chance.choice(self.slates) for _ in range(count))
        pairs = ((decision, self._chance.choice(items)) for decision, items in names)
        first = f"e{self._seed}-{self._number}"
        return [
            {"event_id": f"{first}-{place}", "decision_id": decision, "item": item, "behaviour": self._behaviour}
            for place, (decision, item) in enumerate(pairs)
        ]

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _recommend(self, phase: Phase, due: float) -> None:
        self._number += 1
        chance = self._chance
        new = chance.random() < SHARE_NEW_USERS
        user = f"new-{chance.randrange(10_000)}" if new else chance.choice(self._users)
        body: dict[str, object] = {"request_id": f"b{self._seed}-{self._number}", "user": user}
        if chance.random() < SHARE_EXCLUDE_SEEN:
            body["exclude_seen"] = True
        try:
            status, text = await self.connections.post("/v1/recommend", body)
        except (OSError, asyncio.IncompleteReadError):
            status, text = 0, b""
        if status != 200:
            phase.errors += 1
            return
        phase.latency.append(time.perf_counter() - due)
        answer = json.loads(text)
        phase.due.append(due)
        phase.version.append(answer["version"])
        slate = (answer["decision_id"], [item["id"] for item in answer["items"]])
        self.slates = [*self.slates[-_KEPT_SLATES:], slate] if len(self.slates) > 2 * _KEPT_SLATES else self.slates
        self.slates.append(slate)
        clicked = [item for item in slate[1] if chance.random() < SHARE_CLICKED]
        if clicked:
            self._begin(self._respond(slate[0], clicked))

    async def _respond(self, decision: str, items: Sequence[str]) -> None:
        await asyncio.sleep(self._chance.expovariate(1 / DELAY))
        events = [
            {"event_id": f"{decision}/{item}", "decision_id": decision, "item": item, "behaviour": self._behaviour}
            for item in items
        ]
        try:
            status, _ = await self.connections.post("/v1/feedback", {"events": events})
        except (OSError, asyncio.IncompleteReadError):
            status = 0
        self.feedback_errors += status != 200


async def feedback_rate(load: Load, seconds: float, batch: int = 20, at_once: int = 4) -> tuple[float, int]:
    """Return the events per second that are stored in batches by some senders at once, and the errors."""
    end, stored, errors = time.perf_counter() + seconds, 0, 0
    began = time.perf_counter()

    async def send() -> None:
        nonlocal stored, errors
        while time.perf_counter() < end:
            status, text = await load.connections.post("/v1/feedback", {"events": load.events(batch)})
            if status == 200:
                stored += sum(result["status"] in ("stored", "late") for result in json.loads(text)["results"])
            else:
                errors += 1

    await asyncio.gather(*(send() for _ in range(at_once)))
    return stored / (time.perf_counter() - began), errors


async def sample_memory(read: Callable[[], float], samples: list[tuple[float, float]], pause: float = 1.0) -> None:
    """Note the time and the memory again and again, until cancelled."""
    while True:
        samples.append((time.perf_counter(), read()))
        await asyncio.sleep(pause)


def growth_per_hour(samples: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of the second half of the samples, in their unit per hour; None if there are too few."""
    half = samples[len(samples) // 2 :]
    if len(half) < 3:
        return None
    mean_time, mean = (sum(column) / len(half) for column in zip(*half, strict=True))
    spread = math.fsum((moment - mean_time) ** 2 for moment, _ in half)
    return 3600 * math.fsum((moment - mean_time) * (value - mean) for moment, value in half) / spread

"""Simulated traffic: users arrive at random times, get a slate, respond to it, and send feedback."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gfn4rec.client import AsyncClient, ClientError, Event, Recommendation
from gfn4rec.client.results import new_id
from gfn4rec.live.traffic.config import TrafficConfig
from gfn4rec.live.traffic.feedback import deliveries
from gfn4rec.live.traffic.responder import Responder
from gfn4rec.live.traffic.tally import WINDOW, Period, Tally
from gfn4rec.live.traffic.users import Responses, Shown, SimulatedUsers
from gfn4rec.seeding import numpy_generator

_LARGEST_LAG: Final = 1.0  # seconds behind the plan after which the plan is shifted
_LONGEST_SLEEP: Final = 0.1  # seconds, so that an end is noticed soon
_PATIENCE_AT_END: Final = 2.0


@dataclass(frozen=True)
class _Visit:
    number: int
    user: int
    due: float


class Traffic:
    """Plays users against a service until `is_ended`, or the number of requests or seconds of the settings."""

    def __init__(
        self,
        client: AsyncClient,
        users: SimulatedUsers,
        config: TrafficConfig,
        is_ended: Callable[[], bool] = lambda: False,
        report: Callable[[Period, Tally], None] = lambda *_: None,
    ) -> None:
        self._client, self._users, self._config = client, users, config
        self._is_ended, self._report = is_ended, report
        self._responder, self.tally = Responder(users), Tally()
        self._random = numpy_generator(config.seed, "traffic/arrivals")
        self._busy: set[int] = set()
        self._name = new_id()[:12]
        self.seconds_behind = 0.0
        """For how long arrivals were put off because the service or this machine was too slow."""

    async def run(self) -> float:
        """Run to the end, and return the seconds that it took until the last answer."""
        self._began = asyncio.get_running_loop().time()
        self._slots = asyncio.Semaphore(min(self._config.concurrency, len(self._users.ids)))
        self._no_more = asyncio.Event()  # delayed feedback does not wait any longer
        self._feedback: set[asyncio.Task[None]] = set()
        reporting = asyncio.create_task(self._report_windows())
        try:
            async with asyncio.TaskGroup() as visits:
                await self._arrive(visits)
                if self._is_ended():
                    self._hurry()
            seconds = self._now()
            self._no_more.set()
            await asyncio.gather(*self._feedback)
        finally:
            reporting.cancel()
            self._responder.close()
        return seconds

    async def _arrive(self, visits: asyncio.TaskGroup) -> None:
        number, due, most = 0, 0.0, self._config.requests
        while most is None or number < most:
            due += float(self._random.exponential(1.0 / self._config.rate))
            user = int(self._random.integers(len(self._users.ids)))
            if not await self._sleep_until(due):
                return
            await self._slots.acquire()
            lag = self._now() - due
            if lag > _LARGEST_LAG:
                self.seconds_behind += lag
                due += lag
            if not self._is_on():
                self._slots.release()
                return
            visits.create_task(self._visit(_Visit(number, self._take(user), due)))
            number += 1

    async def _sleep_until(self, due: float) -> bool:
        """Sleep, and return whether the traffic goes on."""
        while self._is_on() and (left := due - self._now()) > 0:
            await asyncio.sleep(min(left, _LONGEST_SLEEP))
        return self._is_on()

    def _is_on(self) -> bool:
        most = self._config.seconds
        return not self._is_ended() and (most is None or self._now() < most)

    def _take(self, user: int) -> int:
        """Return this user, or the next one who is not looking at a slate."""
        while user in self._busy:
            user = (user + 1) % len(self._users.ids)
        self._busy.add(user)
        return user

    async def _visit(self, visit: _Visit) -> None:
        try:
            answer = await self._client.recommend(
                self._users.ids[visit.user],
                greediness=self._config.greediness,
                request_id=f"{self._name}-{visit.number}",
            )
            latency = self._now() - visit.due
            shown = Shown(visit.number, visit.user, tuple(item.id for item in answer.items))
            responses = await self._responder.respond(shown)
        except ClientError as error:
            self.tally.failed(error.detail)
            return
        finally:
            self._busy.discard(visit.user)
            self._slots.release()
        self.tally.answered(self._now(), latency, responses.reward, responses.expected_reward, answer.version)
        self.tally.counts["unknown items"] += responses.num_unknown
        self._send_feedback(visit.number, answer, responses)

    def _send_feedback(self, number: int, answer: Recommendation, responses: Responses) -> None:
        events = [
            Event(answer.decision_id, item.id, name)
            for item, names in zip(answer.items, responses.behaviours, strict=True)
            for name in names
        ]
        random = numpy_generator(self._config.seed, f"traffic/feedback/{number}")
        sent = deliveries(events, self._config, random)
        arriving = {event.event_id for delivery in sent for event in delivery.events}
        self.tally.counts["events"] += len(events)
        self.tally.counts["lost on purpose"] += len(events) - len(arriving)
        for delivery in sent:
            task = asyncio.create_task(self._deliver(delivery.delay, delivery.events))
            self._feedback.add(task)
            task.add_done_callback(self._feedback.discard)

    async def _deliver(self, delay: float, events: tuple[Event, ...]) -> None:
        try:
            async with asyncio.timeout(delay):
                await self._no_more.wait()
        except TimeoutError:
            pass
        try:
            for result in await self._client.feedback_batch(events):
                self.tally.counts[result.status] += 1
        except ClientError as error:
            self.tally.failed(error.detail)

    def _hurry(self) -> None:
        """Do not wait long for a service that may have ended, too."""
        self._client.patience.seconds = min(self._client.patience.seconds, _PATIENCE_AT_END)

    async def _report_windows(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(max(0.0, (number + 1) * WINDOW - self._now()))
            self._report(self.tally.window(number), self.tally)
            number += 1

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._began

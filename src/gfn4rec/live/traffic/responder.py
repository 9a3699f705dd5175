"""Responses of simulated users, computed in one thread: whatever waits is one batch."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from gfn4rec.live.traffic.users import Responses, Shown, SimulatedUsers


class Responder:
    """Lets simulated users respond without holding up the event loop."""

    def __init__(self, users: SimulatedUsers) -> None:
        self._users, self._thread = users, ThreadPoolExecutor(1, "simulated users")
        self._waiting: list[tuple[Shown, asyncio.Future[Responses]]] = []
        self._task: asyncio.Task[None] | None = None

    async def respond(self, shown: Shown) -> Responses:
        """Return the responses to a slate."""
        future: asyncio.Future[Responses] = asyncio.get_running_loop().create_future()
        self._waiting.append((shown, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await future

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                results = await loop.run_in_executor(self._thread, self._users.respond, [shown for shown, _ in batch])
            except Exception as error:  # whoever waits must learn of it
                for _, future in batch:
                    future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)

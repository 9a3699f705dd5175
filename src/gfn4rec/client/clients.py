"""The two clients. They differ only in how they send and sleep."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, overload
from urllib.parse import urlsplit

from gfn4rec.client import calls
from gfn4rec.client.calls import Call
from gfn4rec.client.retries import Outcome, Patience, Step, attempts
from gfn4rec.errors import UserError

if TYPE_CHECKING:
    import httpx2

P = ParamSpec("P")
Result = TypeVar("Result")
TIMEOUT: Final = 10.0
PATIENCE: Final = 30.0


class _Endpoint(Generic[P, Result]):
    """A method of both clients: the call with its arguments, run by the client."""

    def __init__(self, build: Callable[P, Call[Result]]) -> None:
        self._build = build
        update_wrapper(self, build)  # type: ignore[arg-type]

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, Result]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: type) -> Callable[P, Coroutine[Any, Any, Result]]: ...
    def __get__(self, client: "Client | AsyncClient | None", owner: type) -> object:
        if client is None:
            return self

        @wraps(self._build)
        def method(*arguments: P.args, **options: P.kwargs) -> object:
            return client.run(self._build(*arguments, **options))

        return method


class _Calls:
    """The methods of both clients; `calls` says what each does."""

    recommend = _Endpoint(calls.recommend)
    feedback = _Endpoint(calls.feedback)
    feedback_batch = _Endpoint(calls.feedback_batch)
    shown = _Endpoint(calls.shown)
    put_item = _Endpoint(calls.put_item)
    get_item = _Endpoint(calls.get_item)
    delete_item = _Endpoint(calls.delete_item)
    find_items = _Endpoint(calls.find_items)
    find_users = _Endpoint(calls.find_users)
    history = _Endpoint(calls.history)
    versions = _Endpoint(calls.versions)
    promote = _Endpoint(calls.promote)
    rollback = _Endpoint(calls.rollback)
    status = _Endpoint(calls.status)
    ready = _Endpoint(calls.ready)
    wait_until_ready = _Endpoint(calls.wait_until_ready)


class Client(_Calls):
    """A client of a live service, for several threads; close it, or use it in a `with` statement.

    `timeout` is the seconds to wait for an answer, `patience` those for which a call is repeated that failed because
    the service could not be reached or answered 429 or 503; 0 never repeats.

    >>> Client("127.0.0.1:8000")
    Traceback (most recent call last):
    gfn4rec.errors.UserError: 127.0.0.1:8000: is not the address of a service; write one such as http://127.0.0.1:8000
    """

    def __init__(
        self,
        url: str,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        transport: "httpx2.BaseTransport | None" = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url, self.patience = _checked(url), Patience(patience)
        self._http: httpx2.Client = _library().Client(timeout=timeout, transport=transport)
        self._sleep = sleep

    def run(self, call: Call[Result]) -> Result:
        """Send a call, and return what its answer says."""
        steps = attempts(call, _request(self._http, self.url, call), self.url, self.patience)
        outcome: Outcome = None
        try:
            while True:
                outcome = self._outcome(steps.send(outcome))
        except StopIteration as end:
            result: Result = end.value
            return result

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _outcome(self, step: Step) -> Outcome:
        import httpx2

        if isinstance(step, float):
            self._sleep(step)
            return None
        try:
            return self._http.send(step)
        except httpx2.TransportError as error:
            return error


class AsyncClient(_Calls):
    """The same for asyncio: its methods are awaited; close it with `aclose`, or use it in `async with`."""

    def __init__(
        self,
        url: str,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        transport: "httpx2.AsyncBaseTransport | None" = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url, self.patience = _checked(url), Patience(patience)
        self._http: httpx2.AsyncClient = _library().AsyncClient(timeout=timeout, transport=transport)
        self._sleep = sleep

    async def run(self, call: Call[Result]) -> Result:
        """Send a call, and return what its answer says."""
        steps = attempts(call, _request(self._http, self.url, call), self.url, self.patience)
        outcome: Outcome = None
        try:
            while True:
                outcome = await self._outcome(steps.send(outcome))
        except StopIteration as end:
            result: Result = end.value
            return result

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _outcome(self, step: Step) -> Outcome:
        import httpx2

        if isinstance(step, float):
            await self._sleep(step)
            return None
        try:
            return await self._http.send(step)
        except httpx2.TransportError as error:
            return error


def _request(http: "httpx2.Client | httpx2.AsyncClient", base: str, call: Call[Result]) -> "httpx2.Request":
    return http.build_request(call.method, base + call.path, json=call.body, params=call.query)


def _checked(url: str) -> str:
    """Return the address without a slash at its end."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment:
        raise UserError(f"{url}: is not the address of a service; write one such as http://127.0.0.1:8000")
    return url.rstrip("/")


def _library() -> ModuleType:
    """Return the library that speaks HTTP; a `UserError` if it is not installed."""
    try:
        import httpx2
    except ImportError as error:
        raise UserError("httpx2 is not installed; `pip install 'gfn4rec[live]'` installs it") from error
    return httpx2

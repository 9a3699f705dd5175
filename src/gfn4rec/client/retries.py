"""When a call is sent again, without sending anything: the same for both clients."""

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from gfn4rec.client.calls import Call, Result
from gfn4rec.client.problems import ClientError

if TYPE_CHECKING:
    import httpx2

_REFUSED: Final = (429, 503)  # nothing was done; the call may be sent again
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

Step: TypeAlias = "httpx2.Request | float"
"""A request to send, or seconds to sleep."""
Outcome: TypeAlias = "httpx2.Response | httpx2.TransportError | None"
"""What came of a step: the response, or the failure to get one; nothing after sleep."""


@dataclass
class Patience:
    """For how long calls are repeated, and how often they were."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random
    num_retries: int = field(default=0, init=False)

    def pause(self, attempt: int, retry_after: float) -> float:
        """Return the seconds before the next attempt: what the service asks for, and a growing random share more.

        >>> [round(Patience(30, draw=lambda: 1.0).pause(attempt, 0), 3) for attempt in (1, 2, 3, 10)]
        [0.1, 0.2, 0.4, 5.0]
        >>> Patience(30, draw=lambda: 0.0).pause(1, retry_after=2)
        2.05
        """
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (attempt - 1))
        return retry_after + longest * (1 + self.draw()) / 2


def attempts(
    call: Call[Result], request: "httpx2.Request", base: str, patience: Patience
) -> Generator[Step, Outcome, Result]:
    """Yield the steps of a call until it is answered, or until there is no patience left; return the result."""
    import httpx2

    began, attempt = patience.clock(), 0
    while True:
        outcome = yield request
        attempt, retry_after = attempt + 1, 0.0
        if isinstance(outcome, httpx2.Response):
            if outcome.is_success or (call.is_probe and outcome.status_code == 503):
                return _parsed(call, outcome, base)
            error = _refusal(outcome, base)
            can_repeat = outcome.status_code in _REFUSED and not call.is_probe
            retry_after = seconds_of(outcome.headers.get("Retry-After"))
        else:
            assert outcome is not None
            error = _unreachable(outcome, base)
            # A connection that was never made has carried nothing.
            can_repeat = call.can_repeat or isinstance(outcome, httpx2.ConnectError | httpx2.ConnectTimeout)
            can_repeat = can_repeat and not call.is_probe
        pause = patience.pause(attempt, retry_after)
        if not can_repeat or patience.clock() - began + pause > patience.seconds:
            raise error
        patience.num_retries += 1
        yield pause


def seconds_of(retry_after: str | None, now: Callable[[], float] = time.time) -> float:
    """Return the seconds that a `Retry-After` header asks for, which are a number or a date; 0 if it makes no sense.

    >>> seconds_of("7"), seconds_of("Thu, 01 Jan 1970 00:01:00 GMT", now=lambda: 50.0), seconds_of("soon")
    (7.0, 10.0, 0.0)
    """
    if retry_after is None:
        return 0.0
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    return max(0.0, (date - datetime.fromtimestamp(now(), UTC)).total_seconds())


def _parsed(call: Call[Result], response: "httpx2.Response", base: str) -> Result:
    try:
        return call.parse(response.status_code, response.content)
    except (ValueError, KeyError, IndexError) as error:
        raise ClientError(f"{base}: is no gfn4rec service, or one of another version", response.status_code) from error


def _refusal(response: "httpx2.Response", base: str) -> ClientError:
    """Return the service's own sentence as an error."""
    status = response.status_code
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = None
    if isinstance(detail, str):
        return ClientError(detail, status)
    return ClientError(f"{base}: is no gfn4rec service (it answers {status} to {response.request.url.path})", status)


def _unreachable(error: "httpx2.TransportError", base: str) -> ClientError:
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return ClientError(f"{base}: does not answer in time; try again, or give the client a longer timeout")
    reason = str(error) or type(error).__name__
    return ClientError(f"{base}: nothing answers there ({reason}); start `gfn4rec serve`, or correct the address")

"""What is refused before a request reaches the service: large bodies, other types, foreign hosts, foreign pages."""

import logging
from typing import Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gfn4rec.live.http.problems import problem

LARGEST_BODY: Final = 2**20
_LONGEST_LENGTH: Final = 18  # digits of a Content-Length
_LOG: Final = logging.getLogger(__name__)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Refuses bodies over the limit, and requests that a page of another origin makes in a browser.

    A service without keys is for this machine alone. A foreign page could still reach it through a browser here, under
    a name of its own that resolves to this machine; so the name must be that of the loopback interface.
    """

    def __init__(self, app: ASGIApp, largest_body: int = LARGEST_BODY) -> None:
        self._app, self._largest_body = app, largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(headers)
        if refusal is not None:
            await problem(*refusal)(scope, receive, send)
            return
        received, has_answered = 0, False

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._largest_body:
                raise HTTPException(*self._too_large())  # the only kind of error that reading a body lets through
            return message

        async def noted(message: Message) -> None:
            nonlocal has_answered
            has_answered = True
            await send(message)

        try:
            await self._app(scope, limited, noted)
        except Exception:
            _LOG.exception("%s %s failed", scope["method"], scope["path"])
            if not has_answered:
                await problem(500, "the service has failed; its log says why")(scope, receive, send)

    def _refusal(self, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "").lower()
        if host.rpartition(":")[0] not in _LOOPBACK and host not in _LOOPBACK:
            return 421, f"host {host[:80]!r}: this service answers under 127.0.0.1 or localhost only"
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != host:
            return 403, "requests from pages of another origin are refused"
        length = headers.get("content-length", "0").lstrip("0") or "0"
        if length.isdecimal() and (len(length) > _LONGEST_LENGTH or int(length) > self._largest_body):
            return self._too_large()
        has_body = length != "0" or "transfer-encoding" in headers
        if has_body and not _is_json(headers.get("content-type", "")):
            return 415, "bodies are JSON; send them with the header `Content-Type: application/json`"
        return None

    def _too_large(self) -> tuple[int, str]:
        return 413, f"the body is larger than {self._largest_body:,} bytes; send several smaller ones"


def _authority(origin: str) -> str | None:
    """Return the host and port of an origin, None if it has none."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"

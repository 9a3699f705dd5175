"""Errors as problem details (RFC 9457): one clear sentence, never a traceback."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from gfn4rec.errors import RunError, UserError
from gfn4rec.live.batcher import QueueFull
from gfn4rec.live.records import ConflictError, NotFoundError
from gfn4rec.live.store.writer import StoreError

_RETRY: Final = {"Retry-After": "1"}


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a problem as a response."""
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(content, status, dict(headers or {}), media_type="application/problem+json")


def describe(errors: list[Any]) -> str:
    """Return what is wrong with a body, in one line that names the field."""
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    place = ".".join(str(part) for part in first["loc"][1:] if isinstance(part, int) or not part.startswith("function"))
    if first["type"] == "json_invalid":
        return "the body is not valid JSON"
    if first["type"] == "extra_forbidden":
        return f"{place}: unknown field; /openapi.json lists the fields"
    if first["type"] == "missing":
        return f"{place or 'body'}: missing"
    return f"{place or 'body'}: {first['msg'].removeprefix('Value error, ')}"


def add_handlers(app: FastAPI) -> None:
    """Turn every error into a problem."""

    def answer(kind: type[Exception], status: int, detail: str | None = None, retry: bool = False) -> None:
        def handle(_: Request, error: Exception) -> JSONResponse:
            text = detail.format(error) if detail else str(error)
            return problem(status, text, _RETRY if retry else None)

        app.add_exception_handler(kind, handle)

    answer(UserError, 422)
    answer(ConflictError, 409)
    answer(NotFoundError, 404)
    answer(QueueFull, 429, "too many requests are waiting; try again", retry=True)
    answer(StoreError, 503, "the store cannot be reached ({}); try again", retry=True)
    answer(RunError, 503, "the policy cannot answer ({}); roll back to another version", retry=True)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return problem(422, describe(list(error.errors())))

    @app.exception_handler(HTTPException)
    def refused(_: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, str(error.detail), error.headers)

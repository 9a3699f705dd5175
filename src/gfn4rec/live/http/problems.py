"""Errors as problem details (RFC 9457): one clear sentence, never a traceback."""

import json
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
_LONGEST_DETAIL: Final = 500  # characters; a body's own words in it may be long
_SENTENCES: Final = {
    400: "the body is not valid JSON",
    404: "there is nothing at this address; /openapi.json lists what there is",
    405: "this address does not take this method; /openapi.json lists those it takes",
}
_MESSAGES: Final = {
    "dict_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
    "list_type": "must be a list",
    "extra_forbidden": "unknown field; /openapi.json lists the fields",
    "missing": "missing",
    "string_unicode": "control characters and lone surrogates are not allowed",
}
MEDIA_TYPE: Final = "application/problem+json"


class _Escaped(JSONResponse):
    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        """Return JSON that quotes any text, even lone surrogates of a body."""
        return json.dumps(content, ensure_ascii=True).encode("ascii")


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a problem as a response."""
    if len(detail) > _LONGEST_DETAIL:
        detail = f"{detail[:_LONGEST_DETAIL]}..."
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return _Escaped(content, status, dict(headers or {}))


def describe(errors: list[Any]) -> str:
    """Return what is wrong with a request, in one line that names the field; unknown fields come first."""
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    inner = [str(part) for part in first["loc"][1:] if not str(part).startswith("(")]  # the others choose a type
    place = ".".join(inner) or first["loc"][0]
    message = _MESSAGES.get(first["type"], first["msg"].removeprefix("Value error, "))
    return f"{place}: {message.removeprefix('Input ')}"


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
        errors = list(error.errors())
        if errors[0]["type"] == "json_invalid":
            return problem(400, _SENTENCES[400])
        return problem(422, describe(errors))

    @app.exception_handler(HTTPException)
    def refused(_: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, _SENTENCES.get(error.status_code, str(error.detail)), error.headers)

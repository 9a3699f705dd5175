"""Requests generated from an OpenAPI description, right ones and wrong ones, and a check of the answers."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlencode

import httpx2
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from gfn4rec.live.http.schemas import Problem

Json: TypeAlias = Any
TEXTS: Final = (
    *(
        "a",
        "0",
        "-1",
        "1e3",
        "null",
        "NaN",
        " ",
        "a b",
        "a/b",
        "..",
        "%2F",
        "?x=1#y",
        "'; --",
        "\u00e9",
        "\u6f22",
        "\u0661",
    ),
    *(
        "\U0001f642",
        "\u202e",
        "\ufeff",
        "\x00",
        "\x1f",
        "\x7f",
        "\ud800",
        "9" * 100,
        "x" * 256,
        "\\",
        '"',
        "{}",
        "\u2028",
    ),
)
NUMBERS: Final = (0, 1, -1, 0.0, -0.0, 0.5, 1e-9, 5e-324, 1e308, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
WRONG: Final[tuple[Json, ...]] = (
    *(None, True, False, "", "x" * 5000, "\x00", "\udfff", [], {}, [[]], {"a": {}}, [None], 2**63, 2**64, -(2**65)),
    *(float("nan"), float("inf"), float("-inf"), 10**400, 1.5, -1, "1", *TEXTS[:3]),
)
NOT_JSON: Final = (
    b"",
    b"{",
    b"nul",
    b"\xff\xfe",
    b"[" * 5000,
    b'{"a":1}x',
    b'{"a":1,"a":2}',
    b"NaN",
    b"1e999",
    b'"\\ud800"',
)
HEADERS: Final = (
    {"host": "evil.example"},
    {"host": ""},
    {"origin": "http://evil.example"},
    {"origin": "http://[::1"},
    {"content-type": "text/plain"},
    {"content-type": "application/json; charset=latin-1"},
    {"content-length": "99999999999999999999"},
)
WEIGHTS: Final = {"/v1/recommend": 8.0, "/v1/feedback": 6.0, "/v1/shown": 2.0, "/v1/status": 0.2}
_ELSEWHERE: Final = {404, 405}  # `..` or a slash in a part of an address may make it another one, or none
SHARE_WRONG: Final = 0.4  # of bodies with something wrong
SHARE_ODD: Final = 0.04  # of requests that are no JSON, or have odd headers


@dataclass(frozen=True)
class Operation:
    """What the description says of a method of an address."""

    method: str
    path: str
    parameters: Sequence[Json]
    body: Json
    statuses: frozenset[int]


@dataclass(frozen=True)
class Generated:
    """A request."""

    operation: Operation
    url: str
    content: bytes | None
    headers: Mapping[str, str]


class Generator:
    """Makes requests of all operations of a description; `known` has values that mean something, by field."""

    def __init__(self, description: Json, known: Mapping[str, Sequence[Json]], seed: int) -> None:
        self._schemas, self._known, self._chance = description["components"]["schemas"], known, random.Random(seed)
        self.operations = [
            Operation(method.upper(), path, entry.get("parameters", ()), _body(entry), _statuses(entry))
            for path, methods in description["paths"].items()
            for method, entry in methods.items()
        ]
        self._weights = [WEIGHTS.get(operation.path, 1.0) for operation in self.operations]

    def next(self) -> Generated:
        """Return the next request."""
        (operation,) = self._chance.choices(self.operations, self._weights)
        path, query, chance = operation.path, {}, self._chance
        for parameter in operation.parameters:
            name, value = parameter["name"], self._value(parameter["schema"], parameter["name"])
            if chance.random() < 0.1:
                value = chance.choice(TEXTS)
            text = str(value).encode("utf-8", "surrogatepass")
            if parameter["in"] == "path":
                path = path.replace(f"{{{name}}}", quote(text, safe=""))
            elif chance.random() < 0.7:
                query[name] = text
        url = f"{path}?{urlencode(query)}" if query else path
        if operation.body is None:
            return Generated(operation, url, None, self._odd_headers(HEADERS[:4]))
        content = json.dumps(self._new_body(operation.body)).encode()
        if chance.random() < SHARE_ODD:
            content = chance.choice((*NOT_JSON, content[: len(content) // 2]))
        return Generated(operation, url, content, {"content-type": "application/json", **self._odd_headers(HEADERS)})

    def _odd_headers(self, choices: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
        return self._chance.choice(choices) if self._chance.random() < SHARE_ODD else {}

    def _new_body(self, schema: Json) -> Json:
        body = self._value(schema, "")
        while self._chance.random() < SHARE_WRONG:
            body = self._spoiled(body)
        return body

    def _spoiled(self, value: Json) -> Json:
        """Return a value with something wrong in it, at any depth."""
        chance = self._chance
        if isinstance(value, dict) and value and chance.random() < 0.9:
            name = chance.choice(list(value))
            change = chance.random()
            if change < 0.15:
                return {key: each for key, each in value.items() if key != name}
            if change < 0.3:
                return {**value, chance.choice(TEXTS): chance.choice(WRONG)}
            return {**value, name: self._spoiled(value[name])}
        if isinstance(value, list) and value and chance.random() < 0.7:
            place = chance.randrange(len(value))
            return [*value[:place], self._spoiled(value[place]), *value[place + 1 :]]
        return chance.choice(WRONG)

    def _value(self, schema: Json, name: str) -> Json:
        """Return a value that a schema allows."""
        chance = self._chance
        if "$ref" in schema:
            return self._value(self._schemas[schema["$ref"].rpartition("/")[2]], name)
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                return self._value(chance.choice(schema[choice]), name)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        kind = schema["type"]
        if kind in ("string", "integer") and self._known.get(name) and chance.random() < 0.85:
            return chance.choice(self._known[name])
        if kind == "array":
            return [self._value(schema["items"], name) for _ in range(self._length(schema))]
        if kind == "object":
            return self._object(schema)
        if kind == "string":
            return (chance.choice(TEXTS) + chance.choice(("", "", str(chance.random()))))[: schema.get("maxLength")]
        return None if kind == "null" else self._scalar(kind, schema)

    def _scalar(self, kind: str, schema: Json) -> Json:
        chance = self._chance
        if kind == "boolean":
            return chance.random() < 0.5
        low, high = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
        edges = [number for number in (low, high, *NUMBERS) if low <= number <= high]
        if kind == "integer":
            return int(chance.choice([number for number in edges if number == int(number)]))
        return chance.choice((*edges, low + (high - low) * chance.random()))

    def _length(self, schema: Json) -> int:
        longest = schema.get("maxItems", 8)
        length = self._chance.choices((0, 1, 2, 5, 12, longest + 1), (2, 6, 6, 4, 2, 0.02))[0]
        return int(max(length, schema.get("minItems", 0))) if length <= 1001 else 0

    def _object(self, schema: Json) -> Json:
        required, chance = schema.get("required", ()), self._chance
        value = {
            name: self._value(part, name)
            for name, part in schema.get("properties", {}).items()
            if name in required or chance.random() < 0.3
        }
        if isinstance(schema.get("additionalProperties"), dict):
            for _ in range(chance.choice((0, 1, 2, 3))):
                name = chance.choice((*self._known.get("feature", ()), chance.choice(TEXTS)))
                value[name] = self._value(schema["additionalProperties"], f"feature {name}")
        return value


@dataclass
class Report:
    """What became of the requests."""

    statuses: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """By method, address and status."""
    faults: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of requests."""
        return self.statuses.total()


async def fuzz(app: FastAPI, generator: Generator, count: int, base_url: str, at_once: int = 32) -> Report:
    """Send generated requests, some of them at the same time, and check each answer."""
    report, left, models = Report(), iter(range(count)), _models(app)

    async def send(client: httpx2.AsyncClient) -> None:
        for _ in left:
            request = generator.next()
            operation = request.operation
            answer = await client.request(
                operation.method, request.url, content=request.content, headers=dict(request.headers)
            )
            report.statuses[operation.method, operation.path, answer.status_code] += 1
            if (fault := _fault(operation, answer, models)) is not None:
                body = None if request.content is None else request.content[:2000]
                report.faults.append(f"{operation.method} {request.url} {request.headers} {body!r}: {fault}")

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=base_url) as client:
        await asyncio.gather(*(send(client) for _ in range(at_once)))
    return report


def _fault(
    operation: Operation, answer: httpx2.Response, models: Mapping[tuple[str, str], type[BaseModel]]
) -> str | None:
    """Return what is wrong with an answer: no request may make the service fail, or be answered otherwise than said."""
    status = answer.status_code
    if status >= 500 or status not in operation.statuses | (_ELSEWHERE if "{" in operation.path else set()):
        return f"{status} {answer.text[:500]}"
    model = models[operation.method, operation.path] if status < 300 else Problem
    try:
        model.model_validate_json(answer.content)
    except ValidationError as error:
        return f"{status}, but the body is not as described: {error}"
    return None


def _body(entry: Json) -> Json:
    return entry["requestBody"]["content"]["application/json"]["schema"] if "requestBody" in entry else None


def _statuses(entry: Json) -> frozenset[int]:
    return frozenset(int(status) for status in entry["responses"])


def _models(app: FastAPI) -> dict[tuple[str, str], type[BaseModel]]:
    """Return the models of good answers, by method and address as the description writes it."""
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.include_in_schema]
    return {
        (method, route.path_format): max(route.responses.items(), key=lambda entry: entry[0] in (200, 201))[1]["model"]
        for route in routes
        for method in route.methods or ()
    }

"""The FastAPI application: bodies in, decisions out. It has no logic of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, TypeVar

from fastapi import FastAPI, Path, Query, Response
from fastapi.responses import JSONResponse
from pydantic import AfterValidator
from starlette.concurrency import run_in_threadpool

from gfn4rec import __version__
from gfn4rec.errors import UserError
from gfn4rec.live.batcher import QueueFull
from gfn4rec.live.host import Host
from gfn4rec.live.http.answers import item_body, recommend_body, status_body
from gfn4rec.live.http.bodies import EventBody, FeedbackBody, ItemBody, RecommendBody, ShownBody, is_plain
from gfn4rec.live.http.guard import Guard
from gfn4rec.live.http.problems import add_handlers, problem
from gfn4rec.live.http.schemas import (
    AliveAnswer,
    FeedbackAnswer,
    HistoryAnswer,
    ItemAnswer,
    ItemsAnswer,
    PutItemAnswer,
    ReadyAnswer,
    RecommendAnswer,
    ShownAnswer,
    StatusAnswer,
    UsersAnswer,
    VersionsAnswer,
    answers,
    with_problem,
)
from gfn4rec.live.page import SECURITY_HEADERS, page_files

Result = TypeVar("Result")
IdPath = Annotated[str, Path(min_length=1, max_length=256), AfterValidator(is_plain)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Search = Annotated[str, Query(max_length=256)]


class _App(FastAPI):
    def openapi(self) -> dict[str, object]:
        """Return the OpenAPI description, with the schema of problems."""
        return with_problem(super().openapi())


def create_app(host: Host) -> FastAPI:
    """Return the application of a service; its start and end are those of the service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(host.start)
        yield
        await run_in_threadpool(host.stop)

    app = _App(
        title="gfn4rec live service",
        version=__version__,
        description="Recommends slates, takes feedback, and learns from it. Errors are problem details (RFC 9457).",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    add_handlers(app)
    app.add_middleware(Guard)
    _add_slates(app, host)
    _add_items(app, host)
    _add_versions(app, host)
    _add_probes(app, host)
    _add_page(app)
    return app


def _add_slates(app: FastAPI, host: Host) -> None:
    service = host.service

    @app.post("/v1/recommend", responses=answers(RecommendAnswer, 409, 429, has_body=True))
    async def recommend(body: RecommendBody) -> JSONResponse:
        """Draw slates for a user."""
        began = time.perf_counter()
        try:
            decisions = await asyncio.wrap_future(service.recommend(body.ask()))
        except QueueFull:
            service.statistics.count("refused")
            raise
        except UserError:
            raise
        except Exception:
            service.statistics.count("failed")
            raise
        service.statistics.answered(time.perf_counter() - began)
        return JSONResponse(recommend_body(decisions, service.items))

    @app.post("/v1/feedback", responses=answers(FeedbackAnswer, has_body=True))
    async def feedback(body: FeedbackBody) -> JSONResponse:
        """Store what users did with slates: one event, or several that are stored together or not at all."""
        events = [one.event() for one in ([body] if isinstance(body, EventBody) else body.events)]
        statuses = await asyncio.wrap_future(service.feedback(events))
        results = [
            {"event_id": event.event_id, "status": status} for event, status in zip(events, statuses, strict=True)
        ]
        return JSONResponse({"results": results})

    @app.post("/v1/shown", responses=answers(ShownAnswer, has_body=True))
    async def shown(body: ShownBody) -> JSONResponse:
        """Report slates as shown that were asked for with `"activate": "on_shown"`."""
        statuses = await asyncio.wrap_future(service.shown(body.decision_ids))
        pairs = zip(body.decision_ids, statuses, strict=True)
        return JSONResponse({"results": [{"decision_id": name, "status": status} for name, status in pairs]})


def _add_items(app: FastAPI, host: Host) -> None:
    service = host.service

    @app.get("/v1/items", responses=answers(ItemsAnswer, 422))
    def find_items(search: Search = "", limit: Limit = 20) -> JSONResponse:
        """Find items whose id or title contains a text."""
        found, total = service.items.search(search, limit)
        return JSONResponse({"items": [item_body(item) for item in found], "total": total})

    @app.get("/v1/items/{item_id:path}", responses=answers(ItemAnswer, 404, 422))
    def get_item(item_id: IdPath) -> JSONResponse:
        """Return an item as it is now."""
        return JSONResponse(item_body(service.items.get(item_id)))

    @app.put("/v1/items/{item_id:path}", responses=answers(PutItemAnswer, has_body=True, created=True))
    def put_item(item_id: IdPath, body: ItemBody) -> JSONResponse:
        """Add or change an item, or enable it again; it can be shown from now on."""
        item, is_new, notes = service.put_item(item_id, body.title, body.features)
        return JSONResponse(item_body(item) | {"notes": notes}, 201 if is_new else 200)

    @app.delete("/v1/items/{item_id:path}", responses=answers(ItemAnswer, 404, 422))
    def delete_item(item_id: IdPath) -> JSONResponse:
        """Disable an item: it is not shown until it is put again."""
        return JSONResponse(item_body(service.disable_item(item_id)))

    @app.get("/v1/users", responses=answers(UsersAnswer, 422))
    def find_users(search: Search = "", limit: Limit = 20) -> JSONResponse:
        """Find users of the log whose id begins with a text."""
        users, total = service.encoding.find_users(search, limit)
        return JSONResponse({"users": users, "total": total})

    @app.get("/v1/users/{user:path}/history", responses=answers(HistoryAnswer, 422))
    def history(user: IdPath) -> JSONResponse:
        """Return what the policy reads of a user now."""
        events = [
            {"item": item, "title": known.title if (known := service.items.find(item)) else None, "behaviours": names}
            for item, names in service.history(user)
        ]
        return JSONResponse({"user": user, "is_known": service.encoding.user(user) > 0, "history": events})


def _add_versions(app: FastAPI, host: Host) -> None:
    promotion = host.promotion

    def changed(change: Callable[[], None]) -> JSONResponse:
        change()
        return JSONResponse(promotion.body())

    @app.get("/v1/versions", responses=answers(VersionsAnswer))
    def versions() -> JSONResponse:
        """Return the versions of the policy, newest first."""
        return JSONResponse(promotion.body())

    @app.post("/v1/versions/rollback", responses=answers(VersionsAnswer, 409))
    def rollback() -> JSONResponse:
        """Go back to the version that was promoted before, and stop automatic promotion."""
        return changed(promotion.rollback)

    @app.post("/v1/versions/{version}/promote", responses=answers(VersionsAnswer, 404, 409, 422))
    def promote(version: int) -> JSONResponse:
        """Answer with this version from now on; automatic promotion goes on from here."""
        return changed(lambda: promotion.promote(version))

    @app.post("/v1/versions/{version}/rollback", responses=answers(VersionsAnswer, 409, 422))
    def rollback_from(version: int) -> JSONResponse:
        """Go back as above, if this version is still the promoted one."""
        return changed(lambda: promotion.rollback(version))


def _add_probes(app: FastAPI, host: Host) -> None:
    @app.get("/livez", responses=answers(AliveAnswer))
    async def alive() -> JSONResponse:
        """Say that the process runs."""
        return JSONResponse({"status": "alive"})

    @app.get("/readyz", responses=answers(ReadyAnswer))
    async def ready() -> JSONResponse:
        """Say whether requests are answered; 503 says why not."""
        problems = host.problems()
        return (
            problem(503, "; ".join(problems), {"Retry-After": "1"}) if problems else JSONResponse({"status": "ready"})
        )

    @app.get("/v1/status", responses=answers(StatusAnswer))
    def status() -> JSONResponse:
        """Return what the page at `/` shows."""
        return JSONResponse(status_body(host))


def _add_page(app: FastAPI) -> None:
    files = page_files()

    def serve(path: str) -> Callable[[], Response]:
        file = files[path]
        return lambda: Response(file.content, media_type=file.content_type, headers=dict(SECURITY_HEADERS))

    for path in files:
        app.add_api_route(path, serve(path), include_in_schema=False, methods=["GET"])

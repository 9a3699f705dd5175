"""The FastAPI application: bodies in, decisions out. It has no logic of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

from fastapi import Body as BodyField
from fastapi import FastAPI, Path, Query, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from gfn4rec import __version__
from gfn4rec.live.batcher import QueueFull
from gfn4rec.live.host import Host
from gfn4rec.live.http.answers import item_body, recommend_body, status_body
from gfn4rec.live.http.bodies import EventBody, EventsBody, ItemBody, RecommendBody, ShownBody
from gfn4rec.live.http.guard import Guard
from gfn4rec.live.http.problems import add_handlers, problem
from gfn4rec.live.page import SECURITY_HEADERS, page_files

Result = TypeVar("Result")
ItemPath = Annotated[str, Path(min_length=1, max_length=256)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Search = Annotated[str, Query(max_length=256)]


def create_app(host: Host) -> FastAPI:
    """Return the application of a service; its start and end are those of the service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(host.start)
        yield
        await run_in_threadpool(host.stop)

    app = FastAPI(title="gfn4rec live service", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
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

    @app.post("/v1/recommend")
    async def recommend(body: RecommendBody) -> JSONResponse:
        began = time.perf_counter()
        try:
            decisions = await asyncio.wrap_future(service.recommend(body.ask()))
        except QueueFull:
            service.statistics.count("refused")
            raise
        service.statistics.answered(time.perf_counter() - began)
        return JSONResponse(recommend_body(decisions, service.items))

    @app.post("/v1/feedback")
    async def feedback(body: Annotated[EventBody | EventsBody, BodyField()]) -> JSONResponse:
        events = [one.event() for one in ([body] if isinstance(body, EventBody) else body.events)]
        statuses = await asyncio.wrap_future(service.feedback(events))
        results = [
            {"event_id": event.event_id, "status": status} for event, status in zip(events, statuses, strict=True)
        ]
        return JSONResponse({"results": results})

    @app.post("/v1/shown")
    async def shown(body: ShownBody) -> JSONResponse:
        statuses = await asyncio.wrap_future(service.shown(body.decision_ids))
        pairs = zip(body.decision_ids, statuses, strict=True)
        return JSONResponse({"results": [{"decision_id": name, "status": status} for name, status in pairs]})


def _add_items(app: FastAPI, host: Host) -> None:
    service = host.service

    @app.get("/v1/items")
    def find_items(search: Search = "", limit: Limit = 20) -> JSONResponse:
        found, total = service.items.search(search, limit)
        return JSONResponse({"items": [item_body(item) for item in found], "total": total})

    @app.get("/v1/items/{item_id:path}")
    def get_item(item_id: ItemPath) -> JSONResponse:
        return JSONResponse(item_body(service.items.get(item_id)))

    @app.put("/v1/items/{item_id:path}", responses={201: {"description": "Added"}})
    def put_item(item_id: ItemPath, body: ItemBody) -> JSONResponse:
        item, is_new, notes = service.put_item(item_id, body.title, body.features)
        return JSONResponse(item_body(item) | {"notes": notes}, 201 if is_new else 200)

    @app.delete("/v1/items/{item_id:path}")
    def delete_item(item_id: ItemPath) -> JSONResponse:
        return JSONResponse(item_body(service.disable_item(item_id)))

    @app.get("/v1/users")
    def find_users(search: Search = "", limit: Limit = 20) -> JSONResponse:
        users, total = service.encoding.find_users(search, limit)
        return JSONResponse({"users": users, "total": total})

    @app.get("/v1/users/{user}/history")
    def history(user: ItemPath) -> JSONResponse:
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

    @app.get("/v1/versions")
    def versions() -> JSONResponse:
        return JSONResponse(promotion.body())

    @app.post("/v1/versions/rollback")
    def rollback() -> JSONResponse:
        return changed(promotion.rollback)

    @app.post("/v1/versions/{version}/promote")
    def promote(version: int) -> JSONResponse:
        return changed(lambda: promotion.promote(version))

    @app.post("/v1/versions/{version}/rollback")
    def rollback_from(version: int) -> JSONResponse:
        return changed(lambda: promotion.rollback(version))


def _add_probes(app: FastAPI, host: Host) -> None:
    @app.get("/livez")
    async def alive() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/readyz", responses={503: {"description": "Not ready"}})
    async def ready() -> Any:
        problems = host.problems()
        return problem(503, "; ".join(problems), {"Retry-After": "1"}) if problems else {"status": "ready"}

    @app.get("/v1/status")
    def status() -> JSONResponse:
        return JSONResponse(status_body(host))


def _add_page(app: FastAPI) -> None:
    files = page_files()

    def serve(path: str) -> Callable[[], Response]:
        file = files[path]
        return lambda: Response(file.content, media_type=file.content_type, headers=dict(SECURITY_HEADERS))

    for path in files:
        app.add_api_route(path, serve(path), include_in_schema=False, methods=["GET"])

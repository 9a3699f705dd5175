"""A client of the live service: `Client` waits for its answers, `AsyncClient` is for asyncio.

    from gfn4rec.client import Client

    with Client("http://127.0.0.1:8000") as client:
        answer = client.recommend("42", greediness=0.3)
        client.feedback(answer.decision_id, answer.items[0].id, "click")

A call that fails because the service cannot be reached, is overloaded or restarts is repeated with the same
`request_id` or `event_id`, so that nothing happens twice.
"""

from gfn4rec.client.clients import AsyncClient, Client
from gfn4rec.client.problems import ClientError
from gfn4rec.client.results import (
    Event,
    EventCounts,
    EventStatus,
    History,
    HistoryEvent,
    Item,
    Items,
    LearnerReport,
    Readiness,
    Recommendation,
    RequestCounts,
    RewardWindow,
    ServedData,
    ShownStatus,
    Slate,
    SlateItem,
    Status,
    Users,
    Version,
    VersionReward,
    Versions,
)

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Event",
    "EventCounts",
    "EventStatus",
    "History",
    "HistoryEvent",
    "Item",
    "Items",
    "LearnerReport",
    "Readiness",
    "Recommendation",
    "RequestCounts",
    "RewardWindow",
    "ServedData",
    "ShownStatus",
    "Slate",
    "SlateItem",
    "Status",
    "Users",
    "Version",
    "VersionReward",
    "Versions",
]

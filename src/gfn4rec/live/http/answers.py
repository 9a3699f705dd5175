"""The service's values as JSON bodies."""

import math
from collections.abc import Sequence

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import identity_of
from gfn4rec.live.host import Host
from gfn4rec.live.items import Item, LiveItems
from gfn4rec.live.records import Decision


def recommend_body(decisions: Sequence[Decision], items: LiveItems) -> dict[str, object]:
    """Return the answer to a request; the first slate is also at the top level."""
    slates = [_slate(decision, items) for decision in decisions]
    first = decisions[0]
    return {
        "request_id": first.request_id,
        "version": first.version,
        **slates[0],
        "slates": slates,
        "notes": list(first.notes),
    }


def _slate(decision: Decision, items: LiveItems) -> dict[str, object]:
    pairs = zip(decision.slate, decision.log_prob, strict=True)
    shown = [
        {"id": name, "title": None if (item := items.find(name)) is None else item.title, "probability": math.exp(log)}
        for name, log in pairs
    ]
    return {"decision_id": decision.decision_id, "items": shown, "log_prob": sum(decision.log_prob)}


def item_body(item: Item) -> dict[str, object]:
    """Return an item; features of an item of the log are in the data set, not here."""
    return {"id": item.id, "title": item.title, "features": item.features, "is_enabled": item.is_enabled}


def status_body(host: Host) -> dict[str, object]:
    """Return what the page shows."""
    service, config = host.service, host.service.config
    counts = dict(service.statistics.counts)
    states = host.decision_counts()
    return {
        "name": host.data.manifest.name,
        "data": _data_body(host.data),
        "policy": host.policy_name,
        "slate_size": host.data.slate_size,
        "num_items": len(service.items),
        "num_users": host.data.num_users,
        "behaviours": list(host.data.behaviours),
        "has_prior": service.desk.policy.has_prior,
        "greediness": config.greediness,
        "reward_weight": config.reward_weight,
        "wait": config.wait,
        "now": service.clock(),
        "started": service.statistics.started,
        "is_ready": not (problems := host.problems()),
        "problems": problems,
        "store": host.store.dialect,
        "decisions": sum(states.values()),
        **{name: states.get(name, 0) for name in ("open", "waiting", "expired")},
        "samples": states.get("closed", 0),
        "events": {
            name: counts.get(f"event/{status}", 0)
            for name, status in (
                ("stored", "stored"),
                ("duplicate", "duplicate"),
                ("late", "late"),
                ("unknown", "unknown decision"),
            )
        },
        "learner": host.learner_body(),
        "versions": host.promotion.body(),
        **service.statistics.as_dict(),
    }


def _data_body(data: SlateData) -> dict[str, str]:
    """Return which data set is served, and where it is, for programs on this machine."""
    identity = identity_of(data.manifest)
    return {
        "directory": str(data.directory.resolve()),
        "users_sha256": identity.users_sha256,
        "items_sha256": identity.items_sha256,
    }

"""A clock, a policy and a data set with which thousands of requests take seconds."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import torch
from typing_extensions import override

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Behaviour, Interactions
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.live.config import ServiceConfig
from gfn4rec.live.records import Ask, Decision
from gfn4rec.live.service import LiveService
from gfn4rec.live.store.store import Store
from gfn4rec.policies.base import Context, Plan, Policy, PolicyConfig, pointwise_plan
from gfn4rec.policies.catalogue import Catalogue
from tests.small_catalogue import generator

HISTORY = 4
BEHAVIOURS = {"click": 1.0, "like": 2.0, "hide": -1.0}
ITEMS = tuple("abcdefgh")
LONGEST_WAIT = 60  # seconds until a future that never comes fails its test


class FakeClock:
    """Stands still until it is set."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class FakeConfig(PolicyConfig):
    """Settings of the fake policy."""

    @property
    @override
    def history_length(self) -> int:
        return HISTORY


class FakePolicy(Policy):
    """Scores items by fixed vectors and what a history holds, so that feedback changes what is drawn."""

    description: ClassVar = "a fake"
    Config: ClassVar = FakeConfig

    def __init__(self, catalogue: Catalogue, seed: int = 0) -> None:
        super().__init__(catalogue, FakeConfig())
        vector_ND = torch.randn(catalogue.num_items + 1, 4, generator=generator(seed))
        self.vector_ND = torch.nn.Parameter(vector_ND, requires_grad=False)
        weight_R = torch.arange(1.0, len(catalogue.weight_R) + 1)
        self.weight_R = torch.nn.Parameter(weight_R, requires_grad=False)

    @override
    def plan(self, context: Context) -> Plan:
        request = context.request
        weight_BH = 0.1 + request.response_BHR @ self.weight_R
        query_BD = (self.vector_ND[request.history_BH] * (weight_BH * (request.history_BH > 0))[:, :, None]).sum(dim=1)
        return pointwise_plan(context.candidates, context.candidates.matrix(self.vector_ND), query_BD.tanh())


def prepare_live_data(folder: Path, **settings: Any) -> None:
    """Prepare a log of four users (u1 to u4) and eight items (a to h) in slates of three, none held out."""
    rows = []
    for user in range(1, 5):
        for time in range(6 * user):
            number = (time + 3 * user) % len(ITEMS)
            flags = ((time + user) % 2, int(time % 3 == 0), int(time % 5 == 4))
            rows.append((f"u{user}", ITEMS[number], 10 * time + user, *flags))
    log = pl.DataFrame(rows, schema=["user", "item", "time", *BEHAVIOURS], orient="row")
    behaviours = tuple(Behaviour(name, weight) for name, weight in BEHAVIOURS.items())
    config = PrepareConfig(core=1, slate_size=3, test_slates=0, val_slates=0, **settings)
    prepare(Interactions(log, behaviours), config, folder, "live")


@contextmanager
def running_service(
    data: SlateData, store: Store, clock: FakeClock, policy: Policy | None = None, **settings: Any
) -> Iterator[LiveService]:
    """Yield a service that answers; the store stays open."""
    policy = policy or FakePolicy(Catalogue.of(data))
    service = LiveService(data, store, policy, 1, ServiceConfig.model_validate(settings), clock, seed=0)
    service.batcher.start()
    try:
        yield service
    finally:
        service.batcher.close()


def ask(request_id: str, user: str | None = "u1", body_hash: str | None = None, **more: Any) -> Ask:
    """Return a request; its body's hash is that of its id and user, unless another is given."""
    digest = hashlib.sha256(f"{request_id}/{user}/{sorted(more.items())}".encode()).hexdigest()
    return Ask(request_id, body_hash or digest, user=user, **more)


def recommend(service: LiveService, request_id: str, user: str | None = "u1", **more: Any) -> tuple[Decision, ...]:
    """Return the decisions of a request."""
    return service.recommend(ask(request_id, user, **more)).result(LONGEST_WAIT)

"""A small run, and services of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch
from starlette.testclient import TestClient

from gfn4rec import api
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.live.config import ServiceConfig
from gfn4rec.live.host import Host, Place
from gfn4rec.live.http.app import create_app
from gfn4rec.live.records import Ask, Decision
from gfn4rec.nn.entity_encoder import EntityEncoder
from gfn4rec.policies.base import Policy
from tests.training.conftest import new_policy, small_settings

ADDRESS = "http://127.0.0.1:8000"
SIZE = 3  # of a slate
PROBLEM = {"type", "title", "status", "detail"}


def make_run(directory: Path, name: str = "gfn-prior", **prepare_settings: Any) -> Path:
    """Prepare data and train for a moment, from weights that make users, histories and items matter."""
    config = PrepareConfig(slate_size=SIZE, **prepare_settings)
    prepare(generate(PRESETS["tiny"], seed=1)[1], config, directory / "data", "synthetic-tiny")
    settings = small_settings(name, "offline", {"num_steps": 2})
    data = SlateData.open(directory / "data", settings.policy_settings.history_length)
    policy = new_policy(data, settings)
    stir(policy)
    api.train(settings, data, None, directory / "run", policy=policy)
    return directory / "run"


def stir(policy: Policy, seed: int = 0) -> None:
    """Move all weights from their values, at random."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.15 * torch.randn(weight.shape, generator=generator))
        for encoder in (module for module in policy.modules() if isinstance(module, EntityEncoder)):
            encoder.id_embedding.weight[0] = 0


def open_host(run: Path, directory: Path, **config: Any) -> Host:
    """Open the service of a run, in a directory of its own, without a learner."""
    return Host(Place.of(run, directory, None), ServiceConfig(**config))


def new_client(host: Host) -> TestClient:
    """Return a client of a service in this process; entering it starts the service."""
    return TestClient(create_app(host), base_url=ADDRESS)


def recommend(client: TestClient, request_id: str, **body: Any) -> dict[str, Any]:
    """Return the answer to a request that is in order."""
    response = client.post("/v1/recommend", json={"request_id": request_id, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def feedback(client: TestClient, *events: Mapping[str, Any]) -> list[str]:
    """Return what became of events that are in order."""
    response = client.post("/v1/feedback", json={"events": list(events)})
    assert response.status_code == 200, response.text
    return [result["status"] for result in response.json()["results"]]


def problem_of(response: Any, status: int) -> str:
    """Return the sentence of a problem, after a check that it is one and nothing else."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert set(body) == PROBLEM
    assert (body["type"], body["status"]) == ("about:blank", status)
    detail: str = body["detail"]
    assert detail
    assert "\n" not in detail
    assert "Traceback" not in detail
    return detail


def ids(answer: Mapping[str, Any]) -> list[str]:
    """The items of the first slate."""
    return [item["id"] for item in answer["items"]]


def ask(request_id: str, user: str | None = None, **more: Any) -> Ask:
    """A request as the service takes it; other bodies have other hashes."""
    return Ask(request_id, f"{user} {sorted(more.items())}", user, **more)


def decide(host: Host, *asks: Ask) -> list[Sequence[Decision]]:
    """Ask a service that has started, all at once, and return its decisions."""
    futures = [host.service.recommend(each) for each in asks]
    return [future.result(timeout=60) for future in futures]


def logged_history(run: Path, user: str, behaviours: Sequence[str], length: int) -> list[tuple[str, tuple[str, ...]]]:
    """The latest rows of a user in the prepared log, read from its files."""
    data = run.parent / "data"
    users, items = (pl.read_parquet(data / f"{name}.parquet")["id"].cast(pl.String) for name in ("users", "items"))
    number = users.to_list().index(user) + 1
    log = pl.read_parquet(data / "log.parquet").filter(pl.col("user") == number)
    rows = log.tail(length).to_dicts()
    return [(items[row["item"] - 1], tuple(name for name in behaviours if row[name])) for row in rows]

"""Runs on the small data set, answered by users whose probabilities are written down."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gfn4rec.data.dataset import SlateData
from gfn4rec.policies import policy_class
from gfn4rec.simulator.environment import EnvironmentConfig
from gfn4rec.training.config import Kind, RunSettings, resolve_settings
from gfn4rec.training.parts import Users, new_manifest
from gfn4rec.training.run import Run
from tests.simulator.conftest import FixedUsers

SMALL = {
    "encoder.dim": 8,
    "encoder.embedding_dim": 4,
    "encoder.num_heads": 2,
    "encoder.num_layers": 1,
    "encoder.feedforward_dim": 8,
    "encoder.state_dim": 16,
    "encoder.history_length": 10,
    "hidden_dims": [32],
}
QUICK = {
    "num_users": 16,
    "learning_batch": 32,
    "num_steps": 12,
    "warmup_steps": 2,
    "evaluate_every": 5,
    "evaluation_batches": 2,
    "final_batches": 3,
    "checkpoint_every": 4,
}
TRIAL = {key: value for key, value in {**SMALL, **QUICK}.items() if key != "num_steps"}  # a search has its own


def small_settings(policy: str, kind: Kind = "online", changes: Mapping[str, Any] | None = None) -> RunSettings:
    """Settings of a run that takes a second."""
    only_online = ("warmup_steps", "evaluation_batches") if kind == "offline" else ()
    quick = {key: value for key, value in QUICK.items() if key not in only_online}
    small = {} if policy in ("popularity", "random") else SMALL
    first = {"ranker.first_steps": 2} if policy_class(policy).learns_in_stages else {}
    return resolve_settings(kind, policy, changes=quick | small | first | dict(changes or {}))


@pytest.fixture
def users(data: SlateData) -> Users:
    """Sixteen users who like items of high number."""
    config = EnvironmentConfig(num_users=16, slate_size=data.slate_size, rho=0.1)
    return Users(data, FixedUsers(data), config)


@pytest.fixture
def new_run(data: SlateData, data_folder: Path, tmp_path: Path) -> Callable[..., Run]:
    """Begin a run."""

    def make(settings: RunSettings, name: str = "run") -> Run:
        return Run.create(tmp_path / name, new_manifest(settings, data, data_folder, None, 1))

    return make

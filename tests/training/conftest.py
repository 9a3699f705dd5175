"""Runs on the small data set, answered by users whose probabilities are written down."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gfn4rec.data.dataset import SlateData
from gfn4rec.policies import build_policy, policy_class
from gfn4rec.policies.backbone import BackboneConfig
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.simulator.environment import EnvironmentConfig
from gfn4rec.training.config import Mode, RunSettings, resolve_settings
from gfn4rec.training.opened_run import OpenedRun, Users
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


def small_settings(policy: str, mode: Mode = "online", changes: Mapping[str, Any] | None = None) -> RunSettings:
    """Settings of a run that takes a second."""
    only_online = ("warmup_steps", "evaluation_batches") if mode == "offline" else ()
    quick = {key: value for key, value in QUICK.items() if key not in only_online}
    config = policy_class(policy).Config()
    small = SMALL if isinstance(config, BackboneConfig) else {}
    first: dict[str, object] = {"ranker.first_steps": 2} if config.idle_steps else {}
    if policy == "gfn-prior":
        first = {f"prior_{key}": value for key, value in SMALL.items() if key.startswith("encoder.")}
        first |= {"log_steps": 6} if mode == "online" else {}
    return resolve_settings(mode, policy, changes=quick | small | first | dict(changes or {}))


@pytest.fixture
def users(data: SlateData) -> Users:
    """Sixteen users who like items of high number."""
    config = EnvironmentConfig(num_users=16, slate_size=data.slate_size, rho=0.1)
    return Users(data, FixedUsers(data), config)


def new_policy(data: SlateData, settings: RunSettings) -> Policy:
    """Return the untrained policy of a run."""
    return build_policy(settings.policy, Catalogue.of(data), settings.policy_settings, settings.seed)


@pytest.fixture
def new_run(data: SlateData, tmp_path: Path) -> Callable[..., Run]:
    """Begin a run."""

    def make(settings: RunSettings, name: str = "run") -> Run:
        return OpenedRun.begin(settings, data, None, tmp_path / name).run

    return make

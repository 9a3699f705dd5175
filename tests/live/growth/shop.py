"""A small service with everything around it in one process: store, versions, learner, and users to show slates to."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.config import LearnerSettings, ServiceConfig
from gfn4rec.live.growth import untrained_policy
from gfn4rec.live.learning import LiveLearner, learner_config
from gfn4rec.live.promotion import Promotion
from gfn4rec.live.records import Ask, Decision, Event
from gfn4rec.live.service import LiveService, probe_requests
from gfn4rec.live.store.store import Store
from gfn4rec.live.versions import VersionManifest, Versions
from gfn4rec.nn.entity_encoder import EntityEncoder
from gfn4rec.policies import build_policy, policy_class
from gfn4rec.policies.backbone import BackboneConfig
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from tests.live.fakes import LONGEST_WAIT, FakeClock
from tests.small_catalogue import SMALL_ENCODER

WAIT = 10.0
SETTINGS = LearnerSettings(samples_per_step=16, warmup_samples=0, learning_batch=64, learning_rate=5e-3)


def small_policy(data: SlateData, name: str, **settings: Any) -> Policy:
    """Return an untrained policy with small networks."""
    config = policy_class(name).Config
    small: dict[str, Any] = {}
    if issubclass(config, BackboneConfig):
        small |= {"encoder": SMALL_ENCODER, "hidden_dims": (16,)}
    if "prior_encoder" in config.model_fields:
        small |= {"prior_encoder": SMALL_ENCODER}
    return build_policy(name, Catalogue.of(data), small | settings)


def forget_ids(policy: Policy) -> Policy:
    """Set to 0 what items have for themselves, so that equal features are all that matters."""
    with torch.no_grad():
        for module in policy.modules():
            if isinstance(module, EntityEncoder) and module.num_entities == policy.catalogue.num_items:
                module.id_embedding.weight.zero_()
        for name, weight in policy.named_parameters():
            if name.endswith(("own_ND", "bias_N")):
                weight.zero_()
    return policy


class Shop:
    """A service, its versions, and a learner that is called by hand."""

    def __init__(self, data: SlateData, directory: Path, policy: Policy, **settings: Any) -> None:
        self.data, self.directory, self.clock = data, directory, FakeClock()
        self.first = policy
        self.store = Store(str(directory / "store.db"))
        self.versions = Versions(directory / "versions")
        self.promotion = Promotion(self.store, self.versions, self.policy_for, probe_requests(data), self.clock, 50)
        current, version = self.promotion.start(policy)
        config = ServiceConfig(wait=WAIT, **settings)
        self.service = LiveService(data, self.store, current, version, config, self.clock, seed=0)
        self.promotion.on_swap(self.service.swap)
        self.service.batcher.start()
        self._num_asked = 0

    def policy_for(self, manifest: VersionManifest) -> Policy:
        """Return an untrained policy for a version's weights."""
        return untrained_policy(build_policy_like(self.first, self.data), self.data, manifest.num_items)

    def learner(self, name: str, settings: LearnerSettings = SETTINGS, directory: Path | None = None) -> LiveLearner:
        """Return the learner, which begins with the first policy or goes on at its checkpoint."""
        policy = build_policy_like(self.first, self.data)
        policy.load_state_dict(self.first.state_dict())
        config, store = learner_config(name, settings), Store(str(self.directory / "store.db"), read_only=True)
        return LiveLearner(self.data, policy, config, settings, store, directory or self.directory, seed=0)

    def ask(self, users: Sequence[str | None], **more: Any) -> list[Decision]:
        """Return a slate for each user, answered together."""
        futures = []
        for user in users:
            self._num_asked += 1
            futures.append(self.service.recommend(Ask(f"r{self._num_asked}", "", user=user, **more)))
        return [future.result(LONGEST_WAIT)[0] for future in futures]

    def respond(self, decisions: Sequence[Decision], is_clicked: Callable[[str], bool]) -> None:
        """Send a click for each item that is clicked, and close all decisions."""
        events = [
            Event(f"{decision.decision_id}/{item}", decision.decision_id, item, "click")
            for decision in decisions
            for item in decision.slate
            if is_clicked(item)
        ]
        if events:
            assert set(self.service.feedback(events).result(LONGEST_WAIT)) == {"stored"}

    def close_all(self) -> None:
        """Let the waiting time pass."""
        self.clock.advance(WAIT + 1)
        self.service.close_due()


def build_policy_like(policy: Policy, data: SlateData) -> Policy:
    """Return an untrained policy with the same settings."""
    return type(policy)(Catalogue.of(data), policy.config)


@contextmanager
def open_shop(data: SlateData, directory: Path, policy: Policy, **settings: Any) -> Iterator[Shop]:
    """Yield a shop that is open."""
    shop = Shop(data, directory, policy.eval(), **settings)
    try:
        yield shop
    finally:
        shop.service.batcher.close()
        shop.store.close()


def raw_features(data: SlateData, number: int) -> dict[str, Any]:
    """Return the features of an item of the data set as `PUT /v1/items` takes them."""
    row, features = data.items.row(number - 1, named=True), dict[str, Any]()
    for entry in data.manifest.item_features:
        value = row[entry.name]
        if entry.kind == "numeric":
            features[entry.name] = value
        else:
            names = [entry.vocabulary[code - 2] for code in (value if entry.kind == "multi" else [value])]
            features[entry.name] = names if entry.kind == "multi" else names[0]
    return features


def first_step(shop: Shop, user: int = 1) -> Tensor:
    """Return the log-probability of every item at the first step of a slate for a user of the log, (N,)."""
    policy, num_items = shop.service._current_desk().policy, len(shop.service.items)
    others = list(range(1, num_items + 1))
    size = policy.catalogue.slate_size
    slates = torch.tensor([[number, *[other for other in others if other != number][: size - 1]] for number in others])
    request = shop.data.latest(torch.full((num_items,), user))
    return policy.log_probs(request, slates)[:, 0].detach()


def everything(learner: LiveLearner) -> dict[str, Tensor]:
    """Return all tensors that a checkpoint has, by their full names."""
    parts = {"policy": learner.policy.state_dict(), **learner.learner.state_dict()}
    return {f"{part}/{name}": value.clone() for part, values in parts.items() for name, value in values.items()}

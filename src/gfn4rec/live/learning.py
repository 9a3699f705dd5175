"""The learner of the live service: reads samples in their order, learns, publishes versions.

What it learns depends on the samples and their order alone, not on when they arrive: after every so many samples it
makes one step. A learner that was killed begins again at its checkpoint and ends with the same weights; if its threads
follow the free cores, the same but for the rounding of sums.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live.checkpoints import Checkpoints, LearnerManifest
from gfn4rec.live.config import LearnerSettings
from gfn4rec.live.encoding import Encoding
from gfn4rec.live.growth import grow_learner
from gfn4rec.live.items import LiveItems
from gfn4rec.live.records import Sample
from gfn4rec.live.store.decisions import newest_sample, samples_after
from gfn4rec.live.store.state import item_changes_after, newest_version
from gfn4rec.live.store.store import Store
from gfn4rec.live.versions import VersionManifest, Versions
from gfn4rec.nn.weights import load_weights
from gfn4rec.policies.base import Policy
from gfn4rec.storage import write_whole
from gfn4rec.training.config import OnlineConfig, resolve_settings
from gfn4rec.training.online_learner import OnlineLearner, OnlineLearnerConfig
from gfn4rec.training.optimisation import NotFinite
from gfn4rec.training.run import POLICY

_READ_AT_ONCE: Final = 512
STATUS: Final = "status.json"


@dataclass
class LearnerStatus:
    """What the learner reports, as `status.json`."""

    step: int
    cursor: int
    loss: float | None
    samples_per_step: int
    skipped: int
    updated: float


def learner_config(policy: str, settings: LearnerSettings) -> OnlineLearnerConfig:
    """Return how a policy learns from live feedback: as in online training, at a constant rate."""
    training = resolve_settings("online", policy).training
    assert isinstance(training, OnlineConfig)
    values = {name: getattr(training, name) for name in OnlineLearnerConfig.model_fields}
    given = {name: getattr(settings, name) for name in ("learning_batch", "learning_rate")}
    values |= {"learning_steps": 1, "schedule": "constant", "tensorboard": False}
    return OnlineLearnerConfig.parse(values | {name: value for name, value in given.items() if value}, "learner")


class LiveLearner:
    """Learns a policy from the samples of a store; `take` is called again and again."""

    def __init__(
        self,
        data: SlateData,
        policy: Policy,
        config: OnlineLearnerConfig,
        settings: LearnerSettings,
        store: Store,
        directory: Path,
        seed: int,
    ) -> None:
        self.data, self.settings, self.directory = data, settings, directory
        self._config, self._store, self._encoding = config, store, Encoding(data)
        self._versions = Versions(directory / "versions")
        self._checkpoints = Checkpoints(directory / "learner" / "checkpoints")
        self._items = LiveItems.of(data)
        self.learner = OnlineLearner(policy, config, seed)
        self.cursor, self.pending, self.skipped = 0, 0, 0
        self._losses: list[float] = []  # since the latest version
        self._learned_to, self._published_to = 0, self._versions.trained_to()
        self._resume()

    @property
    def policy(self) -> Policy:
        """The policy that is learned."""
        return self.learner.policy

    @property
    def has_news(self) -> bool:
        """Whether anything was learned that no version knows.

        A learner that begins again from an earlier sample publishes nothing until it has caught up, because what
        serves knows more.
        """
        return self._learned_to > self._published_to

    @property
    def loss(self) -> float | None:
        """The latest loss since the latest version."""
        return self._losses[-1] if self._losses else None

    def take(self, is_asked: Callable[[], bool] = lambda: False) -> int:
        """Read what samples there are, at most a few hundred, and learn from them; return how many.

        If asked to end, it stops after the step at hand.
        """
        with self._store.read() as connection:
            samples = samples_after(connection, self.cursor, _READ_AT_ONCE)
        position = 0
        while position < len(samples) and not is_asked():
            count = self._next_chunk(samples[position:])
            self._observe(samples[position : position + count])
            position += count
        return position

    def publish(self) -> VersionManifest:
        """Publish the weights as the next version."""
        with self._store.read() as connection:  # it also knows versions that have been deleted
            number = max(1, newest_version(connection), *self._versions.numbers()) + 1
        loss = sum(self._losses) / len(self._losses) if self._losses else None
        manifest = self._versions.publish(
            self.policy,
            number=number,
            parent=number - 1,
            trained_to_seq=self._learned_to,
            step=self.learner.num_learned,
            revision=self._items.revision,
            loss=loss,
        )
        self._losses, self._published_to = [], self._learned_to
        return manifest

    def save(self) -> None:
        """Write a checkpoint: cursor, weights, optimiser, buffer and random generators, whole or not at all."""
        manifest = LearnerManifest(
            cursor=self.cursor,
            pending=self.pending,
            learned_to=self._learned_to,
            skipped=self.skipped,
            revision=self._items.revision,
            settings=self.settings,
        )
        self._checkpoints.save(manifest, {POLICY: self.policy.state_dict(), **self.learner.state_dict()})

    def report(self) -> None:
        """Write the status that the service shows."""
        status = LearnerStatus(
            step=self.learner.num_learned,
            cursor=self.cursor,
            loss=self.loss,
            samples_per_step=self.settings.samples_per_step,
            skipped=self.skipped,
            updated=time.time(),
        )
        write_whole(self.directory / "learner" / STATUS, json.dumps(status.__dict__))

    def _next_chunk(self, samples: Sequence[Sample]) -> int:
        """Return how many samples come before the next step, or before the catalogue changes again."""
        missing, revision = (
            self.settings.samples_per_step - self.pending,
            max(samples[0].revision, self._items.revision),
        )
        later = (place for place, sample in enumerate(samples) if sample.revision > revision)
        return min(missing, next(later, len(samples)))

    def _observe(self, samples: Sequence[Sample]) -> None:
        self._advance(samples[0].revision)
        length = self.policy.config.history_length
        request = self._encoding.request(
            [sample.user for sample in samples], [sample.history for sample in samples], self._items, length
        )
        slate_BK = torch.tensor([[self._items.get(item).number for item in sample.slate] for sample in samples])
        response_BKR = torch.stack([self._encoding.responses(sample.responses) for sample in samples])
        self.learner.observe(request, slate_BK, response_BKR)
        self.cursor, self.pending = samples[-1].seq, self.pending + len(samples)
        if self.pending == self.settings.samples_per_step:
            self.pending = 0
            # Before, the same few slates would fill the batch.
            if self.cursor >= max(self.settings.warmup_samples, self._config.learning_batch):
                self._learn()

    def _learn(self) -> None:
        try:
            loss = self.learner.learn()["loss"]
        except NotFinite:
            self.skipped += 1
            return
        assert isinstance(loss, float)
        self._losses.append(loss)
        self._learned_to = self.cursor

    def _advance(self, revision: int) -> None:
        """Let the policy know the items of a revision of the catalogue."""
        if revision > self._items.revision:
            with self._store.read() as connection:
                changes = item_changes_after(connection, self._items.revision)
            self._items = self._items.after(change for change in changes if change.revision <= revision)
            grow_learner(self.learner, self.data, self._items)

    def _resume(self) -> None:
        checkpoint = self._checkpoints.load()
        if checkpoint is None:
            return
        manifest, parts = checkpoint
        where = self._checkpoints.directory
        for name, of in (("samples_per_step", "samples per step"), ("warmup_samples", "samples of warm-up")):
            known, wanted = getattr(manifest.settings, name), getattr(self.settings, name)
            if known != wanted:
                raise UserError(
                    f"{where}: made with {known} {of}, not {wanted}; keep {known}, or delete it to begin again"
                )
        with self._store.read() as connection:
            if manifest.cursor > (newest := newest_sample(connection)):  # restored from an older copy
                problem = f"has read {manifest.cursor} samples, but the store has {newest}"
                raise UserError(f"{where}: {problem}; delete it to begin again")
        self._advance(manifest.revision)
        load_weights(self.policy, parts.pop(POLICY), where)
        self.learner.load_state_dict(parts)
        self.cursor, self.pending, self.skipped = manifest.cursor, manifest.pending, manifest.skipped
        self._learned_to = manifest.learned_to


def read_status(directory: Path) -> LearnerStatus | None:
    """Return the learner's latest report, or None."""
    try:
        return LearnerStatus(**json.loads((directory / "learner" / STATUS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None

"""Versions of the fake policy, and the promotion of them, without a service around it."""

from pathlib import Path
from typing import Any

import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.promotion import Promotion
from gfn4rec.live.records import VersionRow
from gfn4rec.live.service import probe_requests
from gfn4rec.live.store.state import recent_versions
from gfn4rec.live.store.store import Store
from gfn4rec.live.versions import VersionManifest, Versions
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from tests.live.fakes import FakeClock, FakePolicy


class Release:
    """A store, a directory of versions, and what a service that promotes them would answer with."""

    def __init__(self, data: SlateData, store: Store, directory: Path) -> None:
        self.data, self.store, self.directory = data, store, directory
        self.versions, self.clock = Versions(directory), FakeClock()
        self.swaps: list[int] = []
        self.serving: tuple[Policy, int] = (self.policy(0), 0)

    def policy(self, seed: int) -> FakePolicy:
        """Return a policy whose weights tell it from those of other seeds."""
        return FakePolicy(Catalogue.of(self.data), seed)

    def open(self, keep: int = 50, promotes_itself: bool = True) -> Promotion:
        """Start the promotion, as a service does that begins or begins again; the run's policy has the seed 1."""
        promotion = Promotion(
            self.store,
            self.versions,
            lambda _: self.policy(-1),
            probe_requests(self.data),
            self.clock,
            keep,
            promotes_itself,
        )
        self.serving = promotion.start(self.policy(1))
        promotion.on_swap(self._swap)
        return promotion

    def publish(self, *numbers: int, policy: Policy | None = None, **values: Any) -> VersionManifest:
        """Publish versions as the learner does; the weights have the version's number as their seed."""
        for number in numbers:
            given = {"parent": number - 1, "trained_to_seq": 10 * number, "step": number, "revision": 0} | values
            manifest = self.versions.publish(policy or self.policy(number), number=number, **given)
        return manifest

    def publish_and_promote(self, promotion: Promotion, *numbers: int) -> None:
        """Publish versions one after the other, each promoted ten seconds after the one before."""
        for number in numbers:
            self.clock.advance(10.0)
            self.publish(number)
            promotion.scan()

    def rows(self) -> dict[int, VersionRow]:
        """Return what the store has of all versions."""
        with self.store.read() as connection:
            return {row.version: row for row in recent_versions(connection, 1000)}

    def states(self) -> dict[int, str]:
        """Return the state of each version in the store."""
        return {number: row.state for number, row in sorted(self.rows().items())}

    def damage(self, number: int) -> Path:
        """Change one bit of a version's weights, and return their file."""
        file = self.versions.path(number) / "policy.safetensors"
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        return file

    def serves(self, number: int, seed: int | None = None) -> bool:
        """Return whether a version serves, with the weights that were published under its number, and is promoted."""
        policy, version = self.serving
        assert isinstance(policy, FakePolicy)
        has_weights = torch.equal(policy.vector_ND, self.policy(number if seed is None else seed).vector_ND)
        promoted = [row.version for row in self.rows().values() if row.state == "promoted"]
        return has_weights and version == number and promoted == [number]

    def _swap(self, policy: Policy, version: int) -> None:
        self.swaps.append(version)
        self.serving = policy, version

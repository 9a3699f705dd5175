"""Which version of the policy serves: new ones pass gates, are promoted, and can be rolled back."""

import shutil
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from gfn4rec.errors import UserError
from gfn4rec.live.clock import Clock
from gfn4rec.live.records import ConflictError, NotFoundError
from gfn4rec.live.store.state import (
    AUTOMATIC,
    CANDIDATE,
    PROMOTED,
    REJECTED,
    RETIRED,
    add_version,
    all_versions,
    change_version,
    promote,
    read_property,
    write_property,
)
from gfn4rec.live.store.store import Store
from gfn4rec.live.versions import VersionManifest, Versions, loss_problem, probe, versions_body
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Request

_COMPARED: Final = 20  # earlier versions whose losses a new one is compared with


class Promotion:
    """Keeps the store's table of versions, and hands promoted policies to `swap`.

    One thread at a time changes anything. A rolled-back service does not promote by itself until a version is promoted
    by hand, because the next version would have what the rolled-back one had.
    """

    def __init__(
        self,
        store: Store,
        versions: Versions,
        policy_for: Callable[[VersionManifest], Policy],
        request: Request,
        clock: Clock,
        keep: int,
    ) -> None:
        self._store, self._versions, self._policy_for = store, versions, policy_for
        self._request, self._clock, self._keep = request, clock, keep
        self._lock = threading.RLock()
        self._previous: tuple[int, Policy] | None = None  # kept in memory, so that going back takes no time
        self._current: tuple[int, Policy] | None = None
        self._on_swap: Callable[[Policy, int], None] = lambda *_: None

    def start(self, first: Policy, is_automatic: bool) -> tuple[Policy, int]:
        """Return the promoted version; a new store begins with version 1, which is the run's policy.

        If the promoted version is damaged, the newest one that is not is promoted in its place.
        """
        with self._lock:
            rows = self._rows()
            if not rows:
                manifest = self._versions.publish(first, number=1, parent=None, trained_to_seq=0, step=0, revision=0)
                row = {**manifest.row, "state": CANDIDATE}
                self._store.write(lambda connection: add_version(connection, row)).result()
                self._store.write(lambda connection: write_property(connection, AUTOMATIC, is_automatic)).result()
                rows = self._rows()
            order = sorted(rows, key=lambda row: (row["state"] == PROMOTED, row["version"]), reverse=True)
            for row in order:
                if row["state"] == REJECTED:
                    continue
                try:
                    policy = self._load(row["version"])
                except UserError as error:
                    self._reject(row["version"], str(error))
                    continue
                self._make_current(row["version"], policy)
                return policy, row["version"]
        raise UserError(f"{self._versions.directory}: no version can be loaded; restore it from a copy")

    def on_swap(self, swap: Callable[[Policy, int], None]) -> None:
        """Set what takes over a promoted policy."""
        self._on_swap = swap

    def scan(self) -> None:
        """Take in versions that the learner has published since, promote the newest good one, delete old weights."""
        with self._lock:
            rows = self._rows()
            newest = rows[0]["version"] if rows else 0
            fresh = [number for number in self._versions.numbers() if number > newest]
            for number in fresh:
                self._take_in(number)
            if fresh and self.is_automatic():
                candidates = [row["version"] for row in self._rows() if row["state"] == CANDIDATE]
                if candidates and candidates[0] in fresh:
                    self._promote_or_reject(candidates[0])
            if fresh:
                self._delete_old()

    def promote(self, version: int) -> None:
        """Load, probe and promote a version; automatic promotion goes on from here."""
        with self._lock:
            row = next((row for row in self._rows() if row["version"] == version), None)
            if row is None:
                raise NotFoundError(f"version {version}: there is none")
            if version not in self._versions.numbers():
                raise ConflictError(f"version {version}: its weights have been deleted; promote a newer one")
            try:
                policy = self._load(version)
            except UserError as error:
                if row["state"] != PROMOTED:
                    self._reject(version, str(error))
                raise ConflictError(f"version {version}: {error}") from error
            self._make_current(version, policy)
            self._set_automatic(True)

    def rollback(self, version: int | None = None) -> None:
        """Go back to the version that was promoted before, and stop automatic promotion."""
        with self._lock:
            rows = self._rows()
            current = next((row["version"] for row in rows if row["state"] == PROMOTED), None)
            if version is not None and version != current:
                raise ConflictError(f"version {version}: is not the promoted one, which is {current}")
            target = self._previous or self._promoted_before(rows)
            if target is None:
                raise ConflictError("no version was promoted before; there is nothing to go back to")
            self._set_automatic(False)
            self._make_current(*target)
            self._previous = None

    def is_automatic(self) -> bool:
        """Return whether new versions are promoted by themselves."""
        with self._store.read() as connection:
            return bool(read_property(connection, AUTOMATIC))

    def body(self) -> dict[str, Any]:
        """Return what `GET /v1/versions` answers."""
        return versions_body(self._rows(), self._versions.numbers(), self.is_automatic())

    def _take_in(self, number: int) -> None:
        """Store a version as a candidate, or as a rejected one with the reason."""
        try:
            manifest = self._versions.manifest(number)
        except UserError as error:
            known: dict[str, Any] = {"sha256": "", "trained_to_seq": 0, "step": 0, "created": self._clock()}
            row = known | {"version": number, "state": REJECTED, "reason": str(error)}
        else:
            losses = [row["loss"] for row in self._rows() if row["state"] != REJECTED and row["loss"] is not None]
            problem = loss_problem(manifest.loss, losses[:_COMPARED])
            row = {**manifest.row, "state": CANDIDATE if problem is None else REJECTED, "reason": problem}
        self._store.write(lambda connection: add_version(connection, row)).result()

    def _promote_or_reject(self, version: int) -> None:
        try:
            policy = self._load(version)
        except UserError as error:
            self._reject(version, str(error))
            return
        self._make_current(version, policy)

    def _load(self, version: int) -> Policy:
        _, policy = self._versions.load(version, self._policy_for)
        probe(policy, self._request)
        return policy

    def _make_current(self, version: int, policy: Policy) -> None:
        self._store.write(lambda connection: promote(connection, version, self._clock())).result()
        if self._current is not None and self._current[0] != version:
            self._previous = self._current
        self._current = version, policy
        self._on_swap(policy, version)

    def _promoted_before(self, rows: Sequence[dict[str, Any]]) -> tuple[int, Policy] | None:
        """Return the version that was promoted last before the current one and can be loaded; after a restart."""
        retired = [row for row in rows if row["state"] == RETIRED and row["promoted"] is not None]
        for row in sorted(retired, key=lambda row: row["promoted"], reverse=True):
            try:
                return row["version"], self._load(row["version"])
            except UserError:
                continue
        return None

    def _reject(self, version: int, reason: str) -> None:
        self._store.write(
            lambda connection: change_version(connection, version, state=REJECTED, reason=reason)
        ).result()

    def _set_automatic(self, is_automatic: bool) -> None:
        self._store.write(lambda connection: write_property(connection, AUTOMATIC, is_automatic)).result()

    def _rows(self) -> list[dict[str, Any]]:
        with self._store.read() as connection:
            return all_versions(connection)

    def _delete_old(self) -> None:
        """Delete the weights of all but the newest versions, the promoted one, and the one before it."""
        kept = {self._current[0] if self._current else 0, self._previous[0] if self._previous else 0}
        for number in self._versions.numbers()[: -self._keep]:
            if number not in kept:
                shutil.rmtree(self._versions.path(number), ignore_errors=True)

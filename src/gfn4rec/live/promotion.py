"""Which version of the policy serves: new ones pass gates, are promoted, and can be rolled back."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from gfn4rec.errors import UserError
from gfn4rec.live.clock import Clock
from gfn4rec.live.records import ConflictError, NotFoundError, VersionRow
from gfn4rec.live.store.state import (
    ACCEPTED,
    CANDIDATE,
    PROMOTED,
    REJECTED,
    ROLLED_BACK,
    add_version,
    change_version,
    find_version,
    promote,
    promoted_before,
    read_property,
    recent_versions,
    write_property,
)
from gfn4rec.live.store.store import Store
from gfn4rec.live.versions import VersionManifest, Versions, loss_problem, probe, versions_body
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Request

_COMPARED: Final = 20  # earlier versions whose losses a new one is compared with
_RECENT: Final = 200  # versions that are listed, and that the service may fall back to
_LOG: Final = logging.getLogger(__name__)


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
        promotes_itself: bool = True,
    ) -> None:
        self._store, self._versions, self._policy_for = store, versions, policy_for
        self._request, self._clock, self._keep = request, clock, keep
        self._promotes_itself = promotes_itself
        self._lock = threading.RLock()
        self._previous: tuple[int, Policy] | None = None  # kept in memory, so that going back takes no time
        self._current: tuple[int, Policy] | None = None
        self._newest = 0  # in the store
        self._on_swap: Callable[[Policy, int], None] = lambda *_: None

    def start(self, first: Policy) -> tuple[Policy, int]:
        """Return the promoted version; a new store begins with version 1, which is the run's policy.

        If the promoted version is damaged, the one before it is promoted in its place, or else the newest good one. If
        none is good, the run's policy becomes a new version.
        """
        with self._lock:
            rows = self._rows()
            self._newest = rows[0].version if rows else 0
            for row in self._in_order_of_trust(rows):
                try:
                    self._make_current(row, self._load(row))
                    break
                except UserError as error:
                    _LOG.error("version %d cannot be served: %s", row.version, error)
                    self._reject(row.version, str(error))
            else:
                self._make_current(self._publish(first, rows), first)
            assert self._current is not None
            version, policy = self._current
            return policy, version

    def on_swap(self, swap: Callable[[Policy, int], None]) -> None:
        """Set what takes over a promoted policy."""
        self._on_swap = swap

    def scan(self) -> None:
        """Take in versions that the learner has published since, promote the newest good one, delete old weights.

        All of it is one transaction, so that a service that is killed meanwhile does the same again.
        """
        with self._lock:
            fresh = [number for number in self._versions.numbers() if number > self._newest]
            if not fresh:
                return
            known = self._rows()
            for number in fresh:
                known.insert(0, self._judge(number, known))
            rows = {row.version: row for row in known[: len(fresh)]}  # newest first
            chosen = self._choose(rows) if self.is_automatic() else None

            def take_in(connection: sa.Connection) -> None:
                for row in rows.values():
                    add_version(connection, row)
                if chosen is not None:
                    promote(connection, chosen[0], self._clock())

            self._store.write(take_in).result()
            self._newest = fresh[-1]
            if chosen is not None:
                self._hold(*chosen)
            self._delete_old()

    def promote(self, version: int) -> None:
        """Load, probe and promote a version; automatic promotion goes on from here.

        A version whose loss was rejected can be promoted, too; later ones are then compared with it.
        """
        with self._lock:
            with self._store.read() as connection:
                row = find_version(connection, version)
            if row is None:
                raise NotFoundError(f"version {version}: there is none")
            if version not in self._versions.numbers():
                raise ConflictError(f"version {version}: its weights have been deleted; promote a newer one")
            try:
                policy = self._load(row)
            except UserError as error:
                if row.state != PROMOTED:
                    self._reject(version, str(error))
                raise ConflictError(f"version {version}: {error}") from error

            def change(connection: sa.Connection) -> None:
                promote(connection, version, self._clock())
                write_property(connection, ROLLED_BACK, False)
                if row.state == REJECTED:
                    write_property(connection, ACCEPTED, version)

            self._store.write(change).result()
            self._hold(version, policy)

    def rollback(self, version: int | None = None) -> None:
        """Go back to the version that was promoted before, and stop automatic promotion."""
        with self._lock:
            assert self._current is not None
            current = self._current[0]
            if version is not None and version != current:
                raise ConflictError(f"version {version}: is not the promoted one, which is {current}")
            target = self._previous or next(self._before(), None)
            if target is None:
                raise ConflictError("no version was promoted before; there is nothing to go back to")

            def change(connection: sa.Connection) -> None:
                promote(connection, target[0], None)
                change_version(connection, current, promoted=None)
                write_property(connection, ROLLED_BACK, True)

            self._store.write(change).result()
            self._hold(*target)
            self._previous = None

    def is_automatic(self) -> bool:
        """Return whether new versions are promoted by themselves."""
        with self._store.read() as connection:
            return self._promotes_itself and not read_property(connection, ROLLED_BACK)

    def body(self) -> dict[str, object]:
        """Return what `GET /v1/versions` answers."""
        return versions_body(self._rows(), self._versions.numbers(), self.is_automatic())

    def _in_order_of_trust(self, rows: Sequence[VersionRow]) -> list[VersionRow]:
        """Return the versions to start with: the promoted one, those promoted before it, the newest of the others."""
        with self._store.read() as connection:
            before = promoted_before(connection, _RECENT)
        rank = {row.version: place for place, row in enumerate(before)}
        good = [row for row in rows if row.state != REJECTED]
        return sorted(good, key=lambda row: (row.state != PROMOTED, rank.get(row.version, len(rank)), -row.version))

    def _publish(self, first: Policy, rows: Sequence[VersionRow]) -> VersionRow:
        """Store the run's policy as a version of its own."""
        number = 1 + (max([self._newest, *self._versions.numbers()]) if rows else 0)
        manifest = self._versions.publish(first, number=number, parent=None, trained_to_seq=0, step=0, revision=0)
        return manifest.row(CANDIDATE)

    def _judge(self, number: int, known: Sequence[VersionRow]) -> VersionRow:
        """Return a new version as a candidate, or as a rejected one with the reason."""
        try:
            manifest = self._versions.manifest(number)
        except UserError as error:
            return VersionRow(number, None, "", 0, 0, None, REJECTED, str(error), self._clock())
        with self._store.read() as connection:
            accepted = read_property(connection, ACCEPTED) or 0
        losses = [row.loss for row in known if row.state != REJECTED and row.version >= accepted]
        problem = loss_problem(manifest.loss, [loss for loss in losses if loss is not None][:_COMPARED])
        return manifest.row(CANDIDATE if problem is None else REJECTED, problem)

    def _choose(self, rows: dict[int, VersionRow]) -> tuple[int, Policy] | None:
        """Return the newest candidate that can be loaded; newer ones become rejected."""
        for number, row in rows.items():
            if row.state == CANDIDATE:
                try:
                    return number, self._load(row)
                except UserError as error:
                    rows[number] = replace(row, state=REJECTED, reason=str(error))
        return None

    def _load(self, row: VersionRow) -> Policy:
        """Return the policy of a version that is what was taken in, and that answers the probe requests."""
        manifest, policy = self._versions.load(row.version, self._policy_for)
        if row.sha256 and manifest.row(row.state, row.reason) != replace(row, promoted=None):
            raise UserError(f"{self._versions.path(row.version)}: has changed since it was published")
        probe(policy, self._request)
        return policy

    def _make_current(self, row: VersionRow, policy: Policy) -> None:
        def change(connection: sa.Connection) -> None:
            add_version(connection, row)
            promote(connection, row.version, self._clock() if row.promoted is None else None)

        self._store.write(change).result()
        self._newest = max(self._newest, row.version)
        self._hold(row.version, policy)

    def _hold(self, version: int, policy: Policy) -> None:
        if self._current is not None and self._current[0] != version:
            self._previous = self._current
        self._current = version, policy
        self._on_swap(policy, version)

    def _before(self) -> Iterator[tuple[int, Policy]]:
        """Yield the versions that were promoted before and can be loaded, latest first."""
        with self._store.read() as connection:
            rows = promoted_before(connection, _RECENT)
        for row in rows:
            try:
                yield row.version, self._load(row)
            except UserError:
                continue

    def _reject(self, version: int, reason: str) -> None:
        self._store.write(
            lambda connection: change_version(connection, version, state=REJECTED, reason=reason)
        ).result()

    def _rows(self) -> list[VersionRow]:
        with self._store.read() as connection:
            return recent_versions(connection, _RECENT)

    def _delete_old(self) -> None:
        """Delete the weights of all but the newest versions, the promoted one, and the one before it."""
        with self._store.read() as connection:
            before = [row.version for row in promoted_before(connection, 1)]
        kept = {self._current[0] if self._current else 0, *before}
        for number in self._versions.numbers()[: -self._keep]:
            if number not in kept:
                self._versions.delete(number)

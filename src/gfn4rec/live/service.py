"""The service without HTTP: requests become decisions, feedback becomes samples, versions are swapped."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeAlias

import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live.batcher import Batcher, fail, resolve
from gfn4rec.live.clock import Clock
from gfn4rec.live.config import ServiceConfig
from gfn4rec.live.desk import Desk, Knobs
from gfn4rec.live.encoding import Encoding
from gfn4rec.live.growth import feature_notes, grown_policy
from gfn4rec.live.items import Item, LiveItems
from gfn4rec.live.records import Ask, ConflictError, Decision, Event, Features, History, Sample
from gfn4rec.live.statistics import Statistics
from gfn4rec.live.store.decisions import (
    Waits,
    add_events,
    close_due,
    find_decisions,
    insert_decisions,
    mark_shown,
    repeated,
    shown_slates,
)
from gfn4rec.live.store.state import add_item_change, item_changes_after
from gfn4rec.live.store.store import Store
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Request

Reply: TypeAlias = tuple[Decision, ...]
_LARGEST_CLOSING: Final = 500  # decisions that are closed in one transaction


class LiveService:
    """Answers requests and takes feedback. Every answer is committed to the store before it is given."""

    def __init__(
        self,
        data: SlateData,
        store: Store,
        policy: Policy,
        version: int,
        config: ServiceConfig,
        clock: Clock,
        seed: int,
    ) -> None:
        self.data, self.store, self.config, self.clock = data, store, config, clock
        self.encoding, self.statistics = Encoding(data), Statistics(clock)
        self._waits = Waits(config.wait, config.shown_within)
        self._weights = dict(zip(data.behaviours, data.weight_R.tolist(), strict=True))
        self._knobs = Knobs(config.greediness, config.reward_weight, config.epsilon, seed)
        self._swap = threading.Lock()
        self.items = LiveItems.of(data)
        self.refresh_items()
        self._desk = self._new_desk(policy, version)
        self.batcher: Batcher[Ask, Reply] = Batcher(self._answer, config.largest_batch, config.largest_queue)

    @property
    def desk(self) -> Desk:
        """The policy and the catalogue by which slates are drawn now."""
        return self._desk

    def recommend(self, ask: Ask) -> Future[Reply]:
        """Return the future decisions of a request; `QueueFull` if too many wait."""
        return self.batcher.submit(ask)

    def feedback(self, events: Sequence[Event]) -> Future[list[str]]:
        """Store feedback; the result says what became of each event."""

        def count(done: Future[list[str]]) -> None:
            if done.exception() is None:
                for status in done.result():
                    self.statistics.count(f"event/{status}")

        future = self.store.write(lambda connection: add_events(connection, events, self.data.behaviours, self.clock()))
        future.add_done_callback(count)
        return future

    def shown(self, decision_ids: Sequence[str]) -> Future[list[str]]:
        """Begin to await feedback to slates that were answered with `on_shown`."""
        return self.store.write(lambda connection: mark_shown(connection, decision_ids, self.clock(), self._waits))

    def close_due(self) -> list[Sample]:
        """Turn the decisions that are due into samples; return these."""
        closed: list[Sample] = []
        while True:
            part = self.store.write(
                lambda connection: close_due(connection, self.clock(), self._weights, _LARGEST_CLOSING)
            ).result()
            self.statistics.closed(part)
            closed += part
            if len(part) < _LARGEST_CLOSING:
                return closed

    def put_item(self, item_id: str, title: str | None, features: Features) -> tuple[Item, bool, list[str]]:
        """Add or change an item, which can be shown from now on; return it, whether it is new, and notes."""
        notes = feature_notes(self.data, features)
        known = self.items.find(item_id)
        self._change_item(item_id, True, title, features)
        return self.items.get(item_id), known is None, notes

    def disable_item(self, item_id: str) -> Item:
        """Take an item out of the catalogue: it is not drawn again until it is put again."""
        known = self.items.get(item_id)
        if known.is_enabled:
            self._change_item(item_id, False, known.title, known.features or {})
        return self.items.get(item_id)

    def history(self, user: str) -> History:
        """Return what the policy reads of a user now."""
        ask = Ask("", "", user=user)
        return self._current_desk().history(ask, self._lived([ask]).get(user, ()))

    def swap(self, policy: Policy, version: int) -> None:
        """Answer with another version of the policy from the next batch on."""
        if policy.catalogue.num_items > len(self.items):  # added through another process
            self.refresh_items()
        with self._swap:
            self._desk = self._new_desk(policy, version)

    def refresh_items(self) -> None:
        """Read what has changed in the catalogue."""
        with self._swap, self.store.read() as connection:
            self.items = self.items.after(item_changes_after(connection, self.items.revision))

    def _change_item(self, item_id: str, is_enabled: bool, title: str | None, features: Features) -> None:
        self.store.write(
            lambda connection: add_item_change(connection, item_id, is_enabled, title, features, self.clock())
        ).result()
        self.refresh_items()

    def _new_desk(self, policy: Policy, version: int) -> Desk:
        policy = grown_policy(policy, self.data, self.items)
        return Desk(policy, self.data, self.encoding, self.items, version, self._knobs)

    def _current_desk(self) -> Desk:
        """Return the desk with the newest catalogue."""
        with self._swap:
            if self._desk.items is not self.items:
                self._desk = self._new_desk(self._desk.policy, self._desk.version)
            return self._desk

    def _answer(self, asks: Sequence[Ask], futures: Sequence[Future[Reply]]) -> None:
        """Decide the slates of a batch and store them; the futures are resolved after the commit."""
        desk = self._current_desk()
        decided = desk.decide(asks, self._lived(asks))
        good: list[tuple[list[Decision], Future[Reply]]] = []
        refused: list[tuple[Ask, UserError, Future[Reply]]] = []
        for ask, result, future in zip(asks, decided, futures, strict=True):
            if isinstance(result, UserError):
                refused.append((ask, result, future))
            else:
                good.append((result, future))
        if refused:
            self._refuse(refused)
        if not good:
            return
        batch = [decisions for decisions, _ in good]
        stored = self.store.write(lambda connection: insert_decisions(connection, batch, self.clock(), self._waits))
        stored.add_done_callback(partial(_resolve_all, [future for _, future in good]))

    def _refuse(self, refused: Sequence[tuple[Ask, UserError, Future[Reply]]]) -> None:
        """Fail requests that cannot be decided now, except retries of such as could be before."""
        with self.store.read() as connection:
            known = find_decisions(connection, {ask.request_id for ask, *_ in refused})
        for ask, error, future in refused:
            stored = known.get(ask.request_id)
            _settle(future, error if stored is None else repeated(stored, ask.body_hash))

    def _lived(self, asks: Sequence[Ask]) -> dict[str, list[tuple[float, History]]]:
        """Return what users have been shown since the log, as far as the policy reads it."""
        length = self._desk.policy.config.history_length
        users = {ask.user for ask in asks if ask.user is not None and ask.history is None}
        if not users or not length:
            return {}
        # Histories of responses alone read one item or more of a slate with feedback, and nothing of others.
        is_responded_only = self.data.is_responded_only
        num_slates = length if is_responded_only else -(-length // self.data.slate_size)
        with self.store.read() as connection:
            return {user: shown_slates(connection, user, num_slates, is_responded_only) for user in users}


def _resolve_all(
    futures: Sequence[Future[Reply]], stored: "Future[list[tuple[Decision, ...] | ConflictError]]"
) -> None:
    error = stored.exception()
    for number, future in enumerate(futures):
        if error is not None:
            fail(future, error)
        else:
            _settle(future, stored.result()[number])


def _settle(future: Future[Reply], result: Reply | UserError) -> None:
    if isinstance(result, UserError):
        fail(future, result)
    else:
        resolve(future, result)


def probe_requests(data: SlateData, count: int = 8) -> Request:
    """Return some requests of the log and one of an unknown user, to probe new versions with."""
    users = torch.linspace(1, data.num_users, min(count, data.num_users)).long()
    return data.latest(torch.cat([torch.zeros(1, dtype=torch.int64), users]))

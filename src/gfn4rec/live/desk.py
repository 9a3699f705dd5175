"""Decides slates: one version of the policy with one revision of the catalogue, which never change under a batch."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live.encoding import Encoding
from gfn4rec.live.items import LiveItems
from gfn4rec.live.records import Ask, Behaviours, Decision, History, Rule
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Proposal, Sampling
from gfn4rec.seeding import torch_generator


@dataclass(frozen=True)
class Knobs:
    """How slates are drawn where a request does not say otherwise."""

    greediness: float = 0.0
    reward_weight: float = 1.0
    epsilon: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class _Wanted:
    """What a request comes to: its row of the batch, which items may be drawn, and how."""

    history: History
    is_open_N: Tensor | None  # None: every item
    rule: Rule
    greediness: float
    reward_weight: float
    notes: tuple[str, ...]


class Desk:
    """Answers requests with one version of the policy. It is replaced as a whole, never changed."""

    def __init__(
        self, policy: Policy, data: SlateData, encoding: Encoding, items: LiveItems, version: int, knobs: Knobs
    ) -> None:
        self.policy, self.data, self.items, self.version, self.knobs = policy, data, items, version, knobs
        self.encoding = encoding

    def decide(
        self, asks: Sequence[Ask], lived: Mapping[str, Sequence[tuple[float, History]]]
    ) -> list[list[Decision] | UserError]:
        """Return a decision for each slate of each request, or what is wrong with it.

        `lived` has, by user, the slates since the log with their times, oldest first.
        """
        wanted: list[_Wanted | UserError] = []
        for ask in asks:
            try:
                wanted.append(self._wanted(ask, lived.get(ask.user or "", ())))
            except UserError as error:
                wanted.append(error)
        rows = [
            (number, want, place)
            for number, want in enumerate(wanted)
            if isinstance(want, _Wanted)
            for place in range(asks[number].num_slates)
        ]
        proposal = self._propose([(asks[number], want, place) for number, want, place in rows]) if rows else None
        # By number, because a request id may come twice in a batch.
        decisions: list[list[Decision]] = [[] for _ in asks]
        for row, (number, want, place) in enumerate(rows):
            assert proposal is not None
            decisions[number].append(self._decision(asks[number], want, place, proposal, row))
        return [want if isinstance(want, UserError) else own for want, own in zip(wanted, decisions, strict=True)]

    def history(self, ask: Ask, lived: Sequence[tuple[float, History]]) -> History:
        """Return the events that the policy reads for a request."""
        return self._history(ask, self.encoding.user(ask.user), lived, [])

    def _wanted(self, ask: Ask, lived: Sequence[tuple[float, History]]) -> _Wanted:
        notes: list[str] = []
        user = self.encoding.user(ask.user)
        history = self._history(ask, user, lived, notes)
        rule = self._rule(ask, user, history, notes)
        is_open_N = None
        if rule or not self.items.all_enabled:
            is_open_N = open_items(self.items, rule)
            if (num_open := int(is_open_N.sum())) < self.data.slate_size:
                size = self.data.slate_size
                raise UserError(f"a slate has {size} items, but only {num_open} are left to choose from")
        greediness = self.knobs.greediness if ask.greediness is None else ask.greediness
        reward_weight = self.knobs.reward_weight if ask.reward_weight is None else ask.reward_weight
        if not self.policy.has_prior and reward_weight != 1:
            if ask.reward_weight is not None:
                notes.append("reward_weight: this policy has no prior; ignored")
            reward_weight = 1.0
        return _Wanted(history, is_open_N, rule, greediness, reward_weight, tuple(notes))

    def _history(self, ask: Ask, user: int, lived: Sequence[tuple[float, History]], notes: list[str]) -> History:
        """Return what the policy reads: the given history, or the log's and what has happened since."""
        length = self.policy.config.history_length
        if ask.history is not None:
            return self._given(ask.history, notes)[-length:] if length else ()
        if user == 0 and ask.user is not None:
            basis = "its feedback since" if lived else "an unknown user"
            notes.append(f"user {ask.user} is not in the log; the slates are for {basis}")
        logged = self._logged(user)
        since = [event for _, slate in lived for event in slate if event[1] or not self.data.is_responded_only]
        return (*logged, *since)[-length:] if length else ()

    def _given(self, history: Sequence[tuple[str, Behaviours | None]], notes: list[str]) -> History:
        known = []
        for item, names in history:
            for name in names or ():
                if name not in self.data.behaviours:
                    raise UserError(f"history: no behaviour {name!r}; choose from {', '.join(self.data.behaviours)}")
            if self.items.find(item) is None:
                notes.append(f"item {item} of the history is not in the catalogue; ignored")
            elif names is not None and not names and self.data.is_responded_only:
                notes.append(f"item {item} of the history has no response, and histories hold only others; ignored")
            else:
                known.append((item, self.data.behaviours[:1] if names is None else names))
        return tuple(known)

    def _logged(self, user: int) -> History:
        """Return a user's latest events in the log."""
        if user == 0:
            return ()
        request = self.data.latest(torch.tensor([user]))
        is_event_H = request.history_BH[0] > 0
        names = self.encoding.names(request.response_BHR[0][is_event_H])
        numbers = request.history_BH[0][is_event_H].tolist()
        return tuple(zip((self.items.at(number).id for number in numbers), names, strict=True))

    def _rule(self, ask: Ask, user: int, history: History, notes: list[str]) -> Rule:
        """Return which items the request leaves out and which it chooses from, as the store keeps it."""
        excluded = []
        for item in dict.fromkeys(ask.exclude):
            if self.items.find(item) is None:
                notes.append(f"item {item} of exclude is not in the catalogue; ignored")
            else:
                excluded.append(item)
        if ask.exclude_seen:
            seen = [self.items.at(number).id for number in self.data.items_of(user).tolist()]
            excluded = list(dict.fromkeys([*excluded, *seen, *(item for item, _ in history)]))
        rule: dict[str, Sequence[str]] = {"exclude": excluded} if excluded else {}
        if ask.candidates is not None:
            for item in ask.candidates:
                if self.items.find(item) is None:
                    raise UserError(f"candidates: item {item} is not in the catalogue")
            rule["candidates"] = list(dict.fromkeys(ask.candidates))
        return rule

    def _propose(self, rows: Sequence[tuple[Ask, _Wanted, int]]) -> Proposal:
        wants = [want for _, want, _ in rows]
        users, histories = [ask.user for ask, *_ in rows], [want.history for want in wants]
        request = self.encoding.request(users, histories, self.items, self.policy.config.history_length)
        masks = [want.is_open_N for want in wants]
        sampling = Sampling(
            greediness=torch.tensor([want.greediness for want in wants]),
            reward_weight=torch.tensor([want.reward_weight for want in wants]),
            epsilon=self.knobs.epsilon,
        )
        draws = [draws_of(self.knobs.seed, ask.request_id, place) for ask, _, place in rows]
        return self.policy.recommend(request, draws, sampling, _candidates(masks, len(self.items)))

    def _decision(self, ask: Ask, want: _Wanted, place: int, proposal: Proposal, row: int) -> Decision:
        digest = hashlib.sha256(f"{self.knobs.seed}/{ask.request_id}/{place}".encode()).hexdigest()
        return Decision(
            decision_id=f"d-{digest[:32]}",
            request_id=ask.request_id,
            place=place,
            body_hash=ask.body_hash,
            user=ask.user,
            history=want.history,
            rule=want.rule,
            sampling={
                "greediness": want.greediness,
                "reward_weight": want.reward_weight,
                "epsilon": self.knobs.epsilon,
            },
            slate=tuple(self.items.at(number).id for number in proposal.slate_BK[row].tolist()),
            log_prob=tuple(proposal.sampling_log_prob_BK[row].tolist()),
            learned_log_prob=tuple(proposal.log_prob_BK[row].tolist()),
            version=self.version,
            revision=self.items.revision,
            notes=want.notes,
            is_shown=ask.is_shown_at_once,
        )


def draws_of(seed: int, request_id: str, place: int) -> torch.Generator:
    """Return the generator of a request's slate: the same for a retry, whatever else is in its batch."""
    return torch_generator(seed, f"{request_id}/{place}")


def open_items(items: LiveItems, rule: Rule) -> Tensor:
    """Return which items a decision's rule left open, (N,)."""
    exclude = [item.number for name in rule.get("exclude", ()) if (item := items.find(name)) is not None]
    candidates = rule.get("candidates")
    return items.open_to(exclude, None if candidates is None else [items.get(name).number for name in candidates])


def _candidates(masks: Sequence[Tensor | None], num_items: int) -> Tensor | None:
    """Return lists of item numbers, one for all requests if they agree, padded with 0; None: every item."""
    first = masks[0]
    if all(mask is first or (mask is not None and first is not None and torch.equal(mask, first)) for mask in masks):
        return None if first is None else first.nonzero()[:, 0]
    number_N = torch.arange(num_items + 1)
    return torch.stack([number_N if mask is None else torch.where(mask, number_N, 0) for mask in masks])

"""Slates for people, by the ids and titles of the log."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from gfn4rec.config import nearest
from gfn4rec.data.dataset import SlateData
from gfn4rec.decoders.base import DecodedSlates, Decoder
from gfn4rec.errors import UserError
from gfn4rec.evaluation.ways import Way
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Proposal, Request, Sampling
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.training.opened_run import DataSource, OpenedRun, UsersSource

_BATCH = 128
Id: TypeAlias = str | int
_KNOBS = ("greediness", "reward_weight")


@dataclass(frozen=True)
class Query:
    """A user who asks for slates. A history, if given, replaces the one in the log.

    >>> Query(user=42, history=[858, (50, ["click", "like"])], greediness=0.5).events
    (('858', None), ('50', ('click', 'like')))
    """

    user: Id | None = None
    history: Sequence[Id | tuple[Id, Sequence[str] | None]] | None = None
    """Items, oldest first, each alone or with its behaviours; alone, it has the first behaviour."""
    candidates: Sequence[Id] | None = None
    """Items to choose from; by default all."""
    greediness: float | None = None
    """From 0 (diverse) to 1 (greedy), in place of the sampling of the other queries."""
    reward_weight: float | None = None
    """From 0 (what users choose) over 1 (the trained target) to more (what they would like best), in the same way."""

    @property
    def events(self) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
        """The history as items with their behaviours; None in place of behaviours means the first behaviour."""
        given = [(event, None) if isinstance(event, str | int) else event for event in self.history or ()]
        return tuple((str(item), None if named is None else tuple(named)) for item, named in given)


@dataclass(frozen=True)
class ShownItem:
    """An item of a slate, and the probability of choosing it at its step."""

    id: str
    title: str | None
    probability: float


@dataclass(frozen=True)
class Slate:
    """A slate, its log-probability, and its expected reward if that was asked for."""

    items: tuple[ShownItem, ...]
    log_prob: float
    expected_reward: float | None


@dataclass(frozen=True)
class Answer:
    """The slates for one query, and notes on what was ignored."""

    query: Query
    slates: tuple[Slate, ...]
    notes: tuple[str, ...] = field(default=())
    decoder: Decoder | None = None
    """What made the slates, if not the policy itself."""


@dataclass(frozen=True)
class SlateScore:
    """A slate, the reward that the policy expects of it, and the simulator's expected reward if that was asked for."""

    items: tuple[str, ...]
    score: float
    expected_reward: float | None


class Recommender:
    """A trained policy that recommends slates by the ids of its data set.

    `Recommender.open(run)` opens one; `examples/online_loop.py` makes one from objects in memory.

    >>> recommender = Recommender.open("runs/tiny")
    >>> (answer,) = recommender.recommend([Query(user="3", greediness=0.5)], num_slates=2)
    >>> [len(slate.items) for slate in answer.slates]
    [6, 6]
    """

    def __init__(self, policy: Policy, data: SlateData, environment: UserEnvironment | None = None) -> None:
        self.policy, self.data, self.environment = policy, data, environment
        self._user_number = {str(raw): number for number, raw in enumerate(data.users["id"].to_list(), start=1)}
        self._item_number = {str(raw): number for number, raw in enumerate(data.items["id"].to_list(), start=1)}
        self._item_id = ["", *self._item_number]
        titles = data.items["title"].to_list() if "title" in data.items.columns else [None] * data.num_items
        self._title = [None, *titles]

    @classmethod
    def open(
        cls,
        run: OpenedRun | Path | str,
        data: DataSource | None = None,
        simulator: UsersSource | None = None,
        expected_rewards: bool = False,
        device: torch.device | str = "cpu",
        notify: Callable[[str], None] = lambda _: None,
    ) -> "Recommender":
        """Open the policy of a run; its data set may have moved.

        The simulator is loaded only if expected rewards are asked for, or if one is named; `notify` receives the
        reason if it cannot be loaded.
        """
        opened = run if isinstance(run, OpenedRun) else OpenedRun.open(run, data, simulator, device, notify=notify)
        if not (expected_rewards or simulator is not None):
            return cls(opened.policy, opened.data)
        try:
            users = opened.users
        except UserError as error:
            notify(f"no expected rewards: {error}")
            return cls(opened.policy, opened.data)
        return cls(opened.policy, users.data, users.environment(seed=0))

    def recommend(
        self,
        queries: Sequence[Query],
        num_slates: int = 1,
        sampling: Sampling = Sampling(),  # noqa: B008
        exclude_seen: bool = False,
        seed: int | None = None,
        decoder: Decoder | None = None,
    ) -> Iterator[Answer]:
        """Yield answers in the order of the queries, computed in batches.

        Each call draws fresh slates; a seed makes them repeatable. With a decoder, probabilities are those with which
        the policy itself would choose the items.
        """
        shared = (sampling.temperature, sampling.greedy, sampling.greediness, sampling.reward_weight)
        if any(isinstance(value, Tensor) for value in shared):
            knobs = "a greediness and a reward weight of its own"
            raise UserError(f"sampling: give one value for all queries; a query may have {knobs}")
        if (sampling.greedy or sampling.temperature != 1) and any(query.greediness is not None for query in queries):
            raise UserError("greediness of a query replaces greedy and temperature; leave these out")
        if num_slates < 1:
            raise UserError(f"num_slates is {num_slates}; ask for at least one")
        if num_slates > 1 and decoder is not None and not decoder.draws:
            raise UserError(f"{decoder.name} makes one slate for a query; ask for one")
        generator = self._generator(seed)
        batch = max(1, _BATCH // num_slates)
        for first in range(0, len(queries), batch):
            part = queries[first : first + batch]
            yield from self._answer(part, num_slates, sampling, exclude_seen, generator, decoder)

    def _generator(self, seed: int | None) -> torch.Generator:
        if seed is not None:
            return torch_generator(seed, "recommend", self.data.device)
        generator = torch.Generator(self.data.device)
        generator.seed()
        return generator

    def _answer(
        self,
        queries: Sequence[Query],
        num_slates: int,
        sampling: Sampling,
        exclude_seen: bool,
        generator: torch.Generator,
        decoder: Decoder | None,
    ) -> Iterator[Answer]:
        notes: list[list[str]] = [[] for _ in queries]
        request = self._requests(queries, notes)
        candidates = self._candidates(queries, request, exclude_seen)
        row_B = torch.arange(len(queries), device=self.data.device).repeat_interleave(num_slates)
        request = request[row_B]
        own_candidates = None if candidates is None else candidates[row_B]
        own_sampling = self._sampling(queries, sampling, row_B)
        decoded = Way(own_sampling, decoder).recommend(self.policy, request, generator, own_candidates)
        slates = self._slates(request, decoded)
        for number, query in enumerate(queries):
            own = slates[number * num_slates : (number + 1) * num_slates]
            yield Answer(query, tuple(own), tuple(notes[number]), decoder)

    def _sampling(self, queries: Sequence[Query], sampling: Sampling, row_B: Tensor) -> Sampling:
        """Return the sampling of all queries, with the knobs of those that have their own."""

        def own_values(own: Sequence[float | None], shared: object) -> Tensor:
            values = [shared if value is None else value for value in own]
            return torch.tensor(values, dtype=torch.float32, device=self.data.device)[row_B]

        greediness, reward_weight = ([getattr(query, key) for query in queries] for key in _KNOBS)
        if any(value is not None for value in greediness):
            default = 0.0 if sampling.greediness is None else sampling.greediness
            sampling = replace(sampling, greediness=own_values(greediness, default))
        if any(value is not None for value in reward_weight):
            sampling = replace(sampling, reward_weight=own_values(reward_weight, sampling.reward_weight))
        return sampling

    def score(
        self, query: Query, slates: Sequence[Sequence[str]], notify: Callable[[str], None] = lambda _: None
    ) -> list[SlateScore]:
        """Return the rewards that a policy with a flow expects of given slates for one user.

        `notify` receives notes on what was ignored.
        """
        if query.candidates is not None or any(getattr(query, key) is not None for key in _KNOBS):
            raise UserError(
                "candidates, greediness and reward weight have no effect on a score; leave them out of the query"
            )
        notes: list[str] = []
        request = self._requests([query], [notes])
        for note in notes:
            notify(note)
        slate_BK = torch.tensor([[self._number(item, "slate") for item in self._checked(slate)] for slate in slates])
        row_B = torch.zeros(len(slates), dtype=torch.int64, device=self.data.device)
        request = request[row_B]
        slate_BK = slate_BK.to(self.data.device)
        score_B = self.policy.score(request, slate_BK).tolist()
        expected: list[float | None] = [None] * len(slates)
        if self.environment is not None:
            expected = list(self.environment.expected_rewards(request, slate_BK).tolist())
        return [
            SlateScore(tuple(slate), score, reward)
            for slate, score, reward in zip(slates, score_B, expected, strict=True)
        ]

    def _requests(self, queries: Sequence[Query], notes: list[list[str]]) -> Request:
        user_B = torch.tensor([self._user(query, note) for query, note in zip(queries, notes, strict=True)])
        request = self.data.latest(user_B.to(self.data.device))
        history_BH, response_BHR = request.history_BH.clone(), request.response_BHR.clone()
        for row, query in enumerate(queries):
            if query.history is not None:
                self._write_history(history_BH[row], response_BHR[row], query.events, notes[row])
        return Request(request.user_B, history_BH, response_BHR)

    def _user(self, query: Query, notes: list[str]) -> int:
        if query.user is None:
            return 0
        if str(query.user) not in self._user_number:
            basis = "the given history alone" if query.history else "an unknown user"
            notes.append(f"user {query.user} is not in the prepared data set; the slates are for {basis}")
        return self._user_number.get(str(query.user), 0)

    def _write_history(
        self,
        history_H: Tensor,
        response_HR: Tensor,
        events: Sequence[tuple[str, tuple[str, ...] | None]],
        notes: list[str],
    ) -> None:
        """Write events into a row of histories: the latest on the right, padding on the left."""
        history_H.zero_()
        response_HR.zero_()
        behaviours = self.data.behaviours
        known = []
        for item, named in events:
            for name in named or ():
                if name not in behaviours:
                    raise UserError(f"history: no behaviour {name!r}; {nearest(name, list(behaviours))}")
            if item not in self._item_number:
                notes.append(f"item {item} of the history is not in the catalogue; ignored")
            elif self.data.is_responded_only and named is not None and not named:
                notes.append(f"item {item} of the history has no response, and histories hold only others; ignored")
            else:
                known.append((self._item_number[item], behaviours[:1] if named is None else named))
        for place, (number, named) in enumerate(reversed(known[-len(history_H) :]), start=1):
            history_H[-place] = number
            for name in named:
                response_HR[-place, behaviours.index(name)] = 1.0

    def _candidates(self, queries: Sequence[Query], request: Request, exclude_seen: bool) -> Tensor | None:
        """Return lists of item numbers, 0 for padding; None if all items are candidates for everybody."""
        if not exclude_seen and all(query.candidates is None for query in queries):
            return None
        num_items = self.data.num_items
        item_BN = torch.arange(num_items + 1, device=self.data.device).repeat(len(queries), 1)
        for row, query in enumerate(queries):
            if query.candidates is not None:
                numbers = [self._number(str(item), "candidates") for item in query.candidates]
                is_wanted_N = torch.zeros(num_items + 1, dtype=torch.bool, device=self.data.device)
                is_wanted_N[numbers] = True
                if int(is_wanted_N.sum()) < len(numbers):
                    raise UserError("candidates: an item is repeated")
                item_BN[row, ~is_wanted_N] = 0
            if exclude_seen:
                item_BN[row, self._seen(query, int(request.user_B[row]))] = 0
            self._refuse_few(int((item_BN[row] > 0).sum()), query, exclude_seen)
        return item_BN

    def _refuse_few(self, num_left: int, query: Query, exclude_seen: bool) -> None:
        if num_left < self.data.slate_size:
            whom = "" if query.user is None else f"user {query.user}: "
            unseen = " that the user has not seen" if exclude_seen else ""
            raise UserError(f"{whom}a slate has {self.data.slate_size} items, but there are only {num_left}{unseen}")

    def _seen(self, query: Query, user: int) -> Tensor:
        """Return all items that the user has seen: in the whole log, and in a given history."""
        given = torch.tensor([self._item_number.get(item, 0) for item, _ in query.events], dtype=torch.int64)
        return torch.cat([self.data.items_of(user).cpu(), given])

    def _checked(self, slate: Sequence[str]) -> Sequence[str]:
        """Return the slate if it has the right size and no item twice."""
        if len(slate) != self.data.slate_size:
            raise UserError(f"slate {','.join(slate)}: has {len(slate)} items; a slate has {self.data.slate_size}")
        for item in slate:
            if slate.count(item) > 1:
                raise UserError(f"slate {','.join(slate)}: shows {item} twice")
        return slate

    def _number(self, item: str, what: str) -> int:
        if item not in self._item_number:
            raise UserError(f"{what}: item {item} is not in the catalogue")
        return self._item_number[item]

    def _slates(self, request: Request, decoded: Proposal | DecodedSlates) -> list[Slate]:
        expected: list[float | None] = [None] * len(decoded.slate_BK)
        if self.environment is not None:
            expected = list(self.environment.expected_rewards(request, decoded.slate_BK).tolist())
        slates = []
        for items, log_probs, reward in zip(
            decoded.slate_BK.tolist(), decoded.log_prob_BK.double(), expected, strict=True
        ):
            shown = [
                ShownItem(self._item_id[item], self._title[item], probability)
                for item, probability in zip(items, log_probs.exp().tolist(), strict=True)
            ]
            slates.append(Slate(tuple(shown), float(log_probs.sum()), reward))
        return slates


def as_dict(answer: Answer) -> dict[str, object]:
    """Return an answer as values for JSON."""
    return {
        "user": answer.query.user,
        "slates": [
            {
                "items": [item.id for item in slate.items],
                "titles": [item.title for item in slate.items],
                "probabilities": [item.probability for item in slate.items],
                "log_prob": slate.log_prob,
                "expected_reward": slate.expected_reward,
            }
            for slate in answer.slates
        ],
        **({} if answer.decoder is None else {"decoder": answer.decoder.as_dict()}),
        **({"notes": list(answer.notes)} if answer.notes else {}),
    }

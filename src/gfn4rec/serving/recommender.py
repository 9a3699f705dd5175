"""Slates for people, by the ids and titles of the log."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gfn4rec.config import nearest
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.evaluation.protocol import Showing
from gfn4rec.nn.weights import load_weights
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Proposal, Request
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.training.parts import data_of, new_policy, users_of
from gfn4rec.training.run import POLICY, Run

_BATCH = 128


@dataclass(frozen=True)
class Query:
    """Who asks. A history, if given, takes the place of the one in the log."""

    user: str | None = None
    history: tuple[tuple[str, tuple[str, ...] | None], ...] | None = None  # item, behaviours (None: the first one)
    candidates: tuple[str, ...] | None = None
    greediness: float | None = None  # 0 to 1, in place of what is shown to the others


@dataclass(frozen=True)
class ShownItem:
    """An item of a slate, and the probability of choosing it at its step."""

    id: str
    title: str | None
    probability: float


@dataclass(frozen=True)
class Slate:
    """A slate, the logarithm of its probability, and its expected reward where a simulator is at hand."""

    items: tuple[ShownItem, ...]
    log_prob: float
    expected_reward: float | None


@dataclass(frozen=True)
class Answer:
    """The slates for one query, and what could not be heeded."""

    query: Query
    slates: tuple[Slate, ...]
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class SlateScore:
    """A slate, the reward that the policy expects of it, and the simulator's expected reward where one is at hand."""

    items: tuple[str, ...]
    score: float
    expected_reward: float | None


class Recommender:
    """A policy with the data set whose ids it speaks."""

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
        directory: Path | str,
        data: Path | str | None = None,
        device: torch.device | str = "cpu",
        simulator: Path | str | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> "Recommender":
        """From a run. Where its simulator is at hand, answers come with expected rewards; `tell` hears why not."""
        run = Run.open(Path(directory))
        opened = data_of(run, device, data, simulator)
        policy, environment = load_run_policy(run, opened, tell), None
        if simulator is not None or run.manifest.simulator_path is not None:
            try:
                environment = users_of(run, opened, simulator).environment(seed=0)
            except UserError as error:
                tell(f"no expected rewards: {error}")
        return cls(policy, opened, environment)

    def recommend(
        self,
        queries: Sequence[Query],
        num_slates: int = 1,
        showing: Showing = Showing(),  # noqa: B008
        exclude_seen: bool = False,
        seed: int = 0,
    ) -> Iterator[Answer]:
        """Answers in the order of the queries, computed in batches."""
        if (showing.greedy or showing.temperature != 1) and any(each.greediness is not None for each in queries):
            raise UserError("a query with a greediness of its own cannot be shown greedily or at a temperature, too")
        if num_slates < 1:
            raise UserError(f"num_slates is {num_slates}; ask for one at least")
        generator = torch_generator(seed, "recommend", self.data.device)
        batch = max(1, _BATCH // num_slates)
        for first in range(0, len(queries), batch):
            yield from self._answer(queries[first : first + batch], num_slates, showing, exclude_seen, generator)

    def _answer(
        self,
        queries: Sequence[Query],
        num_slates: int,
        showing: Showing,
        exclude_seen: bool,
        generator: torch.Generator,
    ) -> Iterator[Answer]:
        notes: list[list[str]] = [[] for _ in queries]
        request = self._requests(queries, notes)
        candidates = self._candidates(queries, request, exclude_seen)
        row_B = torch.arange(len(queries), device=self.data.device).repeat_interleave(num_slates)
        request = Request(request.user_B[row_B], request.history_BH[row_B], request.response_BHR[row_B])
        proposal = self.policy.recommend(
            request,
            generator,
            greedy=showing.greedy,
            temperature=showing.temperature,
            greediness=self._greediness(queries, showing, row_B),
            epsilon=showing.epsilon,
            candidates=None if candidates is None else candidates[row_B],
        )
        slates = self._slates(request, proposal)
        for number, query in enumerate(queries):
            own = slates[number * num_slates : (number + 1) * num_slates]
            yield Answer(query, tuple(own), tuple(notes[number]))

    def _greediness(self, queries: Sequence[Query], showing: Showing, row_B: Tensor) -> float | Tensor | None:
        """Everybody's, or each query's own."""
        if all(query.greediness is None for query in queries):
            return showing.greediness
        default = showing.greediness or 0.0
        own = [default if query.greediness is None else query.greediness for query in queries]
        return torch.tensor(own, device=self.data.device)[row_B]

    def score(
        self, query: Query, slates: Sequence[Sequence[str]], tell: Callable[[str], None] = lambda _: None
    ) -> list[SlateScore]:
        """The rewards that a policy with a flow expects of given slates, shown to one user; `tell` hears what could
        not be heeded.
        """
        if query.candidates is not None or query.greediness is not None:
            raise UserError("candidates and greediness play no part in a score; leave them out of the query")
        notes: list[str] = []
        request = self._requests([query], [notes])
        for note in notes:
            tell(note)
        slate_BK = torch.tensor([[self._number(item, "slate") for item in self._checked(slate)] for slate in slates])
        row_B = torch.zeros(len(slates), dtype=torch.int64, device=self.data.device)
        request = Request(request.user_B[row_B], request.history_BH[row_B], request.response_BHR[row_B])
        slate_BK = slate_BK.to(self.data.device)
        score_B = self.policy.score(request, slate_BK).tolist()
        expected: list[float | None] = [None] * len(slates)
        if self.environment is not None:
            expected = list(self.environment.expected_rewards(request, slate_BK).tolist())
        return [
            SlateScore(tuple(slate), score, each) for slate, score, each in zip(slates, score_B, expected, strict=True)
        ]

    def _requests(self, queries: Sequence[Query], notes: list[list[str]]) -> Request:
        user_B = torch.tensor([self._user(query, note) for query, note in zip(queries, notes, strict=True)])
        request = self.data.latest(user_B.to(self.data.device))
        history_BH, response_BHR = request.history_BH.clone(), request.response_BHR.clone()
        for row, query in enumerate(queries):
            if query.history is not None:
                self._write_history(history_BH[row], response_BHR[row], query.history, notes[row])
        return Request(request.user_B, history_BH, response_BHR)

    def _user(self, query: Query, notes: list[str]) -> int:
        if query.user is None:
            return 0
        if query.user not in self._user_number:
            known = "from the history alone" if query.history else "as anybody would be"
            notes.append(f"user {query.user} is not in the prepared data set, and is served {known}")
        return self._user_number.get(query.user, 0)

    def _write_history(
        self,
        history_H: Tensor,
        response_HR: Tensor,
        events: Sequence[tuple[str, tuple[str, ...] | None]],
        notes: list[str],
    ) -> None:
        """The latest events on the right, padding on the left."""
        history_H.zero_()
        response_HR.zero_()
        behaviours = self.data.behaviours
        known = []
        for item, named in events:
            for name in named or ():
                if name not in behaviours:
                    raise UserError(f"history: no behaviour {name!r}; {nearest(name, list(behaviours))}")
            if item not in self._item_number:
                notes.append(f"item {item} of the history is not in the catalogue and is skipped")
            else:
                known.append((self._item_number[item], behaviours[:1] if named is None else named))
        for place, (number, named) in enumerate(reversed(known[-len(history_H) :]), start=1):
            history_H[-place] = number
            for name in named:
                response_HR[-place, behaviours.index(name)] = 1.0

    def _candidates(self, queries: Sequence[Query], request: Request, exclude_seen: bool) -> Tensor | None:
        """Lists of item numbers, 0 for padding; None if everybody may be shown everything."""
        if not exclude_seen and all(query.candidates is None for query in queries):
            return None
        num_items = self.data.num_items
        item_BN = torch.arange(num_items + 1, device=self.data.device).repeat(len(queries), 1)
        for row, query in enumerate(queries):
            if query.candidates is not None:
                numbers = [self._number(item, "candidates") for item in query.candidates]
                is_wanted_N = torch.zeros(num_items + 1, dtype=torch.bool, device=self.data.device)
                is_wanted_N[numbers] = True
                if int(is_wanted_N.sum()) < len(numbers):
                    raise UserError("candidates: an item is there more than once")
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
        """All that the user has met, however long ago: in the log, and in a history that is given."""
        given = torch.tensor([self._item_number.get(item, 0) for item, _ in query.history or ()], dtype=torch.int64)
        return torch.cat([self.data.items_of(user).cpu(), given])

    def _checked(self, slate: Sequence[str]) -> Sequence[str]:
        """A slate as it can be shown."""
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

    def _slates(self, request: Request, proposal: Proposal) -> list[Slate]:
        expected: list[float | None] = [None] * len(proposal.slate_BK)
        if self.environment is not None:
            expected = list(self.environment.expected_rewards(request, proposal.slate_BK).tolist())
        made = []
        for items, log_probs, reward in zip(
            proposal.slate_BK.tolist(), proposal.log_prob_BK.double(), expected, strict=True
        ):
            shown = [
                ShownItem(self._item_id[item], self._title[item], probability)
                for item, probability in zip(items, log_probs.exp().tolist(), strict=True)
            ]
            made.append(Slate(tuple(shown), float(log_probs.sum()), reward))
        return made


def load_run_policy(run: Run, data: SlateData, tell: Callable[[str], None] = lambda _: None) -> Policy:
    """The policy of a run's newest checkpoint, in evaluation mode; `tell` hears of damaged ones."""
    checkpoint = run.load_checkpoint(only=POLICY)
    for note in checkpoint.notes if checkpoint else ():
        tell(note)
    if checkpoint is None:
        raise UserError(f"{run.directory}: has no checkpoint yet; go on with `gfn4rec train resume {run.directory}`")
    policy = new_policy(data, run.manifest.settings)
    load_weights(policy, checkpoint.tensors[POLICY], run.directory)
    return policy.eval()


def as_dict(answer: Answer) -> dict[str, Any]:
    """For JSON."""
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
        **({"notes": list(answer.notes)} if answer.notes else {}),
    }

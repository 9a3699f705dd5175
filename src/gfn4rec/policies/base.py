"""The one contract of a policy: propose slates, give the probabilities of slates, and learn from answers to them."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from gfn4rec.config import StrictConfig
from gfn4rec.errors import RunError, UserError
from gfn4rec.nn.sampling import Choosing, choose
from gfn4rec.nn.scoring import Shelf, step_log_probs
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Proposal, Request, SlateBatch

MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-6, 1e6
CandidateIds: TypeAlias = Tensor | Sequence[int] | Sequence[Sequence[int]]


class PolicyConfig(StrictConfig):
    """The settings of a policy; the docstring of a field is what `gfn4rec policy list` says of it."""


@dataclass(frozen=True)
class Loss:
    """What to minimise, and its parts by name, for the record."""

    loss: Tensor
    terms: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """How a policy answers some requests: products of a query per step with the vectors on the shelf, softmaxed over
    what is not yet chosen. `queries(slate_BK, steps)` gives (B, steps, D); the query of a step looks at the items of
    earlier steps only.
    """

    candidates: Candidates
    shelf: Shelf
    queries: Callable[[Tensor, range], Tensor]

    def log_probs(self, slate_BK: Tensor, distinct: bool = True) -> Tensor:
        """The log-probability of each step of given slates, all steps at once."""
        column_BK = self.candidates.columns(slate_BK)
        return step_log_probs(self.queries(slate_BK, range(slate_BK.shape[1])), self.shelf, column_BK, distinct)

    def sample(self, slate_size: int, uniform_BK: Tensor, how: Choosing) -> tuple[Tensor, Tensor]:
        """Slates and the log-probability of each step, item by item."""
        slate_BK = torch.zeros_like(uniform_BK, dtype=torch.int64)
        column_BK, log_prob_BK = torch.zeros_like(slate_BK), self.shelf.vector_ND.new_zeros(slate_BK.shape)
        for step in range(slate_size):
            query_BD = self.queries(slate_BK, range(step, step + 1))[:, 0]
            column_BK[:, step], log_prob_BK[:, step] = choose(
                query_BD, self.shelf, column_BK[:, :step], uniform_BK[:, step], how
            )
            slate_BK[:, step] = self.candidates.items(column_BK[:, step : step + 1])[:, 0]
        return slate_BK, log_prob_BK


def constant_queries(query_BD: Tensor) -> Callable[[Tensor, range], Tensor]:
    """The queries of a policy that scores items one by one, whatever the slate holds already."""
    return lambda _, steps: query_BD[:, None].expand(-1, len(steps), -1)


class Policy(nn.Module, ABC):
    """Answers requests with slates of K different items."""

    description: ClassVar[str]
    Config: ClassVar[type[PolicyConfig]]
    is_learned: ClassVar[bool] = True
    learns_in_stages: ClassVar[bool] = False
    """Whether its ranker learns alone for `ranker.first_steps` steps."""
    training_defaults: ClassVar[Mapping[str, Any]] = {}  # settings of the loops that it learns best with
    offline_defaults: ClassVar[Mapping[str, Any]] = {}  # its own settings, where other ones suit a log

    def __init__(self, catalogue: Catalogue, config: Any) -> None:
        super().__init__()
        self.catalogue = catalogue
        self.config = config

    @abstractmethod
    def plan(
        self, request: Request, candidates: Candidates, slate_BK: Tensor | None = None, latent_BZ: Tensor | None = None
    ) -> Plan:
        """How these requests are answered, or how given slates come about."""

    def recommend(
        self,
        request: Request,
        generator: torch.Generator | None = None,
        *,
        greedy: bool = False,
        temperature: float = 1.0,
        greediness: float | Tensor | None = None,
        epsilon: float = 0.0,
        candidates: CandidateIds | None = None,
    ) -> Proposal:
        """Slates of different items, with log-probabilities at temperature 1 and epsilon 0, whatever sampled them.

        Each item is drawn from the softmax of scores / temperature, or with probability epsilon from all items alike
        (a re-ranker: from those that its ranker has picked); `greedy` takes the most likely one. `greediness` is a knob
        from 0, as diverse as what was learned, to 1, greedy, for all requests or for each, (B,): the temperature is
        1 - greediness. Candidates are ids, (C,) for all requests, or (B, C) with 0 for padding.
        """
        how = _choosing(greedy, temperature, greediness, epsilon, request.user_B)
        if generator is None and (not how.greedy or epsilon > 0):
            raise UserError("sampling needs a generator; give one, or greedy=True")
        device, num_requests = request.user_B.device, len(request.user_B)
        if not num_requests:
            empty_BK = torch.empty(0, self.catalogue.slate_size, device=device)
            return Proposal(empty_BK.long(), empty_BK)
        with _evaluating(self), torch.inference_mode():
            latent_BZ = self.draw_latent(num_requests, how, generator, device)
            shape = (num_requests, self.catalogue.slate_size)
            uniform_BK = torch.zeros(shape, dtype=torch.float64, device=device)
            if generator is not None:
                uniform_BK.uniform_(generator=generator)
            plan = self.plan(request, self._candidates(candidates, request), latent_BZ=latent_BZ)
            slate_BK, log_prob_BK = plan.sample(self.catalogue.slate_size, uniform_BK, how)
        if not bool(log_prob_BK.isfinite().all()):
            raise RunError(
                "the scores of the policy are no finite numbers: its weights have grown; lower learning_rate"
            )
        # Copies, because tensors of the inference mode cannot be learned from.
        return Proposal(
            slate_BK.clone(), _probable(log_prob_BK).clone(), None if latent_BZ is None else latent_BZ.clone()
        )

    def log_probs(
        self,
        request: Request,
        slate_BK: Tensor,
        candidates: CandidateIds | None = None,
        latent_BZ: Tensor | None = None,
    ) -> Tensor:
        """The log-probability of each step of given slates, (B, K), as `recommend` would report them."""
        self._check_slates(request, slate_BK)
        with _evaluating(self):
            plan = self.plan(request, self._candidates(candidates, request), slate_BK, latent_BZ)
            return _probable(plan.log_probs(slate_BK))

    def relevance(self, request: Request, slate_BK: Tensor, log_prob_BK: Tensor | None = None) -> Tensor:
        """What ranking metrics order shown items by, (B, K): the probability of the item at its step, or the trained
        P(i|u) of a policy that has one. Slates that were proposed come with the former.
        """
        self._check_slates(request, slate_BK)
        with _evaluating(self), torch.no_grad():
            trained_BK = self._trained_relevance(request, slate_BK)
            if trained_BK is not None:
                return trained_BK
            return (self.log_probs(request, slate_BK) if log_prob_BK is None else log_prob_BK).exp()

    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor | None:  # noqa: ARG002
        return None

    def score(self, request: Request, slate_BK: Tensor) -> Tensor:
        """The expected reward of given slates, (B,), as a policy estimates it that has learned a flow."""
        self._check_slates(request, slate_BK)
        with _evaluating(self), torch.no_grad():
            return self._score(request, slate_BK)

    def _score(self, request: Request, slate_BK: Tensor) -> Tensor:  # noqa: ARG002
        raise UserError(f"a {type(self).__name__} has no flow, so it cannot score slates; the gfn policies can")

    def loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None = None) -> Loss:
        """The loss of answered slates. `step` counts the learning steps before this one, for policies that learn in
        stages; without it the last stage is meant.
        """
        self._check_slates(batch.request, batch.slate_BK)
        for name in ("reward_B", "item_reward_BK"):
            if not torch.isfinite(getattr(batch, name)).all():
                row = int(torch.nonzero(~torch.isfinite(getattr(batch, name)))[0, 0])
                raise UserError(f"{name}: the reward of slate {row} of the batch is not a finite number")
        made = self._loss(batch, generator, step)
        return Loss(made.loss, {name: value.detach() for name, value in made.terms.items()})

    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:  # noqa: ARG002
        """A policy that learns overrides this."""
        return Loss(torch.zeros((), device=batch.reward_B.device))

    def draw_latent(
        self,
        num_requests: int,  # noqa: ARG002
        how: Choosing,  # noqa: ARG002
        generator: torch.Generator | None,  # noqa: ARG002
        device: torch.device,  # noqa: ARG002
    ) -> Tensor | None:
        """What a policy draws once per slate, before its items."""
        return None

    def _candidates(self, ids: CandidateIds | None, request: Request) -> Candidates:
        if ids is None:
            return Candidates.all_items(self.catalogue.num_items, request.user_B.device)
        made = Candidates.of(ids, len(request.user_B), self.catalogue.num_items, self.catalogue.slate_size)
        return made.to(request.user_B.device)

    def _check_slates(self, request: Request, slate_BK: Tensor) -> None:
        expected = (len(request.user_B), self.catalogue.slate_size)
        if tuple(slate_BK.shape) != expected:
            raise UserError(f"slates of shape {tuple(slate_BK.shape)}, but {expected} is expected: a row per request")
        is_item_BK = (slate_BK > 0) & (slate_BK <= self.catalogue.num_items)
        if not is_item_BK.all():
            row, place = (int(index) for index in torch.nonzero(~is_item_BK)[0])
            raise UserError(
                f"item {int(slate_BK[row, place])} of slate {row} is not in the catalogue; ids run from 1 to "
                f"{self.catalogue.num_items}"
            )
        in_order_BK = slate_BK.sort(dim=1).values
        is_repeated_B = (in_order_BK[:, 1:] == in_order_BK[:, :-1]).any(dim=1)
        if is_repeated_B.any():
            raise UserError(f"slate {int(is_repeated_B.nonzero()[0])} shows an item twice")


def _choosing(
    greedy: bool, temperature: float, greediness: float | Tensor | None, epsilon: float, user_B: Tensor
) -> Choosing:
    if not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:
        limits = f"{MIN_TEMPERATURE:g} and {MAX_TEMPERATURE:g}"
        raise UserError(f"temperature {temperature}: must lie between {limits}; greedy is the limit of small ones")
    if not 0 <= epsilon <= 1:
        raise UserError(f"epsilon {epsilon}: a probability lies between 0 and 1")
    if greediness is None:
        return Choosing(greedy, temperature, epsilon)
    if greedy or temperature != 1:
        raise UserError("greediness takes the place of greedy and temperature; give it alone")
    greediness_B = torch.as_tensor(greediness, dtype=torch.float32, device=user_B.device)
    if greediness_B.shape not in ((), user_B.shape):
        raise UserError(f"greediness of shape {tuple(greediness_B.shape)}: give a number, or one for each request")
    if not ((greediness_B >= 0) & (greediness_B <= 1)).all():
        wrong = greediness_B[~((greediness_B >= 0) & (greediness_B <= 1))]
        raise UserError(f"greediness {float(wrong.flatten()[0]):g}: must lie between 0, diverse, and 1, greedy")
    is_greedy_B = greediness_B == 1
    if is_greedy_B.all():
        return Choosing(greedy=True, epsilon=epsilon)
    if not greediness_B.dim():
        return Choosing(temperature=max(MIN_TEMPERATURE, 1 - float(greediness_B)), epsilon=epsilon)
    temperature_B1 = (1 - greediness_B[:, None]).clamp(min=MIN_TEMPERATURE)
    return Choosing(temperature=temperature_B1, epsilon=epsilon, greedy_B=is_greedy_B)


def _probable(log_prob_BK: Tensor) -> Tensor:
    """Rounding must not make a probability larger than 1."""
    return log_prob_BK.clamp(max=0.0)


@contextlib.contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Dropout off for a while; each part then goes back to the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, was_training in modes:
            part.training = was_training

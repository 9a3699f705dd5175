"""The contract of all policies: propose slates, give the probabilities of slates, and learn from responses."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from gfn4rec.config import StrictConfig
from gfn4rec.errors import RunError, UserError
from gfn4rec.nn.sampling import choose
from gfn4rec.nn.scoring import ItemMatrix, step_log_probs
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.draws import Generators, check_generators, draw_uniforms
from gfn4rec.schema import Proposal, Request, Sampling, SlateBatch, check_slates

CandidateIds: TypeAlias = Tensor | Sequence[int] | Sequence[Sequence[int]]


class PolicyConfig(StrictConfig):
    """Settings of a policy. `gfn4rec policy show` prints the docstrings of the fields."""

    @property
    def history_length(self) -> int:
        """Number of latest events of a history that the policy reads."""
        return 0

    @property
    def idle_steps(self) -> int:
        """Number of learning steps before all parts of the policy learn."""
        return 0


@dataclass(frozen=True)
class Loss:
    """The loss to minimise, and its parts by name, which are recorded as metrics."""

    loss: Tensor
    terms: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """Requests for slates, with the items to choose from."""

    request: Request
    candidates: Candidates
    slate_BK: Tensor | None = None
    """Given slates whose probabilities are needed; a re-ranker puts their items on its list."""
    latent_BZ: Tensor | None = None
    """The latent vectors from `draw_latent`."""
    reward_weight: float | Tensor = 1.0
    """Weight of the reward against the prior, for policies that have one; a number, or (B,)."""


@dataclass(frozen=True)
class Plan:
    """How a policy chooses the slates of a batch of requests.

    Scores are dot products of the step's query and the item vectors, softmaxed over the items not yet chosen.
    `queries(slate_BK, steps)` returns (B, steps, D); the query of a step depends on the items of earlier steps only.
    """

    candidates: Candidates
    matrix: ItemMatrix
    queries: Callable[[Tensor, range], Tensor]

    def log_probs(self, slate_BK: Tensor, distinct: bool = True) -> Tensor:
        """Return the log-probability of each step of given slates, (B, K).

        With `distinct`, items of earlier steps cannot be chosen again.
        """
        column_BK = self.candidates.columns(slate_BK)
        return step_log_probs(self.queries(slate_BK, range(slate_BK.shape[1])), self.matrix, column_BK, distinct)

    def sample(self, slate_size: int, uniform_BK: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor, Tensor]:
        """Sample slates item by item; return them with both log-probabilities of each step (see `Proposal`)."""
        slate_BK = torch.zeros_like(uniform_BK, dtype=torch.int64)
        column_BK, log_prob_BK = torch.zeros_like(slate_BK), self.matrix.vector_ND.new_zeros(slate_BK.shape)
        sampling_log_prob_BK = torch.zeros_like(log_prob_BK)
        for step in range(slate_size):
            query_BD = self.queries(slate_BK, range(step, step + 1))[:, 0]
            choice = choose(query_BD, self.matrix, column_BK[:, :step], uniform_BK[:, step], sampling)
            column_BK[:, step], log_prob_BK[:, step], sampling_log_prob_BK[:, step] = choice
            slate_BK[:, step] = self.candidates.items(column_BK[:, step : step + 1])[:, 0]
        return slate_BK, log_prob_BK, sampling_log_prob_BK


def pointwise_plan(candidates: Candidates, matrix: ItemMatrix, query_BD: Tensor) -> Plan:
    """Return the plan of a policy whose item scores do not depend on the rest of the slate."""
    return Plan(candidates, matrix, lambda _, steps: query_BD[:, None].expand(-1, len(steps), -1))


class Part(NamedTuple):
    """A module of a policy that shares no term of the loss with others, so that it can learn by itself."""

    term: str
    """The term of the loss that is its validation loss."""
    learning_share: float = 1.0
    """Share of the steps of offline training at which its learning rate ends, and the next evaluation freezes it."""


class Policy(nn.Module, ABC):
    """Proposes slates of K different items for requests, and learns from the responses.

    >>> import torch
    >>> from gfn4rec import OpenedRun, Sampling
    >>> opened = OpenedRun.open("runs/tiny")
    >>> request = opened.data.latest(torch.tensor([1, 2]))
    >>> proposal = opened.policy.recommend(request, torch.Generator(), Sampling(temperature=0.5))
    >>> proposal.slate_BK.shape
    torch.Size([2, 6])
    >>> bool((opened.policy.log_probs(request, proposal.slate_BK) - proposal.log_prob_BK).abs().max() < 1e-5)
    True
    """

    description: ClassVar[str]
    """The line of `gfn4rec policy list`."""
    Config: ClassVar[type[PolicyConfig]]
    is_learned: ClassVar[bool] = True
    has_prior: ClassVar[bool] = False
    """Whether the policy has a prior learned from the log, so that `Sampling.reward_weight` has a meaning."""
    training_defaults: ClassVar[Mapping[str, object]] = {}
    """Defaults of the training loops, where this policy needs others."""
    offline_defaults: ClassVar[Mapping[str, object]] = {}
    """Defaults of the policy's own settings and of the loop in offline training, where they differ."""
    parts: ClassVar[Mapping[str, Part]] = {}
    """Modules, by their names, that learn for themselves, so that offline each keeps its own best weights."""

    def __init__(self, catalogue: Catalogue, config: Any) -> None:
        super().__init__()
        self.frozen: set[str] = set()  # parts that have finished learning; the loss has no terms for them
        self.catalogue = catalogue
        self.config = config

    @abstractmethod
    def plan(self, context: Context) -> Plan:
        """Return how slates are chosen for these requests: item vectors, and a query per step."""

    def recommend(
        self,
        request: Request,
        generator: Generators | None = None,
        sampling: Sampling = Sampling(),  # noqa: B008
        candidates: CandidateIds | None = None,
    ) -> Proposal:
        """Propose a slate of different items for each request, with the log-probabilities of its steps.

        Candidates are item ids: (C,) for all requests, or (B, C) with 0 for padding. With probability epsilon an item
        is drawn uniformly, by a re-ranker only from its ranker's list. With a generator for each request, a slate does
        not depend on the other requests of the batch.
        """
        sampling = self._checked(sampling, request)
        check_generators(generator, len(request.user_B))
        if generator is None and not sampling.is_deterministic:
            raise UserError("sampling needs a generator; give one, or Sampling(greedy=True)")
        device, num_requests = request.user_B.device, len(request.user_B)
        if not num_requests:
            empty_BK = torch.empty(0, self.catalogue.slate_size, device=device)
            return Proposal(empty_BK.long(), empty_BK, empty_BK)
        with evaluating(self), torch.inference_mode():
            latent_BZ = self.draw_latent(num_requests, sampling, generator, device)
            size = self.catalogue.slate_size
            uniform_BK = torch.zeros(num_requests, size, dtype=torch.float64, device=device)
            if generator is not None:
                uniform_BK = draw_uniforms(num_requests, size, generator, device)
            chosen_from, weight = self._candidates(candidates, request), sampling.reward_weight
            plan = self.plan(Context(request, chosen_from, latent_BZ=latent_BZ, reward_weight=weight))
            slate_BK, *log_probs = plan.sample(size, uniform_BK, sampling)
        refuse_diverged(log_probs[0])
        # Copies, because inference tensors cannot be used in training.
        log_prob_BK, sampling_log_prob_BK = (_probable(values).clone() for values in log_probs)
        latent_BZ = None if latent_BZ is None else latent_BZ.clone()
        return Proposal(slate_BK.clone(), log_prob_BK, sampling_log_prob_BK, latent_BZ)

    def greedy_plan(
        self, request: Request, reward_weight: float | Tensor = 1.0, candidates: CandidateIds | None = None
    ) -> Plan:
        """Return the plan of greedy slates, which draws nothing.

        It is read with the policy evaluating (`evaluating`) and without gradients.
        """
        sampling = self._checked(Sampling(greedy=True, reward_weight=reward_weight), request)
        with evaluating(self), torch.inference_mode():
            latent_BZ = self.draw_latent(len(request.user_B), sampling, None, request.user_B.device)
            chosen_from, weight = self._candidates(candidates, request), sampling.reward_weight
            return self.plan(Context(request, chosen_from, latent_BZ=latent_BZ, reward_weight=weight))

    def log_probs(
        self,
        request: Request,
        slate_BK: Tensor,
        candidates: CandidateIds | None = None,
        latent_BZ: Tensor | None = None,
    ) -> Tensor:
        """Return the log-probability of each step of given slates at temperature 1, (B, K)."""
        self._check_slates(request, slate_BK)
        with evaluating(self):
            plan = self.plan(Context(request, self._candidates(candidates, request), slate_BK, latent_BZ))
            return _probable(plan.log_probs(slate_BK))

    def relevance(self, request: Request, slate_BK: Tensor, log_prob_BK: Tensor | None = None) -> Tensor:
        """Return the scores by which ranking metrics order the shown items, (B, K).

        They are the trained P(i|u) if the policy has one, else the probability of each item at its step, which is
        `log_prob_BK` of a proposal or computed.
        """
        self._check_slates(request, slate_BK)
        with evaluating(self), torch.no_grad():
            trained_BK = self._trained_relevance(request, slate_BK)
            if trained_BK is not None:
                return trained_BK
            return (self.log_probs(request, slate_BK) if log_prob_BK is None else log_prob_BK).exp()

    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor | None:  # noqa: ARG002
        return None

    def score(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the estimated expected reward of given slates, (B,); only policies with a flow can estimate it."""
        self._check_slates(request, slate_BK)
        with evaluating(self), torch.no_grad():
            return self._score(request, slate_BK)

    def _score(self, request: Request, slate_BK: Tensor) -> Tensor:  # noqa: ARG002
        raise UserError(f"a {type(self).__name__} has no flow, so it cannot score slates; the gfn policies can")

    def loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None = None) -> Loss:
        """Return the loss of a batch of slates with responses.

        `step` is the number of learning steps so far, for policies that learn in stages; None means the last stage.
        """
        self._check_slates(batch.request, batch.slate_BK)
        for name in ("reward_B", "item_reward_BK"):
            if not torch.isfinite(getattr(batch, name)).all():
                row = int(torch.nonzero(~torch.isfinite(getattr(batch, name)))[0, 0])
                raise UserError(f"{name}: the reward of slate {row} of the batch is NaN or infinite")
        loss = self._loss(batch, generator, step)
        return Loss(loss.loss, {name: value.detach() for name, value in loss.terms.items()})

    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:  # noqa: ARG002
        """Return the loss of a valid batch; policies that learn override this."""
        return Loss(torch.zeros((), device=batch.reward_B.device))

    def draw_latent(
        self,
        num_requests: int,  # noqa: ARG002
        sampling: Sampling,  # noqa: ARG002
        generator: Generators | None,  # noqa: ARG002
        device: torch.device,  # noqa: ARG002
    ) -> Tensor | None:
        """Draw the latent vectors that slates are conditioned on, (B, Z), or return None if the policy has none."""
        return None

    def _checked(self, sampling: Sampling, request: Request) -> Sampling:
        """Return the sampling of requests, resolved, if it has a meaning for this policy."""
        sampling = _for_requests(sampling, request.user_B)
        if not self.has_prior and bool((torch.as_tensor(sampling.reward_weight) != 1).any()):
            raise UserError(f"a {type(self).__name__} has no prior; leave reward_weight at 1, or use gfn-prior")
        return sampling

    def _candidates(self, ids: CandidateIds | None, request: Request) -> Candidates:
        if ids is None:
            return Candidates.all_items(self.catalogue.num_items, request.user_B.device)
        candidates = Candidates.of(ids, len(request.user_B), self.catalogue.num_items, self.catalogue.slate_size)
        return candidates.to(request.user_B.device)

    def _check_slates(self, request: Request, slate_BK: Tensor) -> None:
        check_slates(slate_BK, len(request.user_B), self.catalogue.slate_size, self.catalogue.num_items)


def _for_requests(sampling: Sampling, user_B: Tensor) -> Sampling:
    """Return the sampling with its greediness resolved, on the device of the requests, after a check of its shapes."""
    for name in ("temperature", "greedy", "greediness", "reward_weight"):
        value = getattr(sampling, name)
        if isinstance(value, Tensor) and value.dim() and value.shape != user_B.shape:
            raise UserError(f"{name} of shape {tuple(value.shape)}: give one value, or one for each request")
    sampling = sampling.resolved()
    temperature, reward_weight = (
        value.to(user_B.device) if isinstance(value, Tensor) and value.dim() else float(value)
        for value in (sampling.temperature, sampling.reward_weight)
    )
    if isinstance(temperature, Tensor) and bool((temperature == 1).all()):
        temperature = 1.0  # so that one sum serves both log-probabilities
    greedy = sampling.greedy
    if isinstance(greedy, Tensor):
        is_mixed = bool(greedy.any()) and not bool(greedy.all())
        greedy = greedy.to(user_B.device) if is_mixed else bool(greedy.all())
    return replace(sampling, temperature=temperature, greedy=greedy, reward_weight=reward_weight)


def refuse_diverged(log_prob_BK: Tensor) -> None:
    """Raise a `RunError` if a log-probability is NaN or infinite."""
    if not bool(log_prob_BK.isfinite().all()):
        raise RunError("the policy's scores are NaN or infinite: its weights have diverged; lower learning_rate")


def _probable(log_prob_BK: Tensor) -> Tensor:
    """Clamp probabilities that rounding made larger than 1."""
    return log_prob_BK.clamp(max=0.0)


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Turn dropout off in the block, then restore the mode of each module.

    Modules that are not training are left alone: setting the mode of all takes as long as a small request's answer.
    """
    training, left = list[nn.Module](), [module]
    while left:  # `module.modules()` takes several times as long
        part = left.pop()
        left += part.children()
        if part.training:
            training.append(part)
            part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True

"""The learning half of Algorithm 1: remember the feedback to slates, and learn from it."""

from pydantic import Field
from torch import Tensor

from gfn4rec.config import ADDED_LATER
from gfn4rec.errors import UserError
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request, check_slates
from gfn4rec.seeding import torch_generator
from gfn4rec.training.group import Group
from gfn4rec.training.learner import Learner, LearnerConfig
from gfn4rec.training.recording import MetricsLine
from gfn4rec.training.replay import ReplayBuffer


class OnlineLearnerConfig(LearnerConfig):
    """How a policy learns from feedback that keeps arriving; the defaults are the paper's.

    >>> OnlineLearnerConfig(learning_rate=3e-4).learning_batch
    128
    """

    learning_steps: int = Field(default=1, ge=1)
    """Number of learning steps after each inference step."""
    learning_batch: int = Field(default=128, ge=1)
    """Number of slates in the batch of a learning step."""
    newest_share: float = Field(default=0.5, ge=0, le=1)
    """Share of the batch that comes from the newest slates; the rest comes from the whole replay buffer."""
    newest_window: int | None = Field(default=None, ge=1, json_schema_extra=ADDED_LATER)
    """How many of the latest slates count as newest; default: num_users, or learning_batch without simulated users."""
    buffer_size: int = Field(default=50_000, ge=1)
    """Number of slates that the replay buffer holds."""


class OnlineLearner:
    """Learns a policy from the feedback of users, simulated or real.

    Feedback may arrive in batches or one slate at a time. Without `num_steps`, the number of learning steps, the
    learning rate is constant.

    >>> import torch
    >>> from gfn4rec import OpenedRun
    >>> opened = OpenedRun.open("runs/tiny")
    >>> request = opened.data.latest(torch.tensor([1]))
    >>> proposal = opened.policy.recommend(request, torch.Generator())
    >>> learner = OnlineLearner(opened.policy, OnlineLearnerConfig(learning_batch=8))
    >>> learner.observe(request, proposal.slate_BK, torch.ones(1, 6, 4))
    >>> sorted(learner.learn())
    ['gradient_norm', 'loss', 'terms']
    """

    def __init__(
        self,
        policy: Policy,
        config: OnlineLearnerConfig,
        seed: int = 0,
        num_steps: int | None = None,
        group: Group = Group(),  # noqa: B008
    ) -> None:
        self.config = config
        weight_R = policy.catalogue.weight_R
        window = group.share(config.newest_window or config.learning_batch, "newest_window")
        self._batch_size = group.share(config.learning_batch, "learning_batch")
        self._learner = Learner(policy, config, seed, num_steps, group)
        self._replay = ReplayBuffer(config.buffer_size // group.size, weight_R, window)
        self._generator = torch_generator(seed, group.stream("replay"), weight_R.device)

    @property
    def policy(self) -> Policy:
        """The policy that is learned."""
        return self._learner.policy

    def grow(self, catalogue: Catalogue) -> None:
        """Go on with a policy for a catalogue of more items; what was learned and observed of others stays."""
        self._learner.grow(catalogue)

    @property
    def num_learned(self) -> int:
        """Learning steps made so far."""
        return self._learner.step

    def observe(self, request: Request, slate_BK: Tensor, response_BKR: Tensor) -> None:
        """Remember slates that were shown for requests, and the responses to them, 0 or 1, (B, K, R)."""
        catalogue = self.policy.catalogue
        check_slates(slate_BK, len(request.user_B), catalogue.slate_size, catalogue.num_items)
        _check_ids("user", request.user_B, catalogue.num_users)
        _check_ids("item of a history", request.history_BH, catalogue.num_items)
        _check_responses("histories", request.response_BHR, (*request.history_BH.shape, len(catalogue.weight_R)))
        _check_responses("slates", response_BKR, (*slate_BK.shape, len(catalogue.weight_R)))
        self._replay.add(request, slate_BK, response_BKR)

    def learn(self) -> MetricsLine:
        """Make `learning_steps` gradient steps on batches of what was observed; return the metrics of the last."""
        if not self.policy.is_learned:
            raise UserError(f"a {type(self.policy).__name__} has nothing to learn; choose another policy")
        metrics: MetricsLine = {}
        for _ in range(self.config.learning_steps):
            batch = self._replay.sample(self._batch_size, self.config.newest_share, self._generator)
            metrics = self._learner.learn(batch)
        return metrics

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Return everything that changes, by part, except the policy's weights; the next step changes the tensors."""
        return {
            "learner": self._learner.state_dict(),
            "replay": self._replay.state_dict(),
            "generators": {"replay": self._generator.get_state()},
        }

    def load_state_dict(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Continue where `state_dict` was taken."""
        self._learner.load_state_dict(state["learner"])
        self._replay.load_state_dict(state["replay"])
        self._generator.set_state(state["generators"]["replay"])


def _check_ids(what: str, ids: Tensor, most: int) -> None:
    outside = ids[(ids < 0) | (ids > most)]
    if len(outside):
        raise UserError(f"{what} {int(outside[0])}: ids run from 1 to {most}, and 0 is unknown")


def _check_responses(of: str, responses: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(responses.shape) != shape:
        raise UserError(f"responses to {of} have shape {tuple(responses.shape)}; {shape} is expected")
    others = responses[(responses != 0) & (responses != 1)]
    if len(others):
        raise UserError(f"a response to {of} is {float(others[0]):g}; responses are 0 or 1")

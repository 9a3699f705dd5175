"""The environment of simulated users that training loops use: slates in, responses and the next requests out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from pydantic import Field
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.schema import Request, check_slates, rewards
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.effects import ListEffects
from gfn4rec.simulator.outlook import ListModel, Outlook
from gfn4rec.simulator.protocol import UserModel, trusted


class EnvironmentConfig(ListEffects):
    """The number of simulated users, and how they behave: item influence (`rho`) and other list effects.

    >>> EnvironmentConfig(num_users=16).episode_length
    5
    """

    num_users: int = Field(default=128, ge=1)
    """B, the users in a batch."""
    rho: float = Field(default=0.2, ge=0)
    """The strength of item influence."""
    episode_length: int = Field(default=5, ge=1)
    """T, the slates shown to a user before all users are replaced."""
    slate_size: int = Field(default=6, ge=1)
    """K, the items of a slate."""


@dataclass(frozen=True)
class Feedback:
    """The responses to a batch of slates, with their rewards and the next requests."""

    response_BKR: Tensor  # 0 or 1
    item_reward_BK: Tensor
    reward_B: Tensor
    expected_item_reward_BK: Tensor  # expected values over the random responses
    expected_reward_B: Tensor
    similarity_BK: Tensor  # of each item to the others of its slate
    clipped_share: float  # share of the probabilities that list effects pushed out of [0, 1]
    next_request: Request
    final_request: Request | None  # at the end of an episode, the request before the users were replaced


class UserEnvironment:
    """B users who respond to slates; after T slates all of them are replaced by new ones.

    A new user starts with the history before a log row, which is drawn uniformly from `start_rows` (by default, all
    rows). Slates and responses are appended to the history; of items without a response only if the histories of the
    data set hold them. The environment draws from its own generator: two environments with the same seed agree step by
    step, whatever else draws random numbers.

    >>> import torch
    >>> from gfn4rec import EnvironmentConfig, OpenedRun
    >>> users = OpenedRun.open("runs/tiny").users
    >>> environment = UserEnvironment(users.data, users.model, EnvironmentConfig(num_users=16), seed=0)
    >>> feedback = environment.step(torch.arange(1, 7).expand(16, -1))
    >>> feedback.response_BKR.shape, feedback.next_request is environment.request
    (torch.Size([16, 6, 4]), True)
    """

    def __init__(
        self,
        data: SlateData,
        model: UserModel,
        config: EnvironmentConfig,
        seed: int = 0,
        start_rows: Tensor | None = None,
    ) -> None:
        self.data, self.model, self.config = data, model, config
        self._start_rows = torch.arange(data.num_rows, device=data.device) if start_rows is None else start_rows
        self.influence_includes_self = bool(getattr(model, "influence_includes_self", False))
        if config.slate_size > data.num_items:
            raise UserError(
                f"slate_size {config.slate_size}: the data set has only {data.num_items} items; choose a smaller slate"
            )
        self.lists = ListModel(
            model.item_embedding_ND, config, config.rho, config.categories(data), self.influence_includes_self
        )
        self.reset(seed)

    def reset(self, seed: int | None = None) -> Request:
        """Replace all users and return their requests; a seed repeats the same users and responses."""
        if seed is not None:
            self._generator = torch_generator(seed, "environment", self.data.device)
        self._num_steps = 0
        drawn = torch.randint(
            len(self._start_rows), (self.config.num_users,), generator=self._generator, device=self.data.device
        )
        self.request = self.data.requests(self._start_rows[drawn])
        return self.request

    @torch.inference_mode()
    def outlook(self, request: Request, slate_BK: Tensor) -> Outlook:
        """Return how the users of requests may respond to slates.

        What a model does not trust has lower probabilities, whether there are list effects or not.
        """
        state = self.model.encode(request)
        # Only some models know that users look less at later positions.
        probabilities = getattr(self.model, "slate_probabilities", self.model.probabilities)
        return self.lists.outlook(slate_BK, probabilities(state, slate_BK), trusted(self.model, state, slate_BK))

    def expected_rewards(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the expected reward of each slate, (B,)."""
        return rewards(self.outlook(request, slate_BK).probabilities(), self.data.weight_R)[1]

    @torch.inference_mode()
    def step(self, slate_BK: Tensor) -> Feedback:
        """Show a slate to each user, and return the responses."""
        check_slates(slate_BK, self.config.num_users, self.config.slate_size, self.data.num_items)
        outlook = self.outlook(self.request, slate_BK)
        response_BKR = outlook.draw_responses(self._draw)
        item_reward_BK, reward_B = rewards(response_BKR, self.data.weight_R)
        expected_item_reward_BK, expected_reward_B = rewards(outlook.probabilities(), self.data.weight_R)
        final = append_events(self.request, slate_BK, response_BKR, self.data.is_responded_only)
        self._num_steps += 1
        is_over = self._num_steps == self.config.episode_length
        self.request = self.reset() if is_over else final
        return Feedback(
            response_BKR=response_BKR,
            item_reward_BK=item_reward_BK,
            reward_B=reward_B,
            expected_item_reward_BK=expected_item_reward_BK,
            expected_reward_B=expected_reward_B,
            similarity_BK=outlook.similarity,
            clipped_share=float((outlook.raw != outlook.attraction).float().mean()),
            next_request=self.request,
            final_request=final if is_over else None,
        )

    def _draw(self, shape: Sequence[int]) -> Tensor:
        return torch.rand(self.config.num_users, *shape, generator=self._generator, device=self.data.device)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that changes from step to step."""
        request = self.request
        return {
            "generator": self._generator.get_state(),
            "num_steps": torch.tensor(self._num_steps),
            "user": request.user_B,
            "history": request.history_BH,
            "response": request.response_BHR,
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""
        self._generator.set_state(state["generator"])
        self._num_steps = int(state["num_steps"])
        self.request = Request(*(state[name].to(self.data.device) for name in ("user", "history", "response")))


def append_events(request: Request, slate_BK: Tensor, response_BKR: Tensor, is_responded_only: bool) -> Request:
    """Return the requests after slates: items and responses are appended, the oldest events dropped.

    Item 0 is no event; nor is an item without a response, if histories hold only others.
    """
    length = request.history_BH.shape[1]
    history_BX = torch.cat([request.history_BH, slate_BK], dim=1)
    response_BXR = torch.cat([request.response_BHR, response_BKR], dim=1)
    if is_responded_only or bool((slate_BK == 0).any()):
        is_event_BX = response_BXR.any(dim=2) if is_responded_only else history_BX > 0
        order_BX = is_event_BX.byte().argsort(dim=1, stable=True)  # padding first, events in their order
        history_BX = history_BX.masked_fill(~is_event_BX, 0).gather(1, order_BX)
        response_BXR = response_BXR.gather(1, order_BX[:, :, None].expand_as(response_BXR))
    return replace(request, history_BH=history_BX[:, -length:], response_BHR=response_BXR[:, -length:])

"""The simulated users as an environment: requests in, slates out, responses back.

`UserEnvironment` speaks tensors and is what the training loops use. `SlateVectorEnv` is the same behind Gymnasium's
vector interface, with numpy at the border.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from pydantic import Field
from torch import Tensor

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.schema import Request
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.influence import slate_similarity, suppress
from gfn4rec.simulator.protocol import UserModel


class EnvironmentConfig(StrictConfig):
    """How simulated users behave."""

    num_users: int = Field(default=128, ge=1)  # B, users at a time
    rho: float = Field(default=0.2, ge=0)  # strength of item influence
    episode_length: int = Field(default=5, ge=1)  # T, slates before all users are replaced
    slate_size: int = Field(default=6, ge=1)  # K


@dataclass(frozen=True)
class Feedback:
    """The answers to a batch of slates."""

    response_BKR: Tensor  # 0 or 1
    item_reward_BK: Tensor
    reward_B: Tensor
    expected_item_reward_BK: Tensor  # the mean over the coin flips
    expected_reward_B: Tensor
    similarity_BK: Tensor
    clipped_share: float  # of the probabilities that item influence pushed out of [0, 1]
    next_request: Request
    final_request: Request | None  # at the end of an episode: the request before the users were replaced


class UserEnvironment:
    """B users who answer slates; after T slates all of them are replaced by fresh ones.

    A fresh user starts from the history before a log row drawn uniformly from `start_rows`, which are by default the
    whole log. What was shown and
    answered is appended to the history. The environment has a generator of its own: two environments with one seed
    agree step by step, whatever runs beside them.
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
            raise UserError(f"a slate of {config.slate_size} distinct items needs as many items, not {data.num_items}")
        self.reset(seed)

    def reset(self, seed: int | None = None) -> Request:
        """Fresh users; with a seed, the same ones and the same coin flips as at any other reset with it."""
        if seed is not None:
            self._generator = torch_generator(seed, "environment", self.data.device)
        self._num_steps = 0
        drawn = torch.randint(
            len(self._start_rows), (self.config.num_users,), generator=self._generator, device=self.data.device
        )
        self.request = self.data.requests(self._start_rows[drawn])
        return self.request

    @torch.inference_mode()
    def probabilities(self, request: Request, slate_BK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Response probabilities with item influence, before and after clipping, and the similarities behind it."""
        base_BKR = self.model.probabilities(self.model.encode(request), slate_BK)
        similarity_BK = slate_similarity(self.model.item_embedding_ND, slate_BK, self.influence_includes_self)
        raw_BKR = suppress(base_BKR, similarity_BK, self.config.rho)
        return raw_BKR, raw_BKR.clamp(0, 1), similarity_BK

    def expected_rewards(self, request: Request, slate_BK: Tensor) -> Tensor:
        """The expected reward of showing slates to some users, (B,)."""
        _, probability_BKR, _ = self.probabilities(request, slate_BK)
        return (probability_BKR @ self.data.weight_R).mean(dim=1)

    @torch.inference_mode()
    def step(self, slate_BK: Tensor) -> Feedback:
        """Show a slate to each user."""
        self._check(slate_BK)
        raw_BKR, probability_BKR, similarity_BK = self.probabilities(self.request, slate_BK)
        flips_BKR = torch.rand(probability_BKR.shape, generator=self._generator, device=probability_BKR.device)
        response_BKR = (flips_BKR < probability_BKR).float()
        item_reward_BK, expected_BK = response_BKR @ self.data.weight_R, probability_BKR @ self.data.weight_R
        final = self._roll(slate_BK, response_BKR)
        self._num_steps += 1
        is_over = self._num_steps == self.config.episode_length
        self.request = self.reset() if is_over else final
        return Feedback(
            response_BKR=response_BKR,
            item_reward_BK=item_reward_BK,
            reward_B=item_reward_BK.mean(dim=1),
            expected_item_reward_BK=expected_BK,
            expected_reward_B=expected_BK.mean(dim=1),
            similarity_BK=similarity_BK,
            clipped_share=float((raw_BKR != probability_BKR).float().mean()),
            next_request=self.request,
            final_request=final if is_over else None,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes from step to step."""
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

    def _roll(self, slate_BK: Tensor, response_BKR: Tensor) -> Request:
        """The request after the slate: its items and responses are the latest events, the oldest fall out."""
        request = self.request
        length = request.history_BH.shape[1]
        history_BH = torch.cat([request.history_BH, slate_BK], dim=1)[:, -length:]
        return replace(
            request,
            history_BH=history_BH,
            response_BHR=torch.cat([request.response_BHR, response_BKR], dim=1)[:, -length:],
        )

    def _check(self, slate_BK: Tensor) -> None:
        shape = (self.config.num_users, self.config.slate_size)
        if tuple(slate_BK.shape) != shape:
            raise UserError(f"slates of shape {tuple(slate_BK.shape)}, but {shape} is expected: one row per user")
        in_order = slate_BK.sort(dim=1).values
        if int(in_order[:, 0].min()) < 1 or int(in_order[:, -1].max()) > self.data.num_items:
            is_bad = (slate_BK < 1) | (slate_BK > self.data.num_items)
            row, position = (int(index) for index in is_bad.nonzero()[0])
            item = int(slate_BK[row, position])
            what = "padding" if item == 0 else f"item {item}, which is not one of 1 to {self.data.num_items}"
            raise UserError(f"slate {row} shows {what} at position {position}")
        repeats = (in_order[:, 1:] == in_order[:, :-1]).nonzero()
        if len(repeats):
            row, position = (int(index) for index in repeats[0])
            raise UserError(f"slate {row} shows item {int(in_order[row, position])} twice")


class SlateVectorEnv(VectorEnv[dict[str, np.ndarray], np.ndarray, np.ndarray]):
    """`UserEnvironment` as a Gymnasium vector environment.

    An observation is the request: `user` (B,), `history` (B, H), `response` (B, H, R). An action is a slate of K
    distinct item numbers per user, the reward that of the slate. An episode is truncated after T slates and begins anew
    in the same step; its last observation is then in `info["final_obs"]`. `info` also holds responses, item rewards and
    expected rewards.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, environment: UserEnvironment) -> None:
        self.environment = environment
        data, config = environment.data, environment.config
        self.num_envs = config.num_users
        length, num_behaviours = data.history_length, len(data.behaviours)
        self.single_observation_space = spaces.Dict(
            {
                "user": spaces.Discrete(data.num_users + 1),
                "history": spaces.MultiDiscrete(np.full(length, data.num_items + 1)),
                "response": spaces.MultiBinary([length, num_behaviours]),
            }
        )
        self.single_action_space = spaces.MultiDiscrete(
            np.full(config.slate_size, data.num_items), start=np.ones(config.slate_size, dtype=np.int64)
        )
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Fresh users."""
        super().reset(seed=seed, options=options)
        return _observation(self.environment.reset(seed)), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Show a slate to each user."""
        slate_BK = torch.as_tensor(np.asarray(actions), dtype=torch.int64, device=self.environment.data.device)
        feedback = self.environment.step(slate_BK)
        is_over = feedback.final_request is not None
        info: dict[str, Any] = {
            "response": feedback.response_BKR.cpu().numpy().astype(np.int8),
            "item_reward": feedback.item_reward_BK.cpu().numpy(),
            "expected_item_reward": feedback.expected_item_reward_BK.cpu().numpy(),
            "expected_reward": feedback.expected_reward_B.cpu().numpy(),
            "clipped_share": feedback.clipped_share,
        }
        if feedback.final_request is not None:
            info |= {
                "final_obs": _observation(feedback.final_request),
                "_final_obs": np.ones(self.num_envs, dtype=bool),
            }
        terminated, truncated = np.zeros(self.num_envs, dtype=bool), np.full(self.num_envs, is_over)
        reward = feedback.reward_B.cpu().numpy().astype(np.float64)
        return _observation(feedback.next_request), reward, terminated, truncated, info


def make_environment(
    data: SlateData, model: UserModel, config: EnvironmentConfig | None = None, seed: int = 0
) -> SlateVectorEnv:
    """A Gymnasium vector environment of simulated users."""
    return SlateVectorEnv(UserEnvironment(data, model, config or EnvironmentConfig(slate_size=data.slate_size), seed))


def _observation(request: Request) -> dict[str, np.ndarray]:
    return {
        "user": request.user_B.cpu().numpy(),
        "history": request.history_BH.cpu().numpy(),
        "response": request.response_BHR.cpu().numpy().astype(np.int8),
    }

"""The simulated users behind Gymnasium's vector interface, with numpy arrays in and out."""

from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gfn4rec.data.dataset import SlateData
from gfn4rec.schema import Request
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.protocol import UserModel

Observation: TypeAlias = dict[str, np.ndarray]
Info: TypeAlias = dict[str, Any]  # as Gymnasium has it


class SlateVectorEnv(VectorEnv[Observation, np.ndarray, np.ndarray]):
    """`UserEnvironment` as a Gymnasium vector environment.

    An observation is the request: `user` (B,), `history` (B, H), `response` (B, H, R). An action is a slate of K
    distinct item numbers per user, and the reward is that of the slate. After T slates the episode is truncated and the
    next one begins in the same step; `info["final_obs"]` then holds the last observation of the old one. `info` also
    holds responses, item rewards and expected rewards.
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
        options: Info | None = None,
    ) -> tuple[Observation, Info]:
        """Replace all users."""
        super().reset(seed=seed, options=options)
        return _observation(self.environment.reset(seed)), {}

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Show a slate to each user."""
        slate_BK = torch.as_tensor(np.asarray(actions), dtype=torch.int64, device=self.environment.data.device)
        feedback = self.environment.step(slate_BK)
        is_over = feedback.final_request is not None
        info: Info = {
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
    """Return a Gymnasium vector environment of simulated users.

    >>> from gfn4rec import OpenedRun
    >>> users = OpenedRun.open("runs/tiny").users
    >>> environment = make_environment(users.data, users.model)
    >>> observation, info = environment.reset(seed=0)
    >>> observation["history"].shape
    (128, 50)
    """
    return SlateVectorEnv(UserEnvironment(data, model, config or EnvironmentConfig(slate_size=data.slate_size), seed))


def _observation(request: Request) -> Observation:
    return {
        "user": request.user_B.cpu().numpy(),
        "history": request.history_BH.cpu().numpy(),
        "response": request.response_BHR.cpu().numpy().astype(np.int8),
    }

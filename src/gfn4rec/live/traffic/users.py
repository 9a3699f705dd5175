"""Simulated users with live histories, who respond to any slates."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gfn4rec.schema import Request, rewards
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.environment import append_events
from gfn4rec.simulator.outlook import Draw
from gfn4rec.training.opened_run import Users


@dataclass(frozen=True)
class Shown:
    """A slate that was shown to a user, and the number of the visit, which seeds the responses."""

    visit: int
    user: int
    """The user's place among the simulated ones."""
    items: tuple[str, ...]


@dataclass(frozen=True)
class Responses:
    """The behaviours that each item of a slate got, the reward of the slate, and its expected value."""

    behaviours: tuple[tuple[str, ...], ...]
    reward: float
    expected_reward: float
    num_unknown: int
    """Items that the simulator does not know; they get no response and influence no other item."""


class SimulatedUsers:
    """Some users of a data set, each with the history of what it was shown since the log.

    Histories are those of the users' own lives: feedback that is lost on its way to the service is in them.
    """

    def __init__(self, users: Users, num_users: int, seed: int) -> None:
        data = users.data
        self.num_known, self._seed = data.num_users, seed
        order = torch.randperm(data.num_users, generator=torch_generator(seed, "traffic/users"))
        number_U = order[:num_users] + 1
        self.ids = tuple(str(data.users["id"][number - 1]) for number in number_U.tolist())
        self._environment = users.environment(seed, num_users=1)
        self._behaviours, self._weight_R, self._is_responded_only = (
            data.behaviours,
            data.weight_R,
            data.is_responded_only,
        )
        self._item_number = {str(raw): number for number, raw in enumerate(data.items["id"].to_list(), start=1)}
        self._history_U = data.latest(number_U)

    @torch.inference_mode()
    def respond(self, shown: Sequence[Shown]) -> list[Responses]:
        """Return the responses to slates, one for each of several users, and remember both."""
        user_B = torch.tensor([slate.user for slate in shown])
        assert len(set(user_B.tolist())) == len(shown), "a user looks at one slate at a time"
        slate_BK = torch.tensor([[self._item_number.get(item, 0) for item in slate.items] for slate in shown])
        request = self._history_U[user_B]
        outlook = self._environment.outlook(request, slate_BK).without(slate_BK == 0)
        response_BKR = outlook.draw_responses(self._draws(shown))
        self._remember(user_B, append_events(request, slate_BK, response_BKR, self._is_responded_only))
        reward_B, expected_B = (rewards(value, self._weight_R)[1] for value in (response_BKR, outlook.probabilities()))
        return [
            Responses(self._names(response), float(reward), float(expected), int((slate == 0).sum()))
            for response, reward, expected, slate in zip(
                response_BKR.tolist(), reward_B, expected_B, slate_BK, strict=True
            )
        ]

    def history(self, user: int) -> Request:
        """Return the history of one user."""
        return self._history_U[user : user + 1]

    def _draws(self, shown: Sequence[Shown]) -> Draw:
        """Return what draws uniform numbers that depend on the visit alone, not on who else comes at the same time."""
        generators = [torch_generator(self._seed, f"traffic/responses/{slate.visit}") for slate in shown]
        return lambda shape: torch.stack([torch.rand(*shape, generator=generator) for generator in generators])

    def _remember(self, user_B: torch.Tensor, after: Request) -> None:
        self._history_U.history_BH[user_B] = after.history_BH
        self._history_U.response_BHR[user_B] = after.response_BHR

    def _names(self, response: Sequence[Sequence[float]]) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(name for name, value in zip(self._behaviours, item, strict=True) if value) for item in response
        )

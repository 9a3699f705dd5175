"""The replay buffer of Algorithm 1: answered slates in arrays of fixed size, the oldest overwritten first."""

import torch
from torch import Tensor

from gfn4rec.errors import UserError
from gfn4rec.schema import Request, SlateBatch

_COMPACT = {"user": torch.int32, "history": torch.int32, "response": torch.uint8, "slate": torch.int32}


class ReplayBuffer:
    """Holds the latest `capacity` slates. Rewards are made from the responses, so they are not stored."""

    def __init__(self, capacity: int, weight_R: Tensor) -> None:
        self.capacity, self.weight_R = capacity, weight_R
        self._arrays: dict[str, Tensor] = {}
        self._num_added = 0  # ever
        self._num_newest = 0  # in the last addition

    def __len__(self) -> int:
        return min(self._num_added, self.capacity)

    def add(self, request: Request, slate_BK: Tensor, response_BKR: Tensor) -> None:
        """Add answered slates; they are the newest ones until the next addition."""
        rows = {
            "user": request.user_B,
            "history": request.history_BH,
            "response": request.response_BHR,
            "slate": slate_BK,
            "slate_response": response_BKR,
        }
        count = len(slate_BK)
        if count > self.capacity:
            raise UserError(
                f"a replay buffer of {self.capacity} slates cannot take {count} at once; raise its capacity"
            )
        place_B = (self._num_added + torch.arange(count, device=slate_BK.device)) % self.capacity
        for name, values in rows.items():
            if name not in self._arrays:
                dtype = _COMPACT.get(name, torch.uint8)
                self._arrays[name] = torch.zeros((self.capacity, *values.shape[1:]), dtype=dtype, device=values.device)
            self._arrays[name][place_B] = values.to(self._arrays[name].dtype)
        self._num_added += count
        self._num_newest = count

    def sample(self, batch_size: int, newest_share: float, generator: torch.Generator) -> SlateBatch:
        """A share of the batch from the newest slates, each at most once if there are enough; the rest from all."""
        if not len(self):
            raise UserError("the replay buffer is empty; nothing can be learned yet")
        device = self._arrays["slate"].device
        num_newest = round(batch_size * newest_share)
        order = torch.randperm(self._num_newest, generator=generator, device=device)
        newest = order[torch.arange(num_newest, device=device) % self._num_newest]
        newest = (self._num_added - self._num_newest + newest) % self.capacity
        others = torch.randint(len(self), (batch_size - num_newest,), generator=generator, device=device)
        return self._rows(torch.cat([newest, others]))

    def _rows(self, row_B: Tensor) -> SlateBatch:
        array = {name: values[row_B] for name, values in self._arrays.items()}
        response_BKR = array["slate_response"].float()
        item_reward_BK = response_BKR @ self.weight_R
        return SlateBatch(
            request=Request(array["user"].long(), array["history"].long(), array["response"].float()),
            slate_BK=array["slate"].long(),
            response_BKR=response_BKR,
            item_reward_BK=item_reward_BK,
            reward_B=item_reward_BK.mean(dim=1),
        )

    def state_dict(self) -> dict[str, Tensor]:
        """The slates that are there, and where the next ones go."""
        counts = torch.tensor([self._num_added, self._num_newest])
        return {"counts": counts} | {name: values[: len(self)] for name, values in self._arrays.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken, with the same capacity."""
        self._num_added, self._num_newest = (int(count) for count in state["counts"])
        for name, values in state.items():
            if name != "counts":
                array = torch.zeros((self.capacity, *values.shape[1:]), dtype=values.dtype, device=self.weight_R.device)
                array[: len(values)] = values
                self._arrays[name] = array

"""The replay buffer of Algorithm 1: slates with their responses, the oldest overwritten first."""

import torch
from torch import Tensor

from gfn4rec.errors import UserError
from gfn4rec.schema import Request, SlateBatch

_COMPACT = {"user": torch.int32, "history": torch.int32, "response": torch.uint8, "slate": torch.int32}


class ReplayBuffer:
    """Holds the latest `capacity` slates, of which the latest `newest_window` are the newest ones.

    Rewards are computed from the responses, so they are not stored. Slates may be added one at a time.
    """

    def __init__(self, capacity: int, weight_R: Tensor, newest_window: int) -> None:
        self.capacity, self.weight_R, self.newest_window = capacity, weight_R, newest_window
        self._arrays: dict[str, Tensor] = {}
        self._num_added = 0  # ever

    def __len__(self) -> int:
        return min(self._num_added, self.capacity)

    def add(self, request: Request, slate_BK: Tensor, response_BKR: Tensor) -> None:
        """Add slates with their responses."""
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
        for name, array in self._arrays.items():  # before anything is overwritten
            if array.shape[1:] != rows[name].shape[1:]:
                shapes = f"{tuple(rows[name].shape[1:])}; the ones before have {tuple(array.shape[1:])}"
                raise UserError(f"a {name.replace('_', ' ')} of shape {shapes}, and all must be alike")
        place_B = (self._num_added + torch.arange(count, device=slate_BK.device)) % self.capacity
        for name, values in rows.items():
            if name not in self._arrays:
                dtype = _COMPACT.get(name, torch.uint8)
                self._arrays[name] = torch.zeros((self.capacity, *values.shape[1:]), dtype=dtype, device=values.device)
            self._arrays[name][place_B] = values.to(self._arrays[name].dtype)
        self._num_added += count

    def sample(self, batch_size: int, newest_share: float, generator: torch.Generator) -> SlateBatch:
        """Sample a batch: a share from the newest slates, each at most once if there are enough; the rest from all."""
        if not len(self):
            raise UserError("the replay buffer is empty; nothing can be learned yet")
        device = self._arrays["slate"].device
        num_wanted, num_newest = round(batch_size * newest_share), min(self.newest_window, len(self))
        order = torch.randperm(num_newest, generator=generator, device=device)
        newest = order[torch.arange(num_wanted, device=device) % num_newest]
        newest = (self._num_added - num_newest + newest) % self.capacity
        others = torch.randint(len(self), (batch_size - num_wanted,), generator=generator, device=device)
        return self._rows(torch.cat([newest, others]))

    def _rows(self, row_B: Tensor) -> SlateBatch:
        array = {name: values[row_B] for name, values in self._arrays.items()}
        request = Request(array["user"].long(), array["history"].long(), array["response"].float())
        return SlateBatch.of(request, array["slate"].long(), array["slate_response"].float(), self.weight_R)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the slates that are stored, and how many were ever added."""
        counts = torch.tensor([self._num_added, min(self.newest_window, len(self))])
        return {"counts": counts} | {name: values[: len(self)] for name, values in self._arrays.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken, with the same capacity and window."""
        self._num_added = int(state["counts"][0])
        for name, values in state.items():
            if name != "counts":
                array = torch.zeros((self.capacity, *values.shape[1:]), dtype=values.dtype, device=self.weight_R.device)
                array[: len(values)] = values
                self._arrays[name] = array

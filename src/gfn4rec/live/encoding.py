"""Ids of the outside world -> the numbers and tensors of the policy."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.items import LiveItems
from gfn4rec.live.records import Behaviours, History
from gfn4rec.schema import Request

_KEPT: Final = 1024  # combinations of responses


class Encoding:
    """Translates users, histories and responses of a data set's service."""

    def __init__(self, data: SlateData) -> None:
        self.behaviours = data.behaviours
        self._user_number = {str(raw): number for number, raw in enumerate(data.users["id"].to_list(), start=1)}
        # Few combinations of responses occur, and each in many events.
        self._flags_of = lru_cache(_KEPT)(self._new_flags)
        self._names_of = lru_cache(_KEPT)(self._new_names)

    def user(self, user: str | None) -> int:
        """Return the number of a user of the log, and 0 for any other."""
        return 0 if user is None else self._user_number.get(user, 0)

    def find_users(self, text: str, limit: int) -> tuple[list[str], int]:
        """Return users of the log whose id begins with a text, at most `limit`, and how many there are."""
        found = [user for user in self._user_number if user.startswith(text)]
        return found[:limit], len(found)

    def request(
        self, users: Sequence[str | None], histories: Sequence[History], items: LiveItems, length: int
    ) -> Request:
        """Return requests with the latest events of histories; unknown items are left out."""
        history_BH = torch.zeros(len(users), length, dtype=torch.int64)
        response_BHR = torch.zeros(len(users), length, len(self.behaviours))
        for row, history in enumerate(histories):
            known = [(item.number, names) for name, names in history if (item := items.find(name)) is not None]
            latest = known[-length:] if length else []
            first = length - len(latest)
            if latest:
                history_BH[row, first:] = torch.tensor([number for number, _ in latest])
                response_BHR[row, first:] = self.responses([names for _, names in latest])
        return Request(torch.tensor([self.user(user) for user in users], dtype=torch.int64), history_BH, response_BHR)

    def responses(self, names: Sequence[Behaviours]) -> Tensor:
        """Return responses to items as 0 and 1, (K, R)."""
        return torch.tensor([self._flags_of(present) for present in names])

    def names(self, response_HR: Tensor) -> list[Behaviours]:
        """Return the responses that are not 0 of each row."""
        return [self._names_of(tuple(row)) for row in response_HR.bool().tolist()]

    def _new_flags(self, names: Behaviours) -> list[float]:
        present = set(names)
        return [float(name in present) for name in self.behaviours]

    def _new_names(self, flags: tuple[bool, ...]) -> Behaviours:
        return tuple(name for name, is_present in zip(self.behaviours, flags, strict=True) if is_present)

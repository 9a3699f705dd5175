"""What crosses the borders between rooms: frozen dataclasses, no behaviour, no input or output.

The legend of dimension letters. A tensor carries its shape as a suffix of its name: `reward_B`, `history_BH`.

| letter | meaning |
| ------ | ------- |
| B | requests in a batch |
| K | items in a slate |
| N | items of the catalogue, padding included: an item's id is its column, and column 0 is padding |
| C | candidate items of a request |
| H | history length |
| D | width of an encoding |
| R | response types (behaviours) |
| T | tokens of a sequence, or steps of a slate and its root |
| S | width of a request's state |
| Z | width of a latent |
| U | users, the unknown one included |
| V | values of a feature |

Others (G groups, M most values, P pairs, X whatever there is of something) are explained where they are used.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Request:
    """Who asks, and what they were shown and answered lately.

    Histories are padded on the left: column H-1 is the latest event, item 0 is padding. User 0 is an unknown user.
    """

    user_B: Tensor
    history_BH: Tensor
    response_BHR: Tensor

    def __post_init__(self) -> None:
        num_requests = self.user_B.shape[0]
        _require(self.user_B.dim() == 1, "user_B", self.user_B)
        _require(
            self.history_BH.dim() == 2 and self.history_BH.shape[0] == num_requests,
            "history_BH",
            self.history_BH,
        )
        _require(
            self.response_BHR.dim() == 3 and self.response_BHR.shape[:2] == self.history_BH.shape,
            "response_BHR",
            self.response_BHR,
        )

    def to(self, device: torch.device | str) -> "Request":
        """The same request on another device."""
        return Request(self.user_B.to(device), self.history_BH.to(device), self.response_BHR.to(device))


@dataclass(frozen=True)
class SlateBatch:
    """Slates that were shown, with the answers to them."""

    request: Request
    slate_BK: Tensor  # distinct item ids in a row
    response_BKR: Tensor
    item_reward_BK: Tensor  # sum over behaviours of weight * response
    reward_B: Tensor  # mean over the K items

    def __post_init__(self) -> None:
        num_requests = self.request.user_B.shape[0]
        _require(self.slate_BK.dim() == 2 and self.slate_BK.shape[0] == num_requests, "slate_BK", self.slate_BK)
        _require(
            self.response_BKR.dim() == 3 and self.response_BKR.shape[:2] == self.slate_BK.shape,
            "response_BKR",
            self.response_BKR,
        )
        _require(self.item_reward_BK.shape == self.slate_BK.shape, "item_reward_BK", self.item_reward_BK)
        _require(self.reward_B.shape == self.request.user_B.shape, "reward_B", self.reward_B)

    def to(self, device: torch.device | str) -> "SlateBatch":
        """The same batch on another device."""
        return SlateBatch(
            self.request.to(device),
            self.slate_BK.to(device),
            self.response_BKR.to(device),
            self.item_reward_BK.to(device),
            self.reward_B.to(device),
        )


@dataclass(frozen=True)
class Proposal:
    """Slates that a policy proposes, with the log-probability of each step at temperature 1 and epsilon 0."""

    slate_BK: Tensor  # distinct item ids in a row
    log_prob_BK: Tensor
    latent_BZ: Tensor | None = None  # what the slate was conditioned on, if the policy draws such a thing


@dataclass(frozen=True)
class FeatureTensors:
    """Features of all users or all items; row 0 is padding.

    In index features 0 is padding, 1 is `unknown`, and the known values follow. `num_values` counts all of them, so
    it is the size of the embedding table. Numeric features are standardised; an unknown one is 0, the mean.
    """

    categorical: Mapping[str, Tensor]  # each (N,) int64
    multi: Mapping[str, Tensor]  # each (N, most values of one row) int64, padded with 0 on the right
    numeric: Mapping[str, Tensor]  # each (N,) float32
    num_values: Mapping[str, int]

    def to(self, device: torch.device | str) -> "FeatureTensors":
        """The same features on another device."""

        def move(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: tensor.to(device) for name, tensor in tensors.items()}

        return FeatureTensors(move(self.categorical), move(self.multi), move(self.numeric), self.num_values)


def _require(condition: bool, name: str, tensor: Tensor) -> None:
    if not condition:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, which does not fit its legend")

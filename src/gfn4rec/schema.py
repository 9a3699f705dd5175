"""The values that cross the borders between packages: frozen dataclasses without input or output.

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
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gfn4rec.errors import UserError

MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-6, 1e6
MAX_REWARD_WEIGHT = 1e3


@dataclass(frozen=True)
class Request:
    """Users who ask for slates, with the items they were shown lately and their responses.

    Histories are padded on the left: column H-1 is the latest event, item 0 is padding. User 0 is an unknown user.

    >>> user_B, history_BH = torch.tensor([7, 0]), torch.tensor([[0, 3], [0, 0]])
    >>> request = Request(user_B, history_BH, torch.zeros(2, 2, 4))
    >>> request[:1].history_BH
    tensor([[0, 3]])
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

    def __getitem__(self, rows: Tensor | slice) -> "Request":
        """Return some of the requests, by their row numbers."""
        return Request(self.user_B[rows], self.history_BH[rows], self.response_BHR[rows])

    def to(self, device: torch.device | str) -> "Request":
        """Return the same requests on another device."""
        return Request(self.user_B.to(device), self.history_BH.to(device), self.response_BHR.to(device))


@dataclass(frozen=True)
class SlateBatch:
    """Slates that were shown, with the responses to them.

    >>> request = Request(torch.tensor([7]), torch.tensor([[0, 3]]), torch.zeros(1, 2, 2))
    >>> response_BKR = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])  # the second item got both behaviours
    >>> SlateBatch.of(request, torch.tensor([[4, 5]]), response_BKR, weight_R=torch.tensor([1.0, 0.5])).reward_B
    tensor([1.2500])
    """

    request: Request
    slate_BK: Tensor  # distinct item ids in a row
    response_BKR: Tensor
    item_reward_BK: Tensor  # sum over behaviours of weight * response
    reward_B: Tensor  # mean over the K items
    is_logged: bool = False  # whether the slates come from the log, so that they show what users choose
    is_sampled_BK: Tensor | None = None  # items that nobody chose, as many in each slate; None: there are none

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
        if self.is_sampled_BK is not None:
            _require(self.is_sampled_BK.shape == self.slate_BK.shape, "is_sampled_BK", self.is_sampled_BK)

    @classmethod
    def of(
        cls,
        request: Request,
        slate_BK: Tensor,
        response_BKR: Tensor,
        weight_R: Tensor,
        is_logged: bool = False,
        is_sampled_BK: Tensor | None = None,
    ) -> "SlateBatch":
        """Return slates with the rewards of their responses; `weight_R` has the reward of each behaviour."""
        return cls(request, slate_BK, response_BKR, *rewards(response_BKR, weight_R), is_logged, is_sampled_BK)

    def without_sampled(self, value_BK: Tensor) -> Tensor:
        """Return the values of the items that were not sampled, in the order of the slates."""
        if self.is_sampled_BK is None:
            return value_BK
        return value_BK[~self.is_sampled_BK].view(len(value_BK), -1)

    def to(self, device: torch.device | str) -> "SlateBatch":
        """Return the same batch on another device."""
        return SlateBatch(
            self.request.to(device),
            self.slate_BK.to(device),
            self.response_BKR.to(device),
            self.item_reward_BK.to(device),
            self.reward_B.to(device),
            self.is_logged,
            None if self.is_sampled_BK is None else self.is_sampled_BK.to(device),
        )


def rewards(response_BKR: Tensor, weight_R: Tensor) -> tuple[Tensor, Tensor]:
    """Return the reward of each item, (B, K), and of each slate, (B,), for responses or their probabilities."""
    item_reward_BK = response_BKR @ weight_R
    return item_reward_BK, item_reward_BK.mean(dim=1)


def check_slates(slate_BK: Tensor, num_requests: int, slate_size: int, num_items: int) -> None:
    """Raise a `UserError` unless there is a row for each request, with different items of the catalogue."""
    expected = (num_requests, slate_size)
    if tuple(slate_BK.shape) != expected:
        raise UserError(f"slates of shape {tuple(slate_BK.shape)}, but {expected} is expected: a row for each request")
    in_order_BK = slate_BK.sort(dim=1).values
    if not bool(((in_order_BK[:, 0] > 0) & (in_order_BK[:, -1] <= num_items)).all()):
        row, position = (int(index) for index in ((slate_BK < 1) | (slate_BK > num_items)).nonzero()[0])
        item = int(slate_BK[row, position])
        if item == 0:
            raise UserError(f"slate {row} shows padding (item 0) at position {position}")
        raise UserError(f"slate {row} shows item {item}, which is not in the catalogue; ids run from 1 to {num_items}")
    is_repeated_BK = in_order_BK[:, 1:] == in_order_BK[:, :-1]
    if bool(is_repeated_BK.any()):
        row, position = (int(index) for index in is_repeated_BK.nonzero()[0])
        raise UserError(f"slate {row} shows item {int(in_order_BK[row, position])} twice")


@dataclass(frozen=True)
class Sampling:
    """How slates are drawn from a policy.

    Each item is drawn from softmax(score / temperature) or, with probability `epsilon`, uniformly from the candidates
    that are left. `greedy` takes the most likely item instead of drawing one. `greediness` replaces these two by one
    knob: 0 samples at temperature 1, 1 is greedy, and in between the temperature is 1 - greediness.

    `reward_weight` is for policies with a prior, which learn from the log what users choose: 0 follows the prior alone,
    1 is the distribution that the policy was trained for, and larger values go further towards high rewards.

    Temperature, greedy, greediness and reward weight are the same for all requests, or have a value for each, (B,).

    >>> Sampling(greediness=0.75).resolved().temperature
    0.25
    >>> Sampling(temperature=0.5, epsilon=2)
    Traceback (most recent call last):
    gfn4rec.errors.UserError: epsilon 2: must lie between 0 and 1
    """

    temperature: float | Tensor = 1.0
    greedy: bool | Tensor = False
    greediness: float | Tensor | None = None
    epsilon: float = 0.0
    reward_weight: float | Tensor = 1.0

    def __post_init__(self) -> None:
        reward_weight = torch.as_tensor(self.reward_weight)
        if not bool(((reward_weight >= 0) & (reward_weight <= MAX_REWARD_WEIGHT)).all()):
            value = self.reward_weight if reward_weight.dim() == 0 else reward_weight.tolist()
            raise UserError(f"reward_weight {value}: must lie between 0 (the prior alone) and {MAX_REWARD_WEIGHT:g}")
        temperature = torch.as_tensor(self.temperature)
        if not bool(((temperature >= MIN_TEMPERATURE) & (temperature <= MAX_TEMPERATURE)).all()):
            limits = f"{MIN_TEMPERATURE:g} and {MAX_TEMPERATURE:g}"
            value = self.temperature if temperature.dim() == 0 else temperature.tolist()
            raise UserError(f"temperature {value}: must lie between {limits}; for lower ones use greedy")
        if torch.as_tensor(self.greedy).dtype != torch.bool:
            raise UserError(f"greedy {self.greedy}: must be true or false, for all requests or for each")
        if not 0 <= self.epsilon <= 1:
            raise UserError(f"epsilon {self.epsilon}: must lie between 0 and 1")
        if self.greediness is None:
            return
        if self.greedy is not False or isinstance(self.temperature, Tensor) or self.temperature != 1:
            raise UserError("greediness replaces greedy and temperature; give it alone")
        greediness = torch.as_tensor(self.greediness)
        outside = greediness[~((greediness >= 0) & (greediness <= 1))]
        if outside.numel():
            raise UserError(f"greediness {float(outside.flatten()[0]):g}: must lie between 0 (diverse) and 1 (greedy)")

    @property
    def is_deterministic(self) -> bool:
        """Whether the same request always gets the same slate."""
        return self.resolved().greedy is True and self.epsilon == 0

    def resolved(self) -> "Sampling":
        """Return the same sampling with a temperature and greedy requests in place of greediness."""
        if self.greediness is None:
            return self
        greediness = torch.as_tensor(self.greediness, dtype=torch.float32)
        is_greedy = greediness == 1
        if bool(is_greedy.all()):
            return replace(self, greedy=True, greediness=None)
        if greediness.dim() == 0:
            return replace(self, temperature=max(MIN_TEMPERATURE, 1 - float(greediness)), greediness=None)
        temperature = (1 - greediness).clamp(min=MIN_TEMPERATURE)
        return replace(self, temperature=temperature, greedy=is_greedy, greediness=None)


@dataclass(frozen=True)
class Proposal:
    """Slates that a policy proposes, with the log-probability of each step.

    `log_prob_BK` is at temperature 1 and epsilon 0, whatever the sampling was; objectives and metrics use it.
    `sampling_log_prob_BK` is under the sampling that drew the slates (temperature, greediness, epsilon); off-policy
    estimates use it. Both are at the sampling's reward weight, over the request's candidates, and conditional on the
    latent, if the policy has one.

    >>> proposal = Proposal(torch.tensor([[4, 5]]), torch.tensor([[-1.0, -2.0]]), torch.tensor([[-0.5, -1.0]]))
    >>> proposal.log_prob_BK.sum(dim=1)
    tensor([-3.])
    """

    slate_BK: Tensor  # distinct item ids in a row
    log_prob_BK: Tensor
    sampling_log_prob_BK: Tensor
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

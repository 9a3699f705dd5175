"""The training loop of the response model: one causal pass over a window predicts the responses of all its rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import RunError
from gfn4rec.schema import Request
from gfn4rec.seeding import stream_seed, torch_generator
from gfn4rec.simulator.calibration import auc
from gfn4rec.simulator.cautious_model import CautiousConfig, CautiousModel, CautiousNetwork
from gfn4rec.simulator.response_model import ItemLogits, ResponseModel, ResponseModelConfig
from gfn4rec.training.optimisation import NotFinite, cosine_share, require_finite
from gfn4rec.training.windows import Windows, cut_windows

TRAIN, VAL, TEST, LEFT_OUT = range(4)
_EVALUATION_ROWS = 2048
Simulator: TypeAlias = ResponseModel | CautiousModel
Report = Callable[[int, int, float], None]  # the step, the steps of an epoch, the mean loss so far


class CautionConfig(StrictConfig):
    """What a simulator learns of its own ignorance."""

    num_members: int = Field(default=3, ge=1)
    """The number of networks whose mean is the prediction."""
    num_negatives: int = Field(default=8, ge=1)
    """Items drawn uniformly for each row; the model learns to distinguish the row's item from them."""
    pessimism: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    """How often, relative to a random item, a user chooses an item whose probabilities are halved; 0 believes all."""


class ResponseTrainingConfig(StrictConfig):
    """How the response model is trained."""

    model: ResponseModelConfig = ResponseModelConfig()
    """The sizes of the model."""
    caution: CautionConfig | None = None
    """With it, the simulator is cautious about items that users hardly ever choose; the paper's is not."""
    num_epochs: int = Field(default=10, ge=1)
    """The largest number of passes over the log."""
    patience: int = Field(default=3, ge=1)
    """Training stops after this many epochs without a better validation AUC."""
    learning_rate: float = Field(default=2e-3, gt=0)
    """Adam's learning rate in the first step."""
    final_learning_rate_share: float = Field(default=0.05, gt=0, le=1)
    """The learning rate falls along a cosine to this share of itself in the last step."""
    weight_decay: float = Field(default=0.0, ge=0)
    """The weight of Adam's L2 penalty."""
    batch_windows: int | None = Field(default=None, ge=1)
    """Windows in a batch; by default a 200th of all windows, at least 8 and at most 128."""
    stride: int = Field(default=25, ge=1, le=50)
    """Rows that a window predicts. A smaller stride gives rows longer histories, and takes more time."""
    unknown_user_share: float = Field(default=0.05, ge=0, lt=1)
    """The share of windows whose user is hidden, so that the model can predict unknown users."""
    class_weights: bool = False
    """Whether positives are weighted by the ratio of negatives to positives."""
    val_rows: int = Field(default=5, ge=1)
    """Rows of each user that are held out for validation, before the test rows."""
    test_rows: int = Field(default=5, ge=1)
    """The last rows of each user, which are held out for the test."""
    min_rows: int = Field(default=25, ge=1)
    """Nothing is held out of users with fewer rows."""
    seed: int = 0
    """The seed of weights, batches and dropout."""

    def with_caution(self, pessimism: float | None = None) -> Self:
        """Return the settings of a cautious simulator, by default with the pessimism that they have."""
        caution = self.caution or CautionConfig()
        if pessimism is not None:
            caution = CautionConfig.parse({**caution.model_dump(), "pessimism": pessimism}, "caution")
        return self.model_copy(update={"caution": caution})

    def sizes(self, data: SlateData) -> ResponseModelConfig:
        """Return the sizes of the networks, and how many there are."""
        if self.caution is None:
            return self.model
        given, num_positions = self.model.model_dump(exclude_unset=True), data.slate_size if data.has_positions else 0
        return CautiousConfig(**given, num_members=self.caution.num_members, num_positions=num_positions)

    @model_validator(mode="after")
    def _rows_are_learned_from(self) -> Self:
        held_out = self.val_rows + self.test_rows
        if self.min_rows <= held_out:
            raise ValueError(
                f"min_rows is {self.min_rows}, but {held_out} rows are held out: none would be left to train on"
            )
        longest = self.model.history_length + 1
        if self.stride > longest:
            raise ValueError(f"stride is {self.stride}, but a window has {longest} rows: some would never be predicted")
        return self


@dataclass(frozen=True)
class Predictions:
    """Logits before calibration, and the responses in the log."""

    logit_NR: Tensor
    label_NR: Tensor
    choice_N2: Tensor | None = None  # logits of choice of a row's item and of an item drawn uniformly

    def auc(self) -> list[float]:
        """Return the AUC of each behaviour."""
        return [auc(self.logit_NR[:, b], self.label_NR[:, b]) for b in range(self.logit_NR.shape[1])]

    def choice_auc(self) -> float:
        """Return the AUC of the items of the log against items drawn uniformly; NaN if choices were not learned."""
        if self.choice_N2 is None:
            return math.nan
        return auc(self.choice_N2.T.flatten(), torch.tensor([1.0, 0.0]).repeat_interleave(len(self.choice_N2)))

    def mean_auc(self) -> float:
        """Return the mean AUC, weighted by the rarer class of each behaviour, so that a few rows decide nothing.

        If choices were learned, they count as one more behaviour.
        """
        num_positive_R = self.label_NR.sum(dim=0)
        weight_R = torch.minimum(num_positive_R, len(self.label_NR) - num_positive_R).tolist()
        scores = [(value, weight) for value, weight in zip(self.auc(), weight_R, strict=True) if weight]
        if self.choice_N2 is not None:
            scores.append((self.choice_auc(), len(self.label_NR)))
        return float(sum(value * weight for value, weight in scores) / max(1.0, sum(weight for _, weight in scores)))


@dataclass(frozen=True)
class TrainingLog:
    """A log as the response model learns from it: cut into windows, with the rows it may learn from."""

    data: SlateData
    config: ResponseTrainingConfig
    windows: Windows
    is_train_row: Tensor

    @classmethod
    def of(cls, data: SlateData, config: ResponseTrainingConfig) -> Self:
        """Cut the log by the settings; held-out rows are not learned from."""
        length = config.model.history_length
        windows = cut_windows(data.session_starts, data.num_rows, length, config.stride, data.history_place)
        return cls(data, config, windows, split_rows(data, config) == TRAIN)

    @property
    def batch_size(self) -> int:
        """The windows in a batch."""
        return self.config.batch_windows or min(128, max(8, len(self.windows) // 200))

    def positive_weight(self) -> Tensor | None:
        """Return the weight of positives of each behaviour, (R,), or None if all responses count the same."""
        if not self.config.class_weights:
            return None
        rate_R = self.data.response_at(torch.nonzero(self.is_train_row).squeeze(1)).mean(dim=0).clamp(min=1e-6)
        return (1 - rate_R) / rate_R


def split_rows(data: SlateData, config: ResponseTrainingConfig) -> Tensor:
    """Return TRAIN, VAL or TEST for each row: the last rows of each user are the test set, the ones before them VAL.

    A cautious simulator does not learn from held-out slates of users with few rows, either: they are LEFT_OUT, so that
    a policy that learned from its users can be measured on them.
    """
    row = torch.arange(data.num_rows, device=data.device)
    user = data.user_at(row)
    from_end = data.first_row_U[user + 1] - 1 - row
    num_rows = data.first_row_U[user + 1] - data.first_row_U[user]
    split = torch.full_like(row, TRAIN)
    split[from_end < config.val_rows + config.test_rows] = VAL
    split[from_end < config.test_rows] = TEST
    split[num_rows < config.min_rows] = TRAIN
    if config.caution is not None:
        is_held_out = torch.ones_like(row, dtype=torch.bool)
        is_held_out[data.training_rows()] = False
        split[is_held_out & (split == TRAIN)] = LEFT_OUT
    return split


@torch.inference_mode()
def predict(model: Simulator, data: SlateData, row_N: Tensor) -> Predictions:
    """Predict the responses of log rows from the histories before them, and choices if the model has learned them."""
    was_training = model.training
    model.eval()
    networks = [(member, member.encoder.items.table()) for member in model.members]
    generator = torch_generator(0, "response model/drawn items", data.device)
    logits, choices = [], []
    for rows in row_N.split(_EVALUATION_ROWS):
        request, item_B = data.requests(data.before_response(rows)), data.item_at(rows)
        states = [member.state_vectors(member.encoder(request, table_ND)) for member, table_ND in networks]
        logits.append(_mean_logits(networks, states, item_B))
        if isinstance(model, CautiousModel):
            choices.append(_mean_logits(networks, states, _drawn(item_B.shape, data, generator))[:, -1])
    model.train(was_training)
    logit_NR, num_behaviours = torch.cat(logits), len(data.behaviours)
    choice_N2 = torch.stack([logit_NR[:, -1], torch.cat(choices)], dim=1) if choices else None
    response_NR = logit_NR[:, :num_behaviours]
    if data.has_positions and isinstance(model, CautiousModel):
        position_N = data.position_at(row_N)
        response_NR = response_NR + torch.stack([member.examination(position_N) for member in model.members]).mean(0)
    return Predictions(response_NR, data.response_at(row_N), choice_N2)


def _mean_logits(networks: list[tuple[ItemLogits, Tensor]], states: list[Tensor], item_B: Tensor) -> Tensor:
    """Return the logits of an item per state, averaged over the networks, which come with their item encodings."""
    pairs = zip(networks, states, strict=True)
    return torch.stack([member.logits(vectors, table_ND[item_B]) for (member, table_ND), vectors in pairs]).mean(dim=0)


def _drawn(shape: tuple[int, ...], data: SlateData, generator: torch.Generator) -> Tensor:
    """Return items drawn uniformly."""
    return torch.randint(1, data.num_items + 1, shape, generator=generator, device=data.device)


def train_epoch(
    model: Simulator, optimizer: torch.optim.Optimizer, log: TrainingLog, epoch: int, report: Report
) -> float:
    """Learn from all windows once, in random order, and return the mean loss per row."""
    config, device, num_windows = log.config, log.data.device, len(log.windows)
    generator = torch_generator(config.seed, f"response model/epoch {epoch}", device)
    num_steps = math.ceil(num_windows / log.batch_size)
    positive_weight = log.positive_weight()
    order = torch.randperm(num_windows, generator=generator, device=device)
    loss_sum, num_rows = 0.0, 0
    model.train()
    with torch.random.fork_rng():  # dropout draws from the global generator
        torch.manual_seed(stream_seed(config.seed, f"response model/dropout {epoch}"))
        for step, chosen in enumerate(order.split(log.batch_size)):
            for group in optimizer.param_groups:
                group["lr"] = _learning_rate(config, epoch * num_steps + step, config.num_epochs * num_steps)
            targets = window_targets(log, chosen, generator)
            if targets is None:
                continue
            losses = [_loss(member, targets, log, positive_weight, generator) for member in model.members]
            loss = torch.stack(losses).mean()
            try:
                value = _step(model, optimizer, loss)
            except NotFinite as problem:
                where = f"in epoch {epoch + 1}, step {step + 1}"
                raise RunError(f"{problem} {where}; lower learning_rate, and start again in another --out") from problem
            loss_sum, num_rows = loss_sum + value * len(targets.label_XR), num_rows + len(targets.label_XR)
            report(step + 1, num_steps, loss_sum / num_rows)
    return loss_sum / num_rows


@dataclass(frozen=True)
class Targets:
    """What windows predict: X rows, each from the rows before it in one of B requests."""

    request: Request
    state_X: Tensor  # its number among the B * (H + 1) states of the prefixes of all requests
    item_X: Tensor
    label_XR: Tensor
    position_X: Tensor | None  # in its slate, if the log has positions


def window_targets(log: TrainingLog, chosen: Tensor, generator: torch.Generator) -> Targets | None:
    """Return what the chosen windows predict; None if all of it is held out."""
    data, windows, config = log.data, log.windows, log.config
    first_B, end_B = windows.first[chosen], windows.end[chosen]
    column_T = torch.arange(config.model.history_length + 1, device=data.device)
    row_BT = windows.first_target[chosen][:, None] + column_T
    is_inside_BT = row_BT < end_B[:, None]
    is_target_BT = is_inside_BT & log.is_train_row[row_BT.masked_fill(~is_inside_BT, 0)]
    row_X, number_X = row_BT[is_target_BT], is_target_BT.nonzero()[:, 0]
    is_hidden_B = torch.rand(len(chosen), generator=generator, device=data.device) < config.unknown_user_share
    if not len(row_X):
        return None
    user_B = data.user_at(end_B - 1).masked_fill_(is_hidden_B, 0)
    place_BH = first_B[:, None] + column_T[:-1]
    request = data.request_of(user_B, place_BH, place_BH < data.history_place(end_B)[:, None])
    # State t has read t events. Rows that are in no history share the state of the events before them.
    num_read_X = (data.history_place(data.before_response(row_X)) - first_B[number_X]).clamp(min=0)
    state_X = number_X * len(column_T) + num_read_X
    position_X = data.position_at(row_X) if data.has_positions else None
    return Targets(request, state_X, data.item_at(row_X), data.response_at(row_X), position_X)


def window_logits(member: ItemLogits, targets: Targets, drawn_XC: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Return the logits of the items that are predicted, (X, R), and those of choice of other items, (X, C)."""
    encoder, item_X = member.encoder, targets.item_X
    request = targets.request
    num_encoded = request.history_BH.numel() + len(request.user_B) + (0 if drawn_XC is None else drawn_XC.numel())
    table_ND = encoder.items.table() if encoder.items.num_entities <= num_encoded else None

    def encoded(item: Tensor) -> Tensor:
        return encoder.items(item) if table_ND is None else table_ND[item]

    state_XS = F.embedding(targets.state_X, encoder.prefixes(request, table_ND).flatten(0, 1))
    vectors = member.state_vectors(state_XS)
    logit_XR = member.logits(vectors, encoded(item_X))
    if drawn_XC is None:
        return logit_XR, None
    return logit_XR, member.logits(vectors[:, None], encoded(drawn_XC), first=-1)[:, :, 0]


def _loss(
    member: ItemLogits,
    targets: Targets,
    log: TrainingLog,
    positive_weight: Tensor | None,
    generator: torch.Generator,
) -> Tensor:
    """Return the cross-entropy of the responses and, with caution, of which items were chosen and not drawn."""
    label_XR, caution = targets.label_XR, log.config.caution
    if caution is None:
        logit_XR, _ = window_logits(member, targets)
        return F.binary_cross_entropy_with_logits(logit_XR, label_XR, pos_weight=positive_weight)
    drawn_XC = _drawn((len(label_XR), caution.num_negatives), log.data, generator)
    logit_XR, drawn_logit_XC = window_logits(member, targets, drawn_XC)
    assert drawn_logit_XC is not None
    response_XR = logit_XR[:, :-1]
    if targets.position_X is not None and isinstance(member, CautiousNetwork):
        response_XR = response_XR + member.examination(targets.position_X)
    response = F.binary_cross_entropy_with_logits(response_XR, label_XR, pos_weight=positive_weight)
    # Chosen and drawn items have the same weight, so the logit becomes the log of the ratio of their probabilities.
    return response + F.softplus(-logit_XR[:, -1]).mean() + F.softplus(drawn_logit_XC).mean()


def _step(model: Simulator, optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """Take one step down the gradient and return the loss; a NaN or infinite one leaves the weights untouched."""
    value = float(loss.detach())
    require_finite("loss", value)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    require_finite("gradient norm", float(nn.utils.get_total_norm(gradients)))
    optimizer.step()
    return value


def _learning_rate(config: ResponseTrainingConfig, step: int, num_steps: int) -> float:
    return config.learning_rate * cosine_share(step, config.final_learning_rate_share, num_steps)

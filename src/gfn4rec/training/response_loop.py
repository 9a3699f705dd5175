"""The training loop of the response model: one causal pass over a window predicts the responses of all its rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import RunError
from gfn4rec.seeding import stream_seed, torch_generator
from gfn4rec.simulator.calibration import auc
from gfn4rec.simulator.response_model import ResponseModel, ResponseModelConfig
from gfn4rec.training.optimisation import NotFinite, cosine_share, require_finite
from gfn4rec.training.windows import Windows, cut_windows

TRAIN, VAL, TEST = range(3)
_EVALUATION_ROWS = 2048
Report = Callable[[int, int, float], None]  # the step, the steps of an epoch, the mean loss so far


class ResponseTrainingConfig(StrictConfig):
    """How the response model is trained."""

    model: ResponseModelConfig = ResponseModelConfig()
    """The sizes of the model."""
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

    def auc(self) -> list[float]:
        """Return the AUC of each behaviour."""
        return [auc(self.logit_NR[:, b], self.label_NR[:, b]) for b in range(self.logit_NR.shape[1])]

    def mean_auc(self) -> float:
        """Return the mean AUC, weighted by the rarer class of each behaviour, so that a few rows decide nothing."""
        num_positive_R = self.label_NR.sum(dim=0)
        weight_R = torch.minimum(num_positive_R, len(self.label_NR) - num_positive_R).tolist()
        scores = [(value, weight) for value, weight in zip(self.auc(), weight_R, strict=True) if weight]
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
    """Return TRAIN, VAL or TEST for each row: the last rows of each user are the test set, the ones before them VAL."""
    row = torch.arange(data.num_rows, device=data.device)
    user = data.user_at(row)
    from_end = data.first_row_U[user + 1] - 1 - row
    num_rows = data.first_row_U[user + 1] - data.first_row_U[user]
    split = torch.full_like(row, TRAIN)
    split[from_end < config.val_rows + config.test_rows] = VAL
    split[from_end < config.test_rows] = TEST
    split[num_rows < config.min_rows] = TRAIN
    return split


@torch.inference_mode()
def predict(model: ResponseModel, data: SlateData, row_N: Tensor) -> Predictions:
    """Predict the responses of log rows from the histories before them."""
    was_training = model.training
    model.eval()
    table_ND = model.encoder.items.table()
    logits = []
    for rows in row_N.split(_EVALUATION_ROWS):
        vectors = model.state_vectors(model.encoder(data.requests(rows), table_ND))
        logits.append(model.logits(vectors, table_ND[data.item_at(rows)]))
    model.train(was_training)
    return Predictions(torch.cat(logits), data.response_at(row_N))


def train_epoch(
    model: ResponseModel, optimizer: torch.optim.Optimizer, log: TrainingLog, epoch: int, report: Report
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
            logit, label = window_logits(model, log, chosen, generator)
            if not len(label):
                continue
            loss = F.binary_cross_entropy_with_logits(logit, label, pos_weight=positive_weight)
            try:
                value = _step(model, optimizer, loss)
            except NotFinite as problem:
                where = f"in epoch {epoch + 1}, step {step + 1}"
                raise RunError(f"{problem} {where}; lower learning_rate, and start again in another --out") from problem
            loss_sum, num_rows = loss_sum + value * len(label), num_rows + len(label)
            report(step + 1, num_steps, loss_sum / num_rows)
    return loss_sum / num_rows


def window_logits(
    model: ResponseModel, log: TrainingLog, chosen: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return logits and labels of the training rows that the chosen windows predict; empty if all are held out."""
    data, windows, config = log.data, log.windows, log.config
    first_B, end_B = windows.first[chosen], windows.end[chosen]
    column_T = torch.arange(config.model.history_length + 1, device=data.device)
    row_BT = windows.first_target[chosen][:, None] + column_T
    is_inside_BT = row_BT < end_B[:, None]
    is_target_BT = is_inside_BT & log.is_train_row[row_BT.masked_fill(~is_inside_BT, 0)]
    row_X, number_X = row_BT[is_target_BT], is_target_BT.nonzero()[:, 0]
    response_XR = data.response_at(row_X)
    is_hidden_B = torch.rand(len(chosen), generator=generator, device=data.device) < config.unknown_user_share
    if not len(row_X):
        return response_XR, response_XR
    user_B = data.user_at(end_B - 1).masked_fill_(is_hidden_B, 0)
    table_ND = model.encoder.items.table() if data.num_items <= row_BT.numel() else None
    place_BH = first_B[:, None] + column_T[:-1]
    request = data.request_of(user_B, place_BH, place_BH < data.history_place(end_B)[:, None])
    # State t has read t events. Rows that are in no history share the state of the events before them.
    state_X = number_X * len(column_T) + data.history_place(row_X) - first_B[number_X]
    state_XS = F.embedding(state_X, model.encoder.prefixes(request, table_ND).flatten(0, 1))
    target_X = data.item_at(row_X)
    encoding = model.encoder.items(target_X) if table_ND is None else table_ND[target_X]
    return model.logits(model.state_vectors(state_XS), encoding), response_XR


def _step(model: ResponseModel, optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
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

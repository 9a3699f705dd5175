"""How the response model learns: whole sequences in one causal pass."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import RunError
from gfn4rec.schema import Request
from gfn4rec.seeding import stream_seed, torch_generator
from gfn4rec.simulator.calibration import auc
from gfn4rec.simulator.response_model import ResponseModel, ResponseModelConfig
from gfn4rec.training.windows import Windows, cut_windows

TRAIN, VAL, TEST = range(3)
_EVALUATION_ROWS = 2048


class ResponseTrainingConfig(StrictConfig):
    """How the response model is trained."""

    model: ResponseModelConfig = ResponseModelConfig()
    num_epochs: int = Field(default=10, ge=1)  # at most
    patience: int = Field(default=3, ge=1)  # epochs without a better validation AUC before stopping
    learning_rate: float = Field(default=2e-3, gt=0)
    final_learning_rate_share: float = Field(default=0.05, gt=0, le=1)  # at the end of the cosine schedule
    weight_decay: float = Field(default=0.0, ge=0)
    batch_windows: int | None = Field(default=None, ge=1)  # None: a 200th of a pass, between 8 and 128
    stride: int = Field(default=25, ge=1, le=50)  # rows predicted by a window; fewer mean longer histories
    unknown_user_share: float = Field(default=0.05, ge=0, lt=1)  # windows whose user is hidden
    class_weights: bool = False  # weight positives by the ratio of negatives to positives
    val_rows: int = Field(default=5, ge=1)  # per user
    test_rows: int = Field(default=5, ge=1)
    min_rows: int = Field(default=25, ge=1)  # users with fewer rows hold nothing out
    seed: int = 0

    @model_validator(mode="after")
    def _rows_are_learned_from(self) -> "ResponseTrainingConfig":
        held_out = self.val_rows + self.test_rows
        if self.min_rows <= held_out:
            raise ValueError(
                f"min_rows is {self.min_rows}, but {held_out} rows are held out: none would be learned from"
            )
        longest = self.model.history_length + 1
        if self.stride > longest:
            raise ValueError(f"stride is {self.stride}, but a window has {longest} rows: some would be left out")
        return self


@dataclass(frozen=True)
class Predictions:
    """Logits before calibration, and what happened."""

    logit_NR: Tensor
    label_NR: Tensor

    def auc(self) -> list[float]:
        """Per behaviour."""
        return [auc(self.logit_NR[:, b], self.label_NR[:, b]) for b in range(self.logit_NR.shape[1])]

    def mean_auc(self) -> float:
        """The mean over behaviours, weighted by the rarer outcome of each: a handful of rows decides nothing."""
        num_positive_R = self.label_NR.sum(dim=0)
        weight_R = torch.minimum(num_positive_R, len(self.label_NR) - num_positive_R).tolist()
        scores = [(value, weight) for value, weight in zip(self.auc(), weight_R, strict=True) if weight]
        return float(sum(value * weight for value, weight in scores) / max(1.0, sum(weight for _, weight in scores)))


def split_rows(data: SlateData, config: ResponseTrainingConfig) -> Tensor:
    """TRAIN, VAL or TEST for each row: each user's last rows are the test set, those before them validation."""
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
    """Predict log rows from the histories before them."""
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
    model: ResponseModel,
    optimizer: torch.optim.Optimizer,
    data: SlateData,
    windows: Windows,
    is_train_row: Tensor,
    config: ResponseTrainingConfig,
    epoch: int,
    report: Callable[[int, int, float], None],
) -> float:
    """One pass over all windows in random order; returns the mean loss per row."""
    generator = torch_generator(config.seed, f"response model/epoch {epoch}", data.device)
    batch_size = config.batch_windows or min(128, max(8, len(windows) // 200))
    num_steps = math.ceil(len(windows) / batch_size)
    positive_weight = _positive_weight(data, is_train_row) if config.class_weights else None
    order = torch.randperm(len(windows), generator=generator, device=data.device)
    loss_sum, num_rows = 0.0, 0
    model.train()
    with torch.random.fork_rng():  # dropout draws from the global generator
        torch.manual_seed(stream_seed(config.seed, f"response model/dropout {epoch}"))
        for step, chosen in enumerate(order.split(batch_size)):
            for group in optimizer.param_groups:
                group["lr"] = _learning_rate(config, epoch * num_steps + step, config.num_epochs * num_steps)
            logit, label = _window_logits(model, data, windows, chosen, is_train_row, config, generator)
            if not len(label):
                continue
            loss = F.binary_cross_entropy_with_logits(logit, label, pos_weight=positive_weight)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            value = float(loss.detach())
            if not math.isfinite(value):
                told = f"the loss is {value} in epoch {epoch + 1}, step {step + 1}"
                raise RunError(f"{told}; lower learning_rate, and begin anew in another --out")
            loss_sum, num_rows = loss_sum + value * len(label), num_rows + len(label)
            report(step + 1, num_steps, loss_sum / num_rows)
    return loss_sum / num_rows


def all_windows(data: SlateData, config: ResponseTrainingConfig) -> Windows:
    """The windows of a pass."""
    return cut_windows(data.first_row_U[1:-1], data.num_rows, config.model.history_length, config.stride)


def _window_logits(
    model: ResponseModel,
    data: SlateData,
    windows: Windows,
    chosen: Tensor,
    is_train_row: Tensor,
    config: ResponseTrainingConfig,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Logits and labels of the training rows that these windows predict; none, if all are held out."""
    length = config.model.history_length
    row_BT = windows.first[chosen][:, None] + torch.arange(length + 1, device=data.device)
    is_inside_BT = row_BT < windows.end[chosen][:, None]
    row_BT = row_BT.clamp_(max=data.num_rows - 1)
    is_target_BT = is_inside_BT & (row_BT >= windows.first_target[chosen][:, None]) & is_train_row[row_BT]
    item_BT = data.item_at(row_BT).masked_fill_(~is_inside_BT, 0)
    response_BTR = data.response_at(row_BT)
    is_hidden_B = torch.rand(len(chosen), generator=generator, device=data.device) < config.unknown_user_share
    if not is_target_BT.any():
        nothing = response_BTR[is_target_BT]
        return nothing, nothing
    user_B = data.user_at(windows.first[chosen]).masked_fill_(is_hidden_B, 0)
    table_ND = model.encoder.items.table() if data.num_items <= item_BT.numel() else None
    request = Request(user_B, item_BT[:, :-1], response_BTR[:, :-1])
    vectors = model.state_vectors(model.encoder.prefixes(request, table_ND)[is_target_BT])
    target = item_BT[is_target_BT]
    encoding = model.encoder.items(target) if table_ND is None else table_ND[target]
    return model.logits(vectors, encoding), response_BTR[is_target_BT]


def _learning_rate(config: ResponseTrainingConfig, step: int, num_steps: int) -> float:
    share = config.final_learning_rate_share
    return config.learning_rate * (share + (1 - share) * (1 + math.cos(math.pi * step / num_steps)) / 2)


def _positive_weight(data: SlateData, is_train_row: Tensor) -> Tensor:
    rate_R = data.response_at(torch.nonzero(is_train_row).squeeze(1)).mean(dim=0).clamp(min=1e-6)
    return (1 - rate_R) / rate_R

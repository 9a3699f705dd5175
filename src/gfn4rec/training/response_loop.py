"""How the response model learns: whole sequences in one causal pass, early stopping on validation AUC, calibration."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.schema import Request
from gfn4rec.seeding import stream_seed, torch_generator
from gfn4rec.simulator.calibration import Reliability, auc, fit_scale_and_shift, reliability
from gfn4rec.simulator.checkpoint import (
    WEIGHTS,
    Metric,
    SimulatorManifest,
    build_model,
    identity_of,
    read_simulator_manifest,
    save_simulator,
)
from gfn4rec.simulator.plots import plot_reliability
from gfn4rec.simulator.response_model import ResponseModel, ResponseModelConfig
from gfn4rec.simulator.truth import bayes_auc
from gfn4rec.simulator.weights import load_tensors, load_weights
from gfn4rec.training.windows import Windows, cut_windows

TRAIN, VAL, TEST = range(3)
_LAST = "last.safetensors"  # weights and optimiser after the last whole epoch
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
        return sum(value * weight for value, weight in scores) / max(1.0, sum(weight for _, weight in scores))


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
            loss = F.binary_cross_entropy_with_logits(logit, label, pos_weight=positive_weight)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            loss_sum, num_rows = loss_sum + float(loss.detach()) * len(label), num_rows + len(label)
            report(step + 1, num_steps, loss_sum / num_rows)
    return loss_sum / num_rows


def train_response_model(
    data: SlateData,
    config: ResponseTrainingConfig,
    out: Path,
    rho: float,
    resume: bool = False,
    report: Callable[[int, int, int, float], None] = lambda *_: None,
) -> SimulatorManifest:
    """Train, calibrate, evaluate and save. After each epoch `out` holds all that is needed to go on from there."""
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(stream_seed(config.seed, "response model/weights"))
    model = build_model("response model", config.model.model_dump(), data).to(data.device)
    torch.random.set_rng_state(torch_state)
    assert isinstance(model, ResponseModel)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    manifest = SimulatorManifest(
        kind="response model",
        data=identity_of(data),
        model=config.model.model_dump(mode="json"),
        rho=rho,
        training=config.model_dump(mode="json"),
        is_finished=False,
    )
    best = model.state_dict()
    if resume:
        manifest, best = _resume(out, manifest, model, optimizer)
    split, windows = split_rows(data, config), all_windows(data, config)
    rows = {name: torch.nonzero(split == kind).squeeze(1) for kind, name in ((VAL, "val"), (TEST, "test"))}
    if not len(rows["val"]):
        raise UserError(f"no user has {config.min_rows} rows, so nothing is held out; lower min_rows")
    while not _is_over(manifest.epochs, config):
        epoch = len(manifest.epochs)

        def tell(step: int, num_steps: int, loss: float, epoch: int = epoch) -> None:
            report(epoch, step, num_steps, loss)

        loss = train_epoch(model, optimizer, data, windows, split == TRAIN, config, epoch, tell)
        predictions = predict(model, data, rows["val"])
        found, mean_auc = predictions.auc(), predictions.mean_auc()
        if mean_auc > max((each["mean_auc"] for each in manifest.epochs), default=-1.0):
            best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        record = {"loss": loss, "mean_auc": mean_auc, "auc": [None if math.isnan(v) else v for v in found]}
        manifest = manifest.model_copy(update={"epochs": (*manifest.epochs, record)})
        last = {f"model.{name}": tensor for name, tensor in model.state_dict().items()} | _optimizer_tensors(optimizer)
        save_simulator(out, manifest, {WEIGHTS: best, _LAST: last})
    return _finish(model, best, data, rows, manifest, out)


def _finish(
    model: ResponseModel,
    best: dict[str, Tensor],
    data: SlateData,
    rows: dict[str, Tensor],
    manifest: SimulatorManifest,
    out: Path,
) -> SimulatorManifest:
    """Calibrate the best weights on the validation rows, evaluate them on both splits, and save them alone."""
    model.load_state_dict(best)
    found = {name: predict(model, data, of_split) for name, of_split in rows.items()}
    model.calibration_2R.copy_(fit_scale_and_shift(found["val"].logit_NR, found["val"].label_NR))
    metrics: dict[str, dict[str, Metric]] = {}
    curves: dict[str, dict[str, Reliability]] = {}
    for name, predictions in found.items():
        bayes = bayes_auc(data, rows[name])
        probability_NR = torch.sigmoid(predictions.logit_NR * model.calibration_2R[0] + model.calibration_2R[1])
        metrics[name], curves[name] = {}, {}
        for number, behaviour in enumerate(data.behaviours):
            label = predictions.label_NR[:, number]
            curve = reliability(probability_NR[:, number], label)
            value = auc(predictions.logit_NR[:, number], label)
            metrics[name][behaviour] = Metric(
                auc=None if math.isnan(value) else value,
                bayes_auc=None if bayes is None or math.isnan(bayes[number]) else bayes[number],
                calibration_error=curve.error,
                rate=float(label.mean()),
                num_rows=len(label),
            )
            curves[name][behaviour] = curve
    manifest = manifest.model_copy(update={"is_finished": True, "metrics": metrics})
    return save_simulator(out, manifest, {WEIGHTS: model.state_dict()}, {"reliability.png": plot_reliability(curves)})


def _is_over(epochs: tuple[dict[str, Any], ...], config: ResponseTrainingConfig) -> bool:
    """All epochs are done, or the best one is too long ago."""
    scores = [each["mean_auc"] for each in epochs]
    return len(scores) >= config.num_epochs or (
        bool(scores) and len(scores) - 1 - scores.index(max(scores)) >= config.patience
    )


def _resume(
    out: Path, wanted: SimulatorManifest, model: ResponseModel, optimizer: torch.optim.Optimizer
) -> tuple[SimulatorManifest, dict[str, Tensor]]:
    """Go on from the last whole epoch of an unfinished training."""
    manifest = read_simulator_manifest(out)
    if manifest.is_finished:
        raise UserError(f"{out}: its training is finished; there is nothing to resume")
    for name in ("data", "training", "rho"):
        if getattr(manifest, name) != getattr(wanted, name):
            raise UserError(f"{out}: was begun with another {name}; resume it with the same, or choose another --out")
    last = load_tensors(out / _LAST)
    weights = {key.removeprefix("model."): value for key, value in last.items() if key.startswith("model.")}
    load_weights(model, weights, out / _LAST)
    state = optimizer.state_dict()
    for key, value in last.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".")
            state["state"].setdefault(int(number), {})[name] = value
    optimizer.load_state_dict(state)
    return manifest, load_tensors(out / WEIGHTS)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {f"optimizer.{number}.{name}": value for number, values in state.items() for name, value in values.items()}


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
    """Logits and labels of the training rows that these windows predict."""
    length = config.model.history_length
    row_BT = windows.first[chosen][:, None] + torch.arange(length + 1, device=data.device)
    is_inside_BT = row_BT < windows.end[chosen][:, None]
    row_BT = row_BT.clamp_(max=data.num_rows - 1)
    is_target_BT = is_inside_BT & (row_BT >= windows.first_target[chosen][:, None]) & is_train_row[row_BT]
    item_BT = data.item_at(row_BT).masked_fill_(~is_inside_BT, 0)
    response_BTR = data.response_at(row_BT)
    is_hidden_B = torch.rand(len(chosen), generator=generator, device=data.device) < config.unknown_user_share
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

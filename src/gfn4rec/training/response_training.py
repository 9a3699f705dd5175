"""A whole training of the response model: early stopping on validation AUC, resuming, calibration, saving."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import identity_of
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import load_tensors, load_weights, write_directory
from gfn4rec.seeding import stream_seed
from gfn4rec.simulator.calibration import Reliability, fit_scale_and_shift, reliability
from gfn4rec.simulator.checkpoint import (
    WEIGHTS,
    Metric,
    SimulatorManifest,
    build_model,
    read_simulator_manifest,
)
from gfn4rec.simulator.plots import plot_reliability
from gfn4rec.simulator.response_model import ResponseModel
from gfn4rec.simulator.truth import bayes_auc
from gfn4rec.training.learner import load_optimizer_tensors, optimizer_tensors
from gfn4rec.training.response_loop import (
    TEST,
    TRAIN,
    VAL,
    Predictions,
    ResponseTrainingConfig,
    all_windows,
    predict,
    split_rows,
    train_epoch,
)

_LAST = "last.safetensors"  # weights and optimiser after the last whole epoch


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
        data=identity_of(data.manifest),
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
        raise UserError(
            f"no user has {config.min_rows} rows, so nothing is held out; lower min_rows in a --config file "
            "(and val_rows or test_rows with it)"
        )
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
        last = {f"model.{name}": tensor for name, tensor in model.state_dict().items()} | optimizer_tensors(optimizer)
        write_directory(out, manifest, {WEIGHTS: best, _LAST: last})
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
    curves = {name: reliabilities(each, model.calibration_2R, data) for name, each in found.items()}
    metrics = {name: measure(each, curves[name], data, rows[name]) for name, each in found.items()}
    manifest = manifest.model_copy(update={"is_finished": True, "metrics": metrics})
    return write_directory(out, manifest, {WEIGHTS: model.state_dict()}, {"reliability.png": plot_reliability(curves)})


def reliabilities(predictions: Predictions, calibration_2R: Tensor, data: SlateData) -> dict[str, Reliability]:
    """Calibrated predictions against outcomes, per behaviour."""
    probability_NR = torch.sigmoid(predictions.logit_NR * calibration_2R[0] + calibration_2R[1])
    return {
        behaviour: reliability(probability_NR[:, number], predictions.label_NR[:, number])
        for number, behaviour in enumerate(data.behaviours)
    }


def measure(
    predictions: Predictions, curves: dict[str, Reliability], data: SlateData, row_N: Tensor
) -> dict[str, Metric]:
    """AUC and calibration error per behaviour, and the AUC of the truth where it is known."""
    bayes = bayes_auc(data, row_N) or [math.nan] * len(data.behaviours)
    rate_R = predictions.label_NR.mean(dim=0).tolist()
    return {
        behaviour: Metric(
            auc=None if math.isnan(value) else value,
            bayes_auc=None if math.isnan(best) else best,
            calibration_error=curves[behaviour].error,
            rate=rate,
            num_rows=len(row_N),
        )
        for behaviour, value, best, rate in zip(data.behaviours, predictions.auc(), bayes, rate_R, strict=True)
    }


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
    load_optimizer_tensors(optimizer, last)
    return manifest, load_tensors(out / WEIGHTS)

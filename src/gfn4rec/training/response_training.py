"""Training of a response model from start to end: early stopping, resuming, calibration, saving."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import identity_of
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import load_tensors, load_weights, write_directory
from gfn4rec.seeding import stream_seed
from gfn4rec.simulator.calibration import Reliability, fit_scale_and_shift, reliability
from gfn4rec.simulator.cautious_model import CautiousModel
from gfn4rec.simulator.checkpoint import (
    WEIGHTS,
    Epoch,
    Metric,
    SimulatorManifest,
    build_model,
    read_simulator_manifest,
)
from gfn4rec.simulator.effects import NO_EFFECTS, ListEffects
from gfn4rec.simulator.plots import plot_reliability, plot_support
from gfn4rec.simulator.response_model import ResponseModel
from gfn4rec.simulator.support import support_bins
from gfn4rec.simulator.truth import bayes_auc
from gfn4rec.training.optimisation import has_stopped_improving, load_optimizer_tensors, optimizer_tensors
from gfn4rec.training.response_loop import (
    TEST,
    TRAIN,
    VAL,
    Predictions,
    ResponseTrainingConfig,
    Simulator,
    TrainingLog,
    predict,
    split_rows,
    train_epoch,
)

_LAST = "last.safetensors"  # weights and optimiser state after the last finished epoch


def train_response_model(
    data: SlateData,
    config: ResponseTrainingConfig,
    out: Path,
    rho: float,
    resume: bool = False,
    report: Callable[[int, int, int, float], None] = lambda *_: None,
    effects: ListEffects = NO_EFFECTS,
) -> SimulatorManifest:
    """Train, calibrate, evaluate and save a response model.

    `rho` and `effects` are stored with it, as the list effects of its users; they have no part in training.
    After each epoch `out` holds everything that is needed to resume from there. `report` is called after each step with
    the epoch, the step, the steps of an epoch, and the mean loss of the epoch so far.
    """
    effects.categories(data)  # an error, if there are none, comes before anything is written
    model = _new_model(config, data)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    manifest = _new_manifest(config, data, rho, effects)
    best = model.state_dict()
    if resume:
        manifest, best = _resume(out, manifest, model, optimizer)
    held_out, log = _held_out_rows(data, config), TrainingLog.of(data, config)
    while not _is_over(manifest.epochs, config):
        epoch = len(manifest.epochs)
        loss = train_epoch(model, optimizer, log, epoch, partial(report, epoch))
        predictions = predict(model, data, held_out["val"])
        mean_auc = predictions.mean_auc()
        if mean_auc > max((earlier.mean_auc for earlier in manifest.epochs), default=-1.0):
            best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        record = Epoch(loss=loss, mean_auc=mean_auc, auc=tuple(map(_or_none, predictions.auc())))
        manifest = manifest.model_copy(update={"epochs": (*manifest.epochs, record)})
        last = {f"model.{name}": tensor for name, tensor in model.state_dict().items()} | optimizer_tensors(optimizer)
        write_directory(out, manifest, {WEIGHTS: best, _LAST: last})
    model.load_state_dict(best)
    return _finish(model, data, held_out, manifest, out)


def _new_model(config: ResponseTrainingConfig, data: SlateData) -> Simulator:
    """Return a model with random weights; the global generator is left as it was."""
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(stream_seed(config.seed, "response model/weights"))
    model = build_model(config.sizes(data), data).to(data.device)
    torch.random.set_rng_state(torch_state)
    assert isinstance(model, ResponseModel | CautiousModel)
    if isinstance(model, CautiousModel) and model.config.num_positions:
        effect_KR = _position_effects(data, config, model.config.num_positions)
        for member in model.members:
            member.start_positions(effect_KR)
    return model


def _position_effects(data: SlateData, config: ResponseTrainingConfig, num_positions: int) -> Tensor:
    """Return the log odds of the responses at each position of the training rows, less those at the first, (K, R)."""
    row = torch.nonzero(split_rows(data, config) == TRAIN).squeeze(1)
    position, response = data.position_at(row), data.response_at(row)
    counts_KR = torch.ones(2, num_positions, response.shape[1], device=data.device)  # no response, response
    for value, count_KR in zip((1 - response, response), counts_KR, strict=True):
        count_KR.index_add_(0, position, value)
    log_odds_KR = (counts_KR[1] / counts_KR[0]).log()
    return log_odds_KR - log_odds_KR[0]


def _new_manifest(
    config: ResponseTrainingConfig, data: SlateData, rho: float, effects: ListEffects
) -> SimulatorManifest:
    return SimulatorManifest(
        kind="response model" if config.caution is None else "cautious",
        data=identity_of(data.manifest),
        model=config.sizes(data).model_dump(mode="json"),
        rho=rho,
        pessimism=0.0 if config.caution is None else config.caution.pessimism,
        effects=effects,
        training=config.model_dump(mode="json"),
        num_threads=torch.get_num_threads(),
        is_finished=False,
    )


def _held_out_rows(data: SlateData, config: ResponseTrainingConfig) -> dict[str, Tensor]:
    """Return the rows of the validation set and of the test set."""
    split = split_rows(data, config)
    rows = {name: torch.nonzero(split == number).squeeze(1) for number, name in ((VAL, "val"), (TEST, "test"))}
    if not len(rows["val"]):
        raise UserError(
            f"no user has {config.min_rows} rows, so nothing is held out; lower min_rows in a --config file "
            "(and val_rows or test_rows with it)"
        )
    return rows


def _finish(
    model: Simulator, data: SlateData, held_out: dict[str, Tensor], manifest: SimulatorManifest, out: Path
) -> SimulatorManifest:
    """Calibrate the model on the validation rows, evaluate it on both splits, and save it without the optimiser."""
    predictions = {split: predict(model, data, rows) for split, rows in held_out.items()}
    val = predictions["val"]
    model.calibration_2R.copy_(fit_scale_and_shift(val.logit_NR, val.label_NR))
    curves = {split: reliabilities(values, model.calibration_2R, data) for split, values in predictions.items()}
    metrics = {split: measure(predictions[split], curves[split], data, rows) for split, rows in held_out.items()}
    choice_auc = {split: values.choice_auc() for split, values in predictions.items() if values.choice_N2 is not None}
    if isinstance(model, CautiousModel):
        model.pessimism = manifest.pessimism
    probability_NR = calibrated(predictions["test"], model.calibration_2R)
    is_train_row = split_rows(data, ResponseTrainingConfig.parse(manifest.training, "training")) == TRAIN
    support = support_bins(data, is_train_row, held_out["test"], probability_NR, model.freeze())
    update = {"is_finished": True, "metrics": metrics, "choice_auc": choice_auc, "support": support}
    plots = {"reliability.png": plot_reliability(curves), "support.png": plot_support(support)}
    return write_directory(out, manifest.model_copy(update=update), {WEIGHTS: model.state_dict()}, plots)


def calibrated(predictions: Predictions, calibration_2R: Tensor) -> Tensor:
    """Return the calibrated probabilities of the behaviours, (N, R)."""
    return torch.sigmoid(predictions.logit_NR * calibration_2R[0] + calibration_2R[1])


def reliabilities(predictions: Predictions, calibration_2R: Tensor, data: SlateData) -> dict[str, Reliability]:
    """Compare calibrated predictions with the responses in the log, per behaviour."""
    probability_NR = calibrated(predictions, calibration_2R)
    return {
        behaviour: reliability(probability_NR[:, number], predictions.label_NR[:, number])
        for number, behaviour in enumerate(data.behaviours)
    }


def measure(
    predictions: Predictions, curves: dict[str, Reliability], data: SlateData, row_N: Tensor
) -> dict[str, Metric]:
    """Return AUC and calibration error per behaviour, and the AUC of the true probabilities where they are known."""
    bayes = bayes_auc(data, row_N) or [math.nan] * len(data.behaviours)
    rate_R = predictions.label_NR.mean(dim=0).tolist()
    return {
        behaviour: Metric(
            auc=_or_none(value),
            bayes_auc=_or_none(best),
            calibration_error=curves[behaviour].error,
            rate=rate,
            num_rows=len(row_N),
        )
        for behaviour, value, best, rate in zip(data.behaviours, predictions.auc(), bayes, rate_R, strict=True)
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _is_over(epochs: tuple[Epoch, ...], config: ResponseTrainingConfig) -> bool:
    """Return whether all epochs are done, or the validation AUC has stopped improving."""
    scores = [epoch.mean_auc for epoch in epochs]
    return len(scores) >= config.num_epochs or has_stopped_improving(scores, config.patience)


def _resume(
    out: Path, wanted: SimulatorManifest, model: Simulator, optimizer: torch.optim.Optimizer
) -> tuple[SimulatorManifest, dict[str, Tensor]]:
    """Restore the last finished epoch into model and optimiser; return its manifest and the best weights so far."""
    manifest = read_simulator_manifest(out)
    if manifest.is_finished:
        raise UserError(f"{out}: its training is finished; there is nothing to resume")
    for name in ("data", "training", "rho", "effects"):
        if getattr(manifest, name) != getattr(wanted, name):
            raise UserError(f"{out}: was started with another {name}; resume it with the same, or choose another --out")
    last = load_tensors(out / _LAST)
    weights = {key.removeprefix("model."): value for key, value in last.items() if key.startswith("model.")}
    load_weights(model, weights, out / _LAST)
    load_optimizer_tensors(optimizer, last)
    return manifest, load_tensors(out / WEIGHTS)

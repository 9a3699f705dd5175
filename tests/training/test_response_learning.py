"""One epoch of the response model's training, and which epoch is kept."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import RunError
from gfn4rec.schema import Request
from gfn4rec.simulator.calibration import fit_scale_and_shift
from gfn4rec.simulator.checkpoint import build_model, load_simulator
from gfn4rec.simulator.response_model import ResponseModel, ResponseModelConfig
from gfn4rec.training import response_loop, response_training
from gfn4rec.training.response_loop import (
    TRAIN,
    VAL,
    ResponseTrainingConfig,
    TrainingLog,
    predict,
    split_rows,
    train_epoch,
)
from gfn4rec.training.response_training import train_response_model

SMALL = ResponseModelConfig(
    dim=8, embedding_dim=8, num_heads=2, feedforward_dim=16, state_dim=16, history_length=10, dropout=0.0
)
CONFIG = ResponseTrainingConfig(
    model=SMALL, num_epochs=3, stride=5, batch_windows=64, learning_rate=5e-3, unknown_user_share=0.0
)


def fresh_model(data: SlateData) -> ResponseModel:
    model = build_model(SMALL, data)
    assert isinstance(model, ResponseModel)
    return model


def learn(model: ResponseModel, data: SlateData, config: ResponseTrainingConfig, epoch: int = 0) -> list[float]:
    """Train for an epoch; return the loss, then the learning rate of each step."""
    optimizer = torch.optim.Adam(model.parameters())
    rates = list[float]()
    optimizer.register_step_pre_hook(lambda *_: rates.append(optimizer.param_groups[0]["lr"]))
    loss = train_epoch(model, optimizer, TrainingLog.of(data, config), epoch, lambda *_: None)
    return [loss, *rates]


def test_the_best_epoch_is_kept_and_calibrated_on_the_validation_rows(
    data: SlateData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second epoch learns; the others replace the weights by random ones."""
    learned: dict[str, Tensor] = {}

    def randomised(model: ResponseModel, *rest: object) -> float:
        if rest[2] == 1:
            loss = train_epoch(model, *rest)  # type: ignore[arg-type]
            learned.update({name: weight.clone() for name, weight in model.state_dict().items()})
            return loss
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(0.01 * torch.randn(weight.shape, generator=generator))
        return 1.0

    monkeypatch.setattr(response_training, "train_epoch", randomised)
    long = CONFIG.model_copy(update={"learning_rate": 0.02, "batch_windows": 8})
    manifest = train_response_model(data, long, tmp_path / "simulator", rho=0.1)
    scores = [epoch.mean_auc for epoch in manifest.epochs]
    assert scores.index(max(scores)) == 1
    model, _ = load_simulator(tmp_path / "simulator", data)
    assert isinstance(model, ResponseModel)
    for name, weight in model.state_dict().items():
        assert name == "calibration_2R" or torch.equal(weight, learned[name]), name
    predictions = predict(model, data, torch.nonzero(split_rows(data, long) == VAL).squeeze(1))
    torch.testing.assert_close(model.calibration_2R, fit_scale_and_shift(predictions.logit_NR, predictions.label_NR))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_some_windows_hide_their_user(data: SlateData, monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    model, seen = fresh_model(data), list[Tensor]()
    prefixes = model.encoder.prefixes

    def watched(request: Request, table_ND: Tensor | None) -> Tensor:
        seen.append(request.user_B)
        return prefixes(request, table_ND)

    monkeypatch.setattr(model.encoder, "prefixes", watched)
    config = CONFIG.model_copy(update={"unknown_user_share": share, "stride": 1})
    learn(model, data, config)
    user = torch.cat(seen)
    assert len(user) > 1500
    assert float((user == 0).float().mean()) == pytest.approx(share, abs=0.04)
    assert set(user.unique().tolist()) >= set(range(1, data.num_users + 1))


def test_the_learning_rate_falls_by_a_cosine_over_all_epochs(data: SlateData) -> None:
    config = CONFIG.model_copy(update={"num_epochs": 2, "final_learning_rate_share": 0.2})
    rates = [rate for epoch in range(2) for rate in learn(fresh_model(data), data, config, epoch)[1:]]
    half = len(rates) // 2
    assert half > 3
    assert rates[0] == pytest.approx(5e-3)
    assert rates[half] == pytest.approx(5e-3 * 0.6)
    assert rates[half // 2] == pytest.approx(
        5e-3 * (0.2 + 0.8 * (1 + math.cos(math.pi * (half // 2) / len(rates))) / 2)
    )
    assert rates == sorted(rates, reverse=True)
    assert response_loop._learning_rate(config, len(rates), len(rates)) == pytest.approx(5e-3 * 0.2)


@pytest.mark.parametrize("problem", ["loss", "gradient norm"])
def test_a_loss_or_gradient_that_is_not_finite_leaves_the_weights_untouched(data: SlateData, problem: str) -> None:
    model = fresh_model(data)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    if problem == "loss":
        hook = model.head.register_forward_hook(lambda _, __, output: output * math.nan)
    else:
        hook = model.head.weight.register_hook(lambda gradient: gradient * math.nan)
    with pytest.raises(RunError, match=f"the {problem} is nan in epoch 1, step 1; lower learning_rate"):
        learn(model, data, CONFIG)
    hook.remove()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_loss_of_an_epoch_by_hand(data: SlateData, is_weighted: bool) -> None:
    """One step over all windows, predicted from full histories; rarer positives count as much as all negatives."""
    config = CONFIG.model_copy(update={"stride": 1, "batch_windows": 100_000, "class_weights": is_weighted})
    model = fresh_model(data)
    rows = torch.nonzero(split_rows(data, config) == TRAIN).squeeze(1)
    predictions = predict(model, data, rows)
    label, probability = predictions.label_NR, torch.sigmoid(predictions.logit_NR.clone())
    positive = (label == 0).sum(dim=0) / (label == 1).sum(dim=0) if is_weighted else torch.ones(1)
    by_hand = -(positive * label * probability.log() + (1 - label) * (1 - probability).log())
    loss, *rates = learn(model, data, config)
    assert len(rates) == 1
    assert loss == pytest.approx(float(by_hand.mean()), rel=1e-4)

"""Training the response model: windows, splits, learning, early stopping, resuming, and what is saved."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from safetensors.torch import load_file, save_file

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.errors import RunError, UserError
from gfn4rec.simulator.checkpoint import Epoch, load_simulator, read_simulator_manifest
from gfn4rec.simulator.response_model import ResponseModel, ResponseModelConfig
from gfn4rec.simulator.truth import bayes_auc
from gfn4rec.training import response_loop, response_training
from gfn4rec.training.response_loop import (
    LEFT_OUT,
    TEST,
    TRAIN,
    VAL,
    Predictions,
    ResponseTrainingConfig,
    TrainingLog,
    predict,
    split_rows,
    window_logits,
    window_targets,
)
from gfn4rec.training.response_training import train_response_model
from gfn4rec.training.windows import cut_windows

SMALL = ResponseModelConfig(dim=8, embedding_dim=8, num_heads=2, feedforward_dim=16, state_dim=16, history_length=10)
CONFIG = ResponseTrainingConfig(model=SMALL, num_epochs=3, stride=5, batch_windows=64, learning_rate=5e-3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "tiny"
    prepare(generate(PRESETS["tiny"], seed=1)[1], PrepareConfig(), out, "synthetic-tiny")
    return out


@pytest.fixture(scope="module")
def data(folder: Path) -> SlateData:
    return SlateData.open(folder, history_length=10)


def test_batches_of_held_out_rows_alone_are_passed_over(data: SlateData, tmp_path: Path) -> None:
    """Windows of one row or two at the end of a user's rows predict nothing that may be learned from."""
    single = CONFIG.model_copy(update={"batch_windows": 1, "stride": 2, "num_epochs": 1})
    log = TrainingLog.of(data, single)
    spans = zip(log.windows.first_target.tolist(), log.windows.end.tolist(), strict=True)
    assert any(not log.is_train_row[first:end].any() for first, end in spans)
    train_response_model(data, single, tmp_path / "simulator", 0.1)
    assert read_simulator_manifest(tmp_path / "simulator").is_finished


def test_windows_that_would_leave_rows_out_are_refused() -> None:
    assert ResponseTrainingConfig(model=SMALL, stride=11).stride == 11
    with pytest.raises(ValueError, match="stride is 12, but a window has 11 rows"):
        ResponseTrainingConfig(model=SMALL, stride=12)


def test_holding_out_every_row_is_refused() -> None:
    assert ResponseTrainingConfig(model=SMALL, stride=5, min_rows=11).min_rows == 11
    with pytest.raises(ValueError, match="min_rows is 10, but 10 rows are held out: none would be left to train on"):
        ResponseTrainingConfig(model=SMALL, stride=5, min_rows=10)


@pytest.mark.parametrize("stride", [1, 3, 10, 11])
def test_windows_predict_every_row_once_from_long_enough_histories(stride: int) -> None:
    first = torch.tensor([0, 1, 12, 23, 60])
    num_rows = 61
    windows = cut_windows(first, num_rows, 10, stride)
    predicted = torch.zeros(num_rows, dtype=torch.int64)
    starts = [*first.tolist(), num_rows]
    for start, target, end in zip(
        windows.first.tolist(), windows.first_target.tolist(), windows.end.tolist(), strict=True
    ):
        predicted[target:end] += 1
        owner = max(first_row for first_row in starts if first_row <= target)
        assert owner <= start <= target < end <= starts[starts.index(owner) + 1]
        assert end - start <= 11
        for row in range(target, end):
            assert row - start >= min(row - owner, 10 - stride + 1)  # as much history as the stride promises
    assert predicted.tolist() == [1] * num_rows


def test_the_last_rows_of_each_user_are_held_out(data: SlateData) -> None:
    config = CONFIG.model_copy(update={"val_rows": 3, "test_rows": 2, "min_rows": 40})
    split = split_rows(data, config)
    for user in range(1, data.num_users + 1):
        mine = split[data.first_row_U[user] : data.first_row_U[user + 1]].tolist()
        held_out = [VAL] * 3 + [TEST] * 2 if len(mine) >= 40 else []
        assert mine == [TRAIN] * (len(mine) - len(held_out)) + held_out


def test_windows_read_the_rows_of_histories_alone() -> None:
    """Sessions of rows 0 to 4 and 5 to 7; histories hold rows 1, 4 and 6, the places 0, 1 and 2, and at most two."""
    num_before = torch.tensor([0, 0, 1, 1, 1, 2, 2, 3, 3])
    windows = cut_windows(torch.tensor([0, 5]), 8, 2, 2, lambda row: num_before[row])
    assert windows.first_target.tolist() == [0, 3, 5]
    assert windows.end.tolist() == [3, 5, 8]
    assert windows.first.tolist() == [0, 0, 2]
    windows = cut_windows(torch.tensor([0]), 8, 2, 1, lambda row: num_before[row])
    assert windows.end.tolist() == [3, 4, 5, 6, 7, 8]
    assert windows.first.tolist() == [0, 0, 0, 0, 0, 1]  # row 7 is predicted from rows 4 and 6


def test_a_cautious_simulator_learns_from_no_held_out_slate(data: SlateData) -> None:
    """Users with fewer than 40 rows have no held-out rows, but held-out slates; nobody is measured on those."""
    config = CONFIG.model_copy(update={"val_rows": 3, "test_rows": 2, "min_rows": 40})
    split, cautious = split_rows(data, config), split_rows(data, config.with_caution())
    held_out = torch.cat([data.split("val"), data.split("test")])
    first_row = {int(data.user_at(row)): int(row) for row in data.first_rows(held_out).sort(descending=True).values}
    assert any(first_row[user] < data.first_row_U[user + 1] - 5 for user in first_row)
    for row in range(data.num_rows):
        is_held_out = row >= first_row.get(int(data.user_at(torch.tensor(row))), data.num_rows)
        expected = LEFT_OUT if is_held_out and split[row] == TRAIN else int(split[row])
        assert cautious[row] == expected


@pytest.mark.parametrize("history", ["all", "responded"])
@pytest.mark.parametrize("gap", [None, 2 * 86_400, 0.5])
def test_a_pass_over_windows_predicts_what_single_histories_predict(
    history: Literal["all", "responded"], gap: float | None, tmp_path: Path
) -> None:
    """With a stride of 1 every row is predicted from its full history, as in evaluation."""
    prepared = PrepareConfig(slate_size=1, session_gap=gap, history=history)
    prepare(generate(PRESETS["tiny"], seed=1)[1], prepared, tmp_path / "data")
    data = SlateData.open(tmp_path / "data", history_length=10)
    num_events = data.requests(torch.arange(data.num_rows)).history_BH.gt(0).sum(dim=1)
    assert (num_events.max() == 0) == (gap == 0.5)  # each row is a session
    torch.manual_seed(0)
    model = ResponseModel(
        data.num_users, data.num_items, len(data.behaviours), data.user_features, data.item_features, SMALL
    ).eval()
    config = CONFIG.model_copy(update={"stride": 1, "unknown_user_share": 0.0})
    log = replace(TrainingLog.of(data, config), is_train_row=torch.ones(data.num_rows, dtype=torch.bool))
    windows = log.windows
    chosen = torch.arange(0, len(windows), 7)
    targets = window_targets(log, chosen, torch.Generator().manual_seed(0))
    assert targets is not None
    with torch.no_grad():
        logit, _ = window_logits(model, targets)
    rows = torch.cat([torch.arange(int(windows.first_target[i]), int(windows.end[i])) for i in chosen.tolist()])
    alone = predict(model, data, rows)
    assert len(rows) > 500
    torch.testing.assert_close(logit, alone.logit_NR, atol=1e-5, rtol=0)
    assert torch.equal(targets.label_XR, alone.label_NR)


def test_every_row_is_predicted_once_from_as_much_of_its_history_as_the_stride_promises(tmp_path: Path) -> None:
    config = PrepareConfig(slate_size=1, session_gap=2 * 86_400, history="responded")
    prepare(generate(PRESETS["tiny"], seed=1)[1], config, tmp_path / "data")
    data = SlateData.open(tmp_path / "data", history_length=10)
    windows = TrainingLog.of(data, CONFIG).windows
    length = windows.end - windows.first_target
    window = torch.arange(len(windows)).repeat_interleave(length)
    row = windows.first_target[window] + torch.arange(len(window)) - (length.cumsum(0) - length)[window]
    assert row.sort().values.tolist() == list(range(data.num_rows))
    num_read = data.history_place(row) - windows.first[window]
    num_whole = data.requests(row).history_BH.gt(0).sum(dim=1)
    assert (num_read >= torch.minimum(num_whole, torch.tensor(10 - CONFIG.stride + 1))).all()
    assert (num_read <= 10).all()
    assert (data.session_start(row) == data.session_start(windows.end[window] - 1)).all()


def test_it_learns_what_can_be_known(tmp_path: Path) -> None:
    """On a larger log the AUC comes near that of the true probabilities, and the model is calibrated."""
    steady = {"num_rows": 40_000, "num_users": 300, "num_items": 120, "drift": 0.0}
    config = PRESETS["small"].model_copy(update=steady)
    prepare(generate(config, seed=0)[1], PrepareConfig(), tmp_path / "data", "steady")
    data = SlateData.open(tmp_path / "data", history_length=20)
    model = ResponseModelConfig(history_length=20)
    settings = ResponseTrainingConfig(model=model, num_epochs=4, stride=20, batch_windows=16, learning_rate=3e-3)
    manifest = train_response_model(data, settings, tmp_path / "sim", rho=0.2)
    click = manifest.metrics["test"]["click"]
    assert click.auc is not None
    assert click.bayes_auc is not None
    assert click.bayes_auc > 0.74
    # The rest is what the model cannot see: the other items of the slate, and noise in what it has seen.
    assert click.bayes_auc - 0.07 < click.auc < click.bayes_auc + 0.02
    assert click.calibration_error < 0.05
    assert manifest.is_finished
    assert (tmp_path / "sim" / "reliability.png").read_bytes().startswith(b"\x89PNG")


def test_only_training_rows_are_learned_from(data: SlateData) -> None:
    model = ResponseModel(
        data.num_users, data.num_items, len(data.behaviours), data.user_features, data.item_features, SMALL
    )
    is_train = split_rows(data, CONFIG) == TRAIN
    log = TrainingLog.of(data, CONFIG)
    targets = window_targets(log, torch.arange(len(log.windows)), torch.Generator().manual_seed(0))
    assert targets is not None
    with torch.no_grad():
        logit, _ = window_logits(model, targets)
    assert len(logit) == len(targets.label_XR) == int(is_train.sum()) < data.num_rows


def test_the_larger_ensemble_counts(data: SlateData) -> None:
    model = ResponseModel(
        data.num_users, data.num_items, len(data.behaviours), data.user_features, data.item_features, SMALL
    )
    generator = torch.Generator().manual_seed(0)
    vectors, item = torch.randn(5, 4, 2, 8, generator=generator), torch.randn(5, 8, generator=generator)
    scores = (vectors * item[:, None, None]).sum(dim=3) / 8**0.5
    expected = torch.maximum(scores[:, :, 0], scores[:, :, 1]) + model.item_bias(item)
    torch.testing.assert_close(model.logits(vectors, item), expected)


def test_the_truth_of_a_synthetic_log_is_joined_row_by_row(data: SlateData) -> None:
    rows = torch.arange(0, data.num_rows, 3)
    best = bayes_auc(data, rows)
    assert best is not None
    shuffled = bayes_auc(data, rows.flip(0))
    assert best == pytest.approx(shuffled)
    assert best[0] > 0.7  # far from what misplaced probabilities would give


def test_the_same_seed_gives_the_same_simulator_and_another_another(data: SlateData, tmp_path: Path) -> None:
    outs = [tmp_path / name for name in "abc"]
    for out, seed in zip(outs, (0, 0, 1), strict=True):
        torch.rand(3 + seed)  # the global generator has no say
        train_response_model(data, CONFIG.model_copy(update={"seed": seed}), out, rho=0.2)
    first, same, other = (load_file(out / "model.safetensors") for out in outs)
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_resumed_training_equals_an_uninterrupted_one(
    data: SlateData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_response_model(data, CONFIG, tmp_path / "whole", rho=0.2)
    train_epoch = response_loop.train_epoch

    def interrupted(*arguments: object) -> float:
        if arguments[3] == 2:
            raise KeyboardInterrupt
        return train_epoch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(response_training, "train_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_response_model(data, CONFIG, tmp_path / "parts", rho=0.2)
    monkeypatch.undo()
    assert not read_simulator_manifest(tmp_path / "parts").is_finished
    with pytest.raises(UserError, match="parts: its training is not finished; resume it with .* --resume"):
        load_simulator(tmp_path / "parts", data)
    with pytest.raises(UserError, match="started with another training"):
        train_response_model(data, CONFIG.model_copy(update={"seed": 5}), tmp_path / "parts", 0.2, resume=True)
    parts = train_response_model(data, CONFIG, tmp_path / "parts", rho=0.2, resume=True)
    assert parts == whole
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    with pytest.raises(UserError, match="its training is finished; there is nothing to resume"):
        train_response_model(data, CONFIG, tmp_path / "parts", rho=0.2, resume=True)


def test_a_nan_loss_stops_the_training(data: SlateData, tmp_path: Path) -> None:
    wild = CONFIG.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(RunError, match="the loss is nan in epoch 1, step .*; lower learning_rate"):
        train_response_model(data, wild, tmp_path / "sim", rho=0.2)
    assert not (tmp_path / "sim").exists()


def test_the_mean_auc_counts_behaviours_by_their_rarer_outcome() -> None:
    logit = torch.tensor([[3.0, 0.0], [2.0, 1.0], [1.0, 2.0], [0.0, 3.0]])
    label = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    predictions = Predictions(logit, label)
    assert predictions.auc() == [1.0, 0.0]
    assert predictions.mean_auc() == pytest.approx((2 * 1.0 + 1 * 0.0) / 3)


def test_it_stops_when_the_best_epoch_is_too_long_ago() -> None:
    def epochs(*scores: float) -> tuple[Epoch, ...]:
        return tuple(Epoch(loss=1.0, mean_auc=score, auc=(score,)) for score in scores)

    config = CONFIG.model_copy(update={"num_epochs": 9, "patience": 2})
    assert not response_training._is_over((), config)
    assert not response_training._is_over(epochs(0.7, 0.6), config)
    assert response_training._is_over(epochs(0.7, 0.6, 0.69), config)
    assert not response_training._is_over(epochs(0.7, 0.6, 0.71), config)
    assert response_training._is_over(epochs(*(0.1 * n for n in range(9))), config)


@pytest.fixture
def simulator(data: SlateData, tmp_path: Path) -> Path:
    train_response_model(data, CONFIG.model_copy(update={"num_epochs": 1}), tmp_path / "sim", rho=0.1)
    return tmp_path / "sim"


def test_a_loaded_simulator_gives_the_saved_probabilities(data: SlateData, simulator: Path) -> None:
    model, manifest = load_simulator(simulator, data)
    assert isinstance(model, ResponseModel)
    assert manifest.rho == 0.1
    assert not torch.allclose(model.calibration_2R, torch.tensor([[1.0], [0.0]]))  # it was fitted
    rows = torch.arange(0, data.num_rows, 97)
    logit = predict(model, data, rows).logit_NR
    expected = torch.sigmoid(logit * model.calibration_2R[0] + model.calibration_2R[1])
    probability = model.probabilities(model.encode(data.requests(rows)), data.item_at(rows)[:, None])[:, 0]
    torch.testing.assert_close(probability, expected, atol=1e-5, rtol=0)
    norms = model.item_embedding_ND[1:].norm(dim=1)
    torch.testing.assert_close(norms, torch.ones_like(norms))


def test_a_simulator_of_another_data_set_is_refused(simulator: Path, tmp_path: Path) -> None:
    prepare(generate(PRESETS["tiny"], seed=2)[1], PrepareConfig(), tmp_path / "other", "another")
    with pytest.raises(UserError, match="made for another data set \\(synthetic-tiny\\), not for this another"):
        load_simulator(simulator, SlateData.open(tmp_path / "other"))


def test_damaged_weights_are_refused(data: SlateData, simulator: Path) -> None:
    path = simulator / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="model.safetensors: missing or damaged"):
        load_simulator(simulator, data)
    path.write_bytes(content)
    (simulator / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="manifest.json: damaged"):
        load_simulator(simulator, data)


def test_weights_that_are_nan_are_refused(data: SlateData, tmp_path: Path) -> None:
    from gfn4rec.nn.weights import load_tensors, load_weights

    model = ResponseModel(
        data.num_users, data.num_items, len(data.behaviours), data.user_features, data.item_features, SMALL
    )
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    weights["head.bias"][3] = float("nan")
    path = tmp_path / "w.safetensors"
    save_file(weights, path)
    with pytest.raises(UserError, match="w.safetensors: 'head.bias' holds NaN or infinite values"):
        load_weights(model, load_tensors(path), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="not a complete file of weights"):
        load_tensors(path)
    del weights["head.bias"]
    with pytest.raises(UserError, match="lacks 'head.bias'"):
        load_weights(model, weights, path)

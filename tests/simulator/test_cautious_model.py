"""The cautious model: means of its networks, pessimism, disagreement, and what it learns of choices."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Behaviour, Interactions
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.seeding import torch_generator
from gfn4rec.simulator.cautious_model import CautiousConfig, CautiousModel
from gfn4rec.simulator.checkpoint import build_model, load_simulator, read_simulator_manifest
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.protocol import UserModel
from gfn4rec.simulator.response_model import ResponseModelConfig
from gfn4rec.simulator.support import support_bins
from gfn4rec.training.response_loop import (
    TEST,
    TRAIN,
    CautionConfig,
    ResponseTrainingConfig,
    TrainingLog,
    predict,
    split_rows,
    train_epoch,
    window_logits,
    window_targets,
)
from gfn4rec.training.response_training import train_response_model
from tests.data.test_shown_slates import prepared

SIZES: dict[str, Any] = {
    "dim": 8,
    "embedding_dim": 8,
    "num_heads": 2,
    "feedforward_dim": 16,
    "state_dim": 16,
    "history_length": 10,
}
SMALL = CautiousConfig(**SIZES, num_members=3, dropout=0.0)


@pytest.fixture
def model(data: SlateData) -> CautiousModel:
    torch.manual_seed(0)
    model = build_model(SMALL, data)
    assert isinstance(model, CautiousModel)
    model.calibration_2R.copy_(torch.linspace(0.5, 1.5, 2 * len(data.behaviours)).view(2, -1))
    return model.freeze()


def logits_by_hand(model: CautiousModel, data: SlateData, row: int, item: int) -> Tensor:
    """Return the logits of each member, (members, R + 1)."""
    request, logits = data.requests(torch.tensor([row])), []
    for member in model.members:
        (vectors,) = member.state_vectors(member.encoder(request))
        encoding = member.encoder.items(torch.tensor([item]))[0]
        score = (vectors * encoding).sum(dim=2).amax(dim=1) / SMALL.dim**0.5
        logits.append(score + member.item_bias(encoding))
    return torch.stack(logits)


@torch.no_grad()
def test_a_probability_is_that_of_the_mean_logit_and_trust_follows_the_ratio(
    model: CautiousModel, data: SlateData
) -> None:
    assert isinstance(model, UserModel)
    state = model.encode(data.requests(torch.tensor([40, 90])))
    for pessimism in (0.0, 0.5, 20.0):
        cautious, item_BC = model.with_pessimism(pessimism), torch.tensor([[3, 7], [5, 1]])
        probability_BCR, trust_BC = cautious.probabilities(state, item_BC), cautious.trust(state, item_BC)
        for place, (row, item) in {(0, 0): (40, 3), (0, 1): (40, 7), (1, 0): (90, 5)}.items():
            logit = logits_by_hand(model, data, row, item).mean(dim=0)
            scale_R, shift_R = model.calibration_2R
            ratio = math.exp(logit[-1])
            expected_R = torch.sigmoid(scale_R * logit[:-1] + shift_R)
            torch.testing.assert_close(probability_BCR[place], expected_R, atol=1e-5, rtol=1e-4)
            assert float(trust_BC[place]) == pytest.approx(ratio / (ratio + pessimism), abs=1e-5)
    assert model.pessimism == 0  # another pessimism is another model


@torch.no_grad()
def test_disagreement_is_the_deviation_of_the_members_rewards(model: CautiousModel, data: SlateData) -> None:
    state, item_BC = model.encode(data.requests(torch.tensor([40]))), torch.tensor([[3, 7]])
    scale_R, shift_R = model.calibration_2R
    for column, item in enumerate((3, 7)):
        logit_MR = logits_by_hand(model, data, 40, item)[:, :-1]
        rewards = (torch.sigmoid(scale_R * logit_MR + shift_R) @ data.weight_R).tolist()
        disagreement = float(model.with_pessimism(9).disagreement(state, item_BC, data.weight_R)[0, column])
        assert disagreement == pytest.approx(float(np.std(rewards)), abs=1e-5)
        assert disagreement > 0.01


def test_the_similarity_of_items_is_the_mean_cosine(model: CautiousModel) -> None:
    cosines = [
        float(F.cosine_similarity(encoding_ND[0], encoding_ND[1], dim=0))
        for encoding_ND in (member.encoder.items(torch.tensor([4, 9])) for member in model.members)
    ]
    one, other = model.item_embedding_ND[4], model.item_embedding_ND[9]
    assert float(one @ other) == pytest.approx(float(np.mean(cosines)), abs=1e-5)
    assert float(one @ one) == pytest.approx(1, abs=1e-5)


def test_the_loss_of_an_epoch_by_hand(data: SlateData, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over members of the responses' cross-entropy, and of choices against drawn items of equal weight."""
    config = ResponseTrainingConfig(
        model=ResponseModelConfig(**SIZES, dropout=0.0),
        caution=CautionConfig(num_members=2, num_negatives=3),
        stride=1,
        batch_windows=100_000,
        unknown_user_share=0.0,
    )
    model = build_model(config.sizes(data), data)
    assert isinstance(model, CautiousModel)
    rows, drawn = torch.nonzero(split_rows(data, config) == TRAIN).squeeze(1), list[Tensor]()
    randint = torch.randint

    def watched(*arguments: object, **named: object) -> Tensor:
        drawn.append(randint(*arguments, **named))  # type: ignore[call-overload]
        return drawn[-1]

    monkeypatch.setattr(torch, "randint", watched)
    log = TrainingLog.of(data, config)
    order = torch.randperm(len(log.windows), generator=torch_generator(0, "response model/epoch 0"))
    spans = [(int(log.windows.first_target[i]), int(log.windows.end[i])) for i in order]
    in_order = torch.cat([torch.arange(*span) for span in spans])
    in_order = in_order[torch.isin(in_order, rows)]
    request, losses = data.requests(in_order), []
    with torch.no_grad():
        states = [member.state_vectors(member.encoder(request)) for member in model.members]
        tables = [member.encoder.items.table() for member in model.members]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    loss = train_epoch(model, optimizer, log, 0, lambda *_: None)
    assert any(not torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    with torch.no_grad():
        model.load_state_dict(before)
        for member, vectors, table_ND, drawn_XC in zip(model.members, states, tables, drawn, strict=True):
            logit_XR = member.logits(vectors, table_ND[data.item_at(in_order)])
            response = F.binary_cross_entropy_with_logits(logit_XR[:, :-1], data.response_at(in_order))
            drawn_XC1 = torch.stack([member.logits(vectors, table_ND[item])[:, -1] for item in drawn_XC.T], dim=1)
            chosen_loss = -torch.sigmoid(logit_XR[:, -1]).log().mean()
            drawn_loss = -torch.sigmoid(-drawn_XC1).log().mean()
            losses.append(float(response + chosen_loss + drawn_loss))
    assert drawn[0].shape == (len(rows), 3)
    assert drawn[0].min() >= 1
    assert drawn[0].max() == data.num_items
    assert loss == pytest.approx(float(np.mean(losses)), rel=1e-4)


@pytest.fixture(scope="module")
def two_tastes(tmp_path_factory: pytest.TempPathFactory) -> tuple[SlateData, np.ndarray]:
    """Return a log of users with two tastes, and the probability with which each taste chooses each of 20 items.

    Everybody responds to whatever they choose with the same probability of 0.6.
    """
    rng = np.random.default_rng(0)
    first = rng.dirichlet(np.ones(20))
    share = np.stack([first, first[::-1]])
    user = np.repeat(np.arange(1, 401), 40)
    item = np.concatenate([rng.choice(20, 40, p=share[number % 2]) for number in range(1, 401)]) + 1
    columns = {"user": user, "item": item, "time": np.arange(len(user)), "click": rng.random(len(user)) < 0.6}
    out = tmp_path_factory.mktemp("two") / "tastes"
    prepare(Interactions(pl.DataFrame(columns), (Behaviour("click"),)), PrepareConfig(slate_size=3), out)
    return SlateData.open(out, history_length=20), share


def test_it_learns_how_much_likelier_a_choice_is_than_a_random_item(
    two_tastes: tuple[SlateData, np.ndarray], tmp_path: Path
) -> None:
    data, share = two_tastes
    config = ResponseTrainingConfig(
        model=ResponseModelConfig(history_length=20, num_layers=1, dropout=0.0),
        caution=CautionConfig(num_members=2, num_negatives=16, pessimism=2.0),
        num_epochs=4,
        stride=20,
        batch_windows=16,
    )
    manifest = train_response_model(data, config, tmp_path / "sim", rho=0.0)
    loaded, _ = load_simulator(tmp_path / "sim", data)
    assert isinstance(loaded, CautiousModel)
    assert loaded.pessimism == manifest.pessimism == 2.0
    row = torch.arange(data.num_rows)
    user_row, item_row = data.user_at(row), data.item_at(row)
    for taste in (0, 1):
        user_B = torch.arange(1, 400, 2) + 1 - taste  # users are numbered in the order of their ids
        state = loaded.encode(data.latest(user_B))
        item_BC = torch.arange(1, 21).expand(len(user_B), -1)
        count_N = torch.bincount(item_row[user_row % 2 == user_B[0] % 2], minlength=21)[1:]
        wanted = 20 * count_N / count_N.sum()  # as often as in the log, where chance has its share
        believed = (loaded.probabilities(state, item_BC)[:, :, 0] * loaded.trust(state, item_BC)).mean(dim=0)
        is_common = wanted > 0.2  # of rarer items there are too few rows
        torch.testing.assert_close(believed[is_common], (0.6 * wanted / (wanted + 2))[is_common], atol=0.06, rtol=0)
    is_above = (share[:, :, None] > share[:, None]) + 0.5 * np.eye(20)
    best = float((share[:, :, None] * is_above / 20).sum() / 2)
    assert best - 0.03 < manifest.choice_auc["test"] < best + 0.02


def test_it_learns_that_users_look_less_at_later_positions(tmp_path: Path) -> None:
    """The log odds of a click fall by 0.8 per position; what is shown where is random."""
    rng = np.random.default_rng(1)
    num_slates, appeal = 6000, rng.normal(0, 1, 20)
    share = rng.dirichlet(np.ones(20))  # early stopping also looks at choices
    item = np.stack([rng.choice(20, 4, replace=False, p=share) for _ in range(num_slates)])
    position = np.tile(np.arange(4), (num_slates, 1))
    probability = 1 / (1 + np.exp(-(1 + appeal[item] - 0.8 * position)))
    slate = np.repeat(np.arange(num_slates), 4)
    columns = {
        "user": slate % 300,
        "item": item.flatten(),
        "time": slate,
        "click": rng.random(4 * num_slates) < probability.flatten(),
        "slate": slate,
        "position": position.flatten() + 1,
    }
    log = Interactions(pl.DataFrame(columns), (Behaviour("click"),))
    prepare(log, PrepareConfig(slate_size=3), tmp_path / "data")
    data = SlateData.open(tmp_path / "data", history_length=10)
    config = ResponseTrainingConfig(
        model=ResponseModelConfig(**SIZES, dropout=0.0),
        caution=CautionConfig(num_members=2, num_negatives=1, pessimism=0.0),
        num_epochs=6,
        stride=10,
        learning_rate=5e-3,
    )
    train_response_model(data, config, tmp_path / "sim", rho=0.0)
    model, manifest = load_simulator(tmp_path / "sim", data)
    assert isinstance(model, CautiousModel)
    assert manifest.model["num_positions"] == 3
    learned_KR = torch.stack([member.examination(torch.arange(3)) for member in model.members]).mean(dim=0)
    assert learned_KR[0, 0] == 0
    assert float(learned_KR[1, 0] * model.calibration_2R[0, 0]) == pytest.approx(-0.8, abs=0.15)
    # The third and the fourth position count as one, at the end of a slate of three.
    assert -2.4 < float(learned_KR[2, 0] * model.calibration_2R[0, 0]) < -1.6
    state, slate_BK = model.encode(data.latest(torch.arange(1, 101))), torch.tensor([[5, 5, 5]]).expand(100, -1)
    shown_BK = model.slate_probabilities(state, slate_BK)[:, :, 0].logit()
    gaps_K = (shown_BK - shown_BK[:, :1]).mean(dim=0)
    torch.testing.assert_close(gaps_K, learned_KR[:, 0] * model.calibration_2R[0, 0], atol=1e-3, rtol=0)
    environment = UserEnvironment(data, model, EnvironmentConfig(num_users=100, rho=0.0, slate_size=3))
    raw_BKR = environment.outlook(data.latest(torch.arange(1, 101)), slate_BK).raw
    torch.testing.assert_close(raw_BKR[:, :, 0].logit(), shown_BK, atol=1e-4, rtol=0)


def test_shown_slates_are_predicted_from_the_history_before_them(tmp_path: Path) -> None:
    """User 1 is shown slates of items 1 and 2, then 5 and 4, then 1; the last row of a slate does not see the first."""
    data = prepared(tmp_path, position_column="pos")
    assert data.before_response(torch.arange(5)).tolist() == [0, 0, 2, 2, 4]
    config = ResponseTrainingConfig(
        model=ResponseModelConfig(**{**SIZES, "history_length": 4}, dropout=0.0),
        caution=CautionConfig(num_members=1),
        stride=1,
        unknown_user_share=0.0,
    )
    torch.manual_seed(0)
    model = build_model(config.sizes(data), data)
    assert isinstance(model, CautiousModel)
    (member,), row_N = model.members, torch.arange(data.num_rows)
    with torch.no_grad():
        member.later_positions.normal_()
        vectors = member.state_vectors(member.encoder(data.requests(torch.tensor([0, 0, 2, 2, 4]))))
        logit_NR = member.logits(vectors, member.encoder.items(data.item_at(row_N[:5])))[:, :-1]
        position_N = torch.tensor([0, 1, 0, 1, 0])
        expected_NR = logit_NR + position_N[:, None] * member.later_positions[0]
        torch.testing.assert_close(predict(model, data, row_N).logit_NR[:5], expected_NR, atol=1e-5, rtol=0)
        log = replace(TrainingLog.of(data, config), is_train_row=torch.ones(data.num_rows, dtype=torch.bool))
        targets = window_targets(log, torch.tensor([0]), torch.Generator().manual_seed(0))
        assert targets is not None
        window_NR, _ = window_logits(member, targets)
    torch.testing.assert_close(window_NR[:5, :-1], logit_NR, atol=1e-5, rtol=0)
    assert targets.position_X is not None
    assert targets.position_X.tolist() == position_N.tolist()


def test_support_bins_by_hand(data: SlateData, model: CautiousModel) -> None:
    config = ResponseTrainingConfig(model=ResponseModelConfig(**SIZES), stride=5)
    is_train_row = split_rows(data, config) == TRAIN
    row_N = torch.nonzero(split_rows(data, config) == TEST).squeeze(1)
    probability_NR = torch.rand(len(row_N), len(data.behaviours), generator=torch.Generator().manual_seed(0))
    bins = support_bins(data, is_train_row, row_N, probability_NR, model.with_pessimism(3))
    items = data.item_at(torch.arange(data.num_rows))
    counts = {item: int((items[is_train_row] == item).sum()) for item in range(1, data.num_items + 1)}
    assert sum(part.num_items for part in bins) == data.num_items
    assert sum(part.num_rows for part in bins) == len(row_N)
    assert [(part.fewest, part.most) for part in bins][-2:] == [(100, 499), (500, None)]
    assert sum(part.num_rows > 0 for part in bins) > 1
    state = model.encode(data.requests(row_N))
    for part in bins:
        mine = [item for item, count in counts.items() if part.fewest <= count <= (part.most or math.inf)]
        assert part.num_items == len(mine)
        is_mine = torch.isin(data.item_at(row_N), torch.tensor(mine, dtype=torch.int64))
        assert part.num_rows == int(is_mine.sum())
        if part.num_rows:
            expected = dict(zip(data.behaviours, probability_NR[is_mine].mean(dim=0).tolist(), strict=True))
            assert part.predicted == pytest.approx(expected, abs=1e-6)
            observed = data.response_at(row_N[is_mine]).mean(dim=0).tolist()
            assert part.observed == pytest.approx(dict(zip(data.behaviours, observed, strict=True)), abs=1e-6)
        if not mine:
            assert part.disagreement is part.trust is None
            continue
        item_BC = torch.tensor(mine).expand(len(row_N), -1)
        assert part.disagreement == pytest.approx(
            float(model.disagreement(state, item_BC, data.weight_R).mean()), rel=0.1
        )
        ratio = model._logits(state, item_BC).mean(dim=0)[:, :, -1].exp()
        assert part.trust == pytest.approx(float((ratio / (ratio + 3)).mean()), rel=0.1)


def test_the_papers_model_has_support_bins_without_disagreement(data: SlateData, tmp_path: Path) -> None:
    config = ResponseTrainingConfig(model=ResponseModelConfig(**SIZES), num_epochs=1, stride=5)
    train_response_model(data, config, tmp_path / "sim", rho=0.2)
    manifest = read_simulator_manifest(tmp_path / "sim")
    assert (manifest.kind, manifest.pessimism, manifest.choice_auc) == ("response model", 0.0, {})
    assert sum(part.num_rows for part in manifest.support) > 0
    assert all(part.disagreement is part.trust is None for part in manifest.support)


def test_choices_count_as_one_more_behaviour(data: SlateData, model: CautiousModel) -> None:
    row_N = torch.arange(0, data.num_rows, 7)
    predictions = predict(model, data, row_N)
    assert predictions.choice_N2 is not None
    for place in (0, 5):
        row = int(row_N[place])
        logit = logits_by_hand(model, data, row, int(data.item_at(row_N[place]))).mean(dim=0)
        torch.testing.assert_close(predictions.logit_NR[place], logit[:-1], atol=1e-5, rtol=1e-4)
        assert float(predictions.choice_N2[place, 0]) == pytest.approx(float(logit[-1]), abs=1e-5)
    chosen, drawn = predictions.choice_N2.T
    by_hand = float(((chosen[:, None] > drawn) + 0.5 * (chosen[:, None] == drawn)).mean())
    assert predictions.choice_auc() == pytest.approx(by_hand)
    num_positive_R = predictions.label_NR.sum(dim=0)
    weights = torch.minimum(num_positive_R, len(row_N) - num_positive_R).tolist()
    terms = [*zip(predictions.auc(), weights, strict=True), (by_hand, float(len(row_N)))]
    mean = sum(value * weight for value, weight in terms if weight) / sum(weight for _, weight in terms)
    assert predictions.mean_auc() == pytest.approx(mean)

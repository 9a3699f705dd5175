"""The published response model: its quirks with small weights, and its AUC where weights and data are available."""

import pickle
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import torch
from safetensors.torch import save_file

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Behaviour, Feature, FeatureTable, Interactions
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.errors import UserError
from gfn4rec.schema import Request
from gfn4rec.simulator.checkpoint import load_simulator
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.reference import ReferenceConfig, ReferenceModel, read_reference
from gfn4rec.training.reference_import import import_reference

SIZES = ReferenceConfig(
    enc_dim=8, user_latent_dim=4, item_latent_dim=4, attn_n_head=4, transformer_d_forward=6, state_hidden_dims=(10,)
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> SlateData:
    """A log with the features and behaviours of MovieLens."""
    rows = [
        (user, (user * 7 + time * 3) % 20, time, time % 2, time % 3 == 0, time % 5 == 0)
        for user in range(6)
        for time in range(40)
    ]
    log = pl.DataFrame(rows, schema=["user", "item", "time", "click", "like", "star"], orient="row")
    users = pl.LazyFrame({"id": range(6), "gender": ["F", "M"] * 3, "age": ["1", "18", "25"] * 2})
    items = pl.LazyFrame({"id": range(20), "genres": [["a"], ["a", "b"], ["c"], ["b"]] * 5})
    interactions = Interactions(
        log,
        (Behaviour("click"), Behaviour("like"), Behaviour("star")),
        users=FeatureTable(users, (Feature("gender", "categorical"), Feature("age", "categorical"))),
        items=FeatureTable(items, (Feature("genres", "multi"),)),
    )
    out = tmp_path_factory.mktemp("reference") / "data"
    prepare(interactions, PrepareConfig(core=1), out, "movies")
    return SlateData.open(out)


@pytest.fixture
def model(data: SlateData) -> ReferenceModel:
    torch.manual_seed(0)
    return ReferenceModel(data.num_users, data.num_items, 3, data.user_features, data.item_features, SIZES).freeze()


def test_items_are_encoded_from_id_and_genres(data: SlateData, model: ReferenceModel) -> None:
    item = 4
    genres = torch.zeros(3)
    for index in data.item_features.multi["genres"][item]:
        if index >= 2:
            genres[index - 2] = 1
    norm, kernel = model.itemEmbNorm, model.itemFeatureKernel
    expected = model.encNorm(kernel(norm(model.iIDEmb.weight[item])) + kernel(norm(model.IFEmb_genres(genres))))
    torch.testing.assert_close(model._item_encoding_ND[item], expected)
    clamped = expected.clamp(-1, 1)
    other = model._item_encoding_ND[7].clamp(-1, 1)
    similarity = model.item_embedding_ND[item] @ model.item_embedding_ND[7]
    torch.testing.assert_close(similarity, (clamped * other).mean())


def test_responses_are_scrambled_as_published(data: SlateData, model: ReferenceModel) -> None:
    """Sequences per behaviour are joined end to end and read as triples: a known quirk that must not be fixed."""
    request = data.requests(torch.tensor([60, 100]))
    seen = []
    hook = model.feedbackEncoder.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    model.encode(request)
    hook.remove()
    joined = torch.cat([request.response_BHR[:, :, b] for b in range(3)], dim=1)
    assert torch.equal(seen[0], joined.view(2, 50, 3))


def test_the_last_position_is_that_of_the_whole_transformer(model: ReferenceModel) -> None:
    tokens = torch.randn(4, 50, 16, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(50, 50, dtype=torch.bool).triu(diagonal=1)
    whole = model.transformer(tokens, mask=mask)[:, -1]
    torch.testing.assert_close(model._last_position(tokens), whole, atol=1e-5, rtol=0)


def test_padding_is_not_masked(data: SlateData, model: ReferenceModel) -> None:
    request = data.requests(torch.tensor([3]))
    changed = Request(request.user_B, request.history_BH, request.response_BHR.clone())
    changed.response_BHR[0, 0] = 1.0  # the response at padding matters to this model
    assert not torch.allclose(model.encode(request), model.encode(changed))


def test_scores_take_the_larger_ensemble_and_clamp_only_in_the_environment(
    data: SlateData, model: ReferenceModel
) -> None:
    state = model.encode(data.requests(torch.tensor([60])))
    item = torch.tensor([[5]])
    encoding = model._item_encoding_ND[5]
    for behaviour in range(3):
        pair = state[0, 2 * behaviour : 2 * behaviour + 2]
        torch.testing.assert_close(model.logits(state, item)[0, 0, behaviour], (pair * encoding).mean(dim=1).max())
        clamped = torch.sigmoid((pair * encoding.clamp(-1, 1)).mean(dim=1).max())
        torch.testing.assert_close(model.probabilities(state, item)[0, 0, behaviour], clamped)


def test_influence_includes_the_item_itself(data: SlateData, model: ReferenceModel) -> None:
    env = UserEnvironment(data, model, EnvironmentConfig(num_users=2, slate_size=3, rho=0.2))
    slate = torch.tensor([[1, 2, 3], [4, 5, 6]])
    vector = model._item_encoding_ND[slate].clamp(-1, 1)
    expected = torch.einsum("bkd,bjd->bkj", vector, vector).div(8).mean(dim=2)
    torch.testing.assert_close(env.step(slate).similarity_BK, expected)


@pytest.mark.parametrize("form", ["folder", "safetensors", "state_dict", "checkpoint"])
def test_weights_are_read_from_every_form_they_come_in(
    data: SlateData, model: ReferenceModel, tmp_path: Path, form: str
) -> None:
    weights = model.state_dict()
    path = tmp_path / "model.safetensors"
    if form in ("folder", "safetensors"):
        save_file(weights, path)
        path = tmp_path if form == "folder" else path
    else:
        path = tmp_path / "model.checkpoint"
        torch.save(weights if form == "state_dict" else {"epoch": 3, "model_state_dict": weights}, path)
    loaded = read_reference(path, data)
    assert loaded.config == SIZES
    request = data.requests(torch.tensor([60, 100]))
    torch.testing.assert_close(loaded.encode(request), model.encode(request))


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(data: SlateData, tmp_path: Path) -> None:
    trace = tmp_path / "it ran"
    for save in (
        lambda value, path: torch.save(value, path),
        lambda value, path: path.write_bytes(pickle.dumps(value)),
    ):
        path = tmp_path / "evil.checkpoint"
        save(Malicious(trace), path)
        with pytest.raises(UserError, match="evil.checkpoint: refused; not a plain PyTorch checkpoint"):
            read_reference(path, data)
        assert not trace.exists()


def test_weights_that_do_not_fit_are_refused(data: SlateData, model: ReferenceModel, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for change, message in (
        (
            {"iIDEmb.weight": torch.zeros(5, 4)},
            "'iIDEmb.weight' has shape \\(5, 4\\), but the data set needs \\(21, 4\\)",
        ),
        ({"encNorm.bias": torch.full((8,), torch.nan)}, "'encNorm.bias' holds NaN or infinite values"),
        ({"extra": torch.zeros(1)}, "has an unknown tensor 'extra'"),
    ):
        save_file(weights | change, path)
        with pytest.raises(UserError, match=message):
            read_reference(path, data)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(UserError, match="lacks 'encNorm.weight'; it is not the published response model"):
        read_reference(path, data)
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(UserError, match="not a complete file of weights"):
        read_reference(path, data)
    with pytest.raises(UserError, match="no such file"):
        read_reference(tmp_path / "nowhere.safetensors", data)


def test_an_imported_simulator_is_loaded_again(data: SlateData, model: ReferenceModel, tmp_path: Path) -> None:
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    manifest = import_reference(tmp_path, data, tmp_path / "sim", rho=0.2)
    loaded, again = load_simulator(tmp_path / "sim", data)
    assert again == manifest
    request = data.requests(torch.tensor([60]))
    torch.testing.assert_close(loaded.encode(request), model.encode(request))


def test_the_published_auc(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """Validation AUC 0.8055, 0.7740, 0.7782, measured independently on 28,060 rows."""
    weights = real_data("reference-simulator-ml1m")
    from gfn4rec.data.read import ReadOptions, read_data

    prepare(read_data("ml-1m", ReadOptions(raw=real_data("ml-1m"))), PrepareConfig(), tmp_path / "data", "ml-1m")
    manifest = import_reference(weights, SlateData.open(tmp_path / "data"), tmp_path / "sim", rho=0.2)
    metrics = manifest.metrics["val"]
    assert {metric.num_rows for metric in metrics.values()} == {28_060}
    for name, expected in (("click", 0.8055), ("like", 0.7740), ("star", 0.7782)):
        assert metrics[name].auc == pytest.approx(expected, abs=0.001)

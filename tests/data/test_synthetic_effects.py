"""The presets with list effects: their truth is written out here, and their logs follow it."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Interactions
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, GroundTruth, SyntheticConfig, SyntheticOrigin, generate
from gfn4rec.simulator.categories import ItemCategories
from gfn4rec.simulator.truth import bayes_auc

EFFECTS = {"saturation": 0.4, "complements": 0.5, "position_decay": 0.15, "cascade": 0.5}
NAMES = {"saturation": "saturation", "complements": "complements", "decay": "position_decay", "cascade": "cascade"}


@pytest.fixture(scope="module", params=sorted(NAMES))
def drawn(request: pytest.FixtureRequest) -> tuple[GroundTruth, Interactions]:
    return generate(PRESETS[request.param], seed=2)


def visits(interactions: Interactions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """User, progress and slate of each visit, read back from the log."""
    user = interactions.log["user"].to_numpy().reshape(-1, 6)[:, 0] - 1
    slate = interactions.log["item"].to_numpy().reshape(-1, 6) - 1
    count = np.bincount(user)
    position = np.arange(len(user)) - np.repeat(np.cumsum(count) - count, count)
    return user, ((position + 0.5) / count[user]).astype(np.float32), slate


def test_each_preset_has_its_effect_and_no_other() -> None:
    for name, effect in NAMES.items():
        values = PRESETS[name].model_dump(include=set(EFFECTS))
        assert values == {effect: EFFECTS[effect]}  # what is off is not even written
        others = PRESETS[name].model_copy(update={effect: 0.0})
        assert others == PRESETS["small"]
    assert not set(EFFECTS) & set(PRESETS["small"].model_dump())


def test_the_truth_by_hand() -> None:
    """Three items of the categories 0, 0 and 1, each of which a user likes with the probability 0.5."""
    config = PRESETS["tiny"].model_copy(update=EFFECTS | {"affinity": 0.0, "similarity": 0.0})
    truth = GroundTruth(
        config=config,
        item_category=np.array([0, 0, 1, 3]),
        item_factor=np.eye(4, dtype=np.float32),
        item_quality=np.zeros(4, dtype=np.float32),
        item_popularity=np.ones(4) / 4,
        user_category=np.zeros((1, 2), dtype=np.int64),
        user_start=np.eye(1, 4, dtype=np.float32),
        user_end=np.eye(1, 4, dtype=np.float32),
        bias=np.zeros(2, dtype=np.float32),
    )
    user, start = np.array([0]), np.array([0.0], dtype=np.float32)
    attraction = truth.attraction(user, start, np.array([[0, 1, 2]]))[0]
    assert attraction[:, 0].tolist() == pytest.approx([0.75, 0.45, 0.75])
    looked = [1.0]
    for worth in (0.75, 0.45):
        looked.append(looked[-1] * 0.85 * (1 - 0.5 * (1 - (1 - worth) ** 2)))
    wanted = [worth * look for worth, look in zip([0.75, 0.45, 0.75], looked, strict=True)]
    assert truth.probabilities(user, start, np.array([[0, 1, 2]]))[0, :, 1].tolist() == pytest.approx(wanted)
    alone = truth.attraction(user, start, np.array([[2, 3]]))[0]  # 1 is the partner of 0, and 3 that of 2
    assert alone[:, 1].tolist() == pytest.approx([0.5, 0.5])
    only = GroundTruth(**{**truth.__dict__, "config": config.model_copy(update={"saturation": 0.0})})
    assert only.attraction(user, start, np.array([[0, 1, 2]]))[0, :, 0].tolist() == [0.75, 0.75, 0.75]
    strong = GroundTruth(**{**truth.__dict__, "config": config.model_copy(update={"complements": 3.0})})
    assert strong.attraction(user, start, np.array([[2, 0]]))[0, :, 0].tolist() == [1.0, 1.0]  # clipped


def test_responses_follow_the_true_probabilities(drawn: tuple[GroundTruth, Interactions]) -> None:
    truth, interactions = drawn
    probability = truth.probabilities(*visits(interactions)).astype(np.float64)
    names = [behaviour.name for behaviour in interactions.behaviours]
    response = interactions.log.select(names).to_numpy().reshape(probability.shape)
    for place in range(6):
        for number in range(2):  # click and like; the others are rare
            p, y = probability[:, place, number], response[:, place, number]
            assert abs(y.sum() - p.sum()) < 4 * math.sqrt((p * (1 - p)).sum())


@pytest.mark.parametrize("name", ["decay", "cascade"])
def test_who_stops_responds_to_nothing_later(name: str) -> None:
    """The counts of responses at both of two positions are those of users who stop, not of independent ones."""
    truth, interactions = generate(PRESETS[name], seed=2)
    config, log = truth.config, interactions.log
    attraction = truth.attraction(*visits(interactions)).astype(np.float64)
    responds = 1 - (1 - attraction).prod(axis=2)
    response = log.select(behaviour.name for behaviour in interactions.behaviours).to_numpy()
    did = np.asarray(response.reshape(attraction.shape).any(axis=2))
    p = responds[:, 0] * (1 - config.position_decay) * (1 - config.cascade) * responds[:, 1]
    assert abs((did[:, 0] & did[:, 1]).sum() - p.sum()) < 4 * math.sqrt((p * (1 - p)).sum())
    if name == "decay":  # nor does a later stop depend on responses
        keep = 1 - config.position_decay
        p = responds[:, 1] * keep * responds[:, 2] * keep
        assert abs((did[:, 1] & did[:, 2]).sum() - p.sum()) < 4 * math.sqrt((p * (1 - p)).sum())


def test_the_log_says_what_was_shown_together(drawn: tuple[GroundTruth, Interactions], tmp_path: Path) -> None:
    truth, interactions = drawn
    log = interactions.log
    assert log["slate"].to_list() == [row // 6 + 1 for row in range(log.height)]
    assert log["position"].to_list() == [row % 6 + 1 for row in range(log.height)]
    manifest = prepare(interactions, PrepareConfig(), tmp_path / "data", "embedded")
    counts = manifest.statistics
    assert (counts.items, counts.short_slates) == (400, 0)  # the default filter leaves slates whole
    assert counts.rows == 6 * counts.shown_slates > 0.99 * log.height
    data = SlateData.open(tmp_path / "data")
    assert data.has_positions
    assert SyntheticOrigin.parse(data.manifest.origin, "origin").world == truth.config
    assert bayes_auc(data, torch.arange(2_000)) is not None


def test_simulators_know_the_same_categories_and_complements(tmp_path: Path) -> None:
    """As far as an item states its category, the simulator's effects go by the same pairs of items as the truth."""
    truth, interactions = generate(PRESETS["complements"], seed=2)
    prepare(interactions, PrepareConfig(), tmp_path / "data", "embedded")
    data = SlateData.open(tmp_path / "data")
    value = ItemCategories.of(data).value_NM[1:, 0].numpy()
    true = truth.item_category[data.items["id"].to_numpy() - 1] + 1
    is_stated = value > 0
    assert 0.95 < is_stated.mean() < 1
    assert (value[is_stated] == true[is_stated]).all()


def test_the_presets_without_effects_are_as_they_were() -> None:
    """Their logs have no columns of slates, and their manifests no settings of effects; results hang on their bytes."""
    interactions = generate(PRESETS["tiny"])[1]
    assert interactions.log.columns == ["user", "item", "time", "click", "like", "share", "hate"]
    world = interactions.origin["world"]
    assert isinstance(world, dict)
    assert "similarity" in world
    assert not set(world) & set(EFFECTS)
    assert SyntheticConfig.parse(world, "origin") == PRESETS["tiny"]

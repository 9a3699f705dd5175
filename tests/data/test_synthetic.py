"""The synthetic log follows its ground truth."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from gfn4rec.data.interactions import Interactions
from gfn4rec.data.kuairand_files import write_kuairand
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.read import ReadOptions, read_data
from gfn4rec.data.synthetic import PRESETS, GroundTruth, SyntheticConfig, generate
from gfn4rec.errors import UserError


@pytest.fixture(scope="module")
def small() -> tuple[GroundTruth, Interactions]:
    return generate(PRESETS["small"], seed=3)


def shown(truth: GroundTruth, interactions: Interactions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """User, progress and slate of each visit, read back from the log."""
    size = truth.config.slate_size
    user = interactions.log["user"].to_numpy().reshape(-1, size)[:, 0] - 1
    slate = interactions.log["item"].to_numpy().reshape(-1, size) - 1
    count = np.bincount(user)
    position = np.arange(len(user)) - np.repeat(np.cumsum(count) - count, count)
    return user, ((position + 0.5) / count[user]).astype(np.float32), slate


def test_responses_follow_the_true_probabilities(small: tuple[GroundTruth, Interactions]) -> None:
    truth, interactions = small
    probability = truth.probabilities(*shown(truth, interactions)).reshape(-1, len(truth.bias))
    response = interactions.log.select(behaviour.name for behaviour in interactions.behaviours).to_numpy()
    for number, behaviour in enumerate(truth.config.behaviours):
        p, y = probability[:, number].astype(np.float64), response[:, number]
        assert abs(y.mean() - behaviour.rate) < 0.1 * behaviour.rate + 0.001
        # In each tenth by true probability, the count of responses is a sum of known coin flips.
        for part in np.array_split(np.argsort(p), 10):
            deviation = np.sqrt((p[part] * (1 - p[part])).sum())
            assert abs(y[part].sum() - p[part].sum()) < 4 * deviation + 1


def test_probabilities_by_hand() -> None:
    config = PRESETS["tiny"].model_copy(update={"affinity": 2.0, "similarity": 3.0, "drift": 0.5})
    factor = np.eye(3, 2, dtype=np.float32)  # items 0 and 1 at right angles, item 2 nowhere
    truth = GroundTruth(
        config=config,
        item_category=np.zeros(3, dtype=np.int64),
        item_factor=factor,
        item_quality=np.array([0.1, 0.2, 0.3], dtype=np.float32),
        item_popularity=np.ones(3) / 3,
        user_category=np.zeros((1, 2), dtype=np.int64),
        user_start=np.array([[1.0, 0.0]], dtype=np.float32),
        user_end=np.array([[0.0, 1.0]], dtype=np.float32),
        bias=np.array([-1.0], dtype=np.float32),
    )
    user, start, end = np.array([0]), np.array([0.0], dtype=np.float32), np.array([1.0], dtype=np.float32)

    def logit(progress: np.ndarray, slate: list[int]) -> np.ndarray:
        p = truth.probabilities(user, progress, np.array([slate]))[0, :, 0]
        return np.asarray(np.log(p / (1 - p)))

    assert logit(start, [0, 1]) == pytest.approx([1.1, -0.8], abs=2e-4)  # -1 + 2 * (1, 0) + quality, no similarity
    halfway = round(-1 + 2 * 2**-0.5, 4)  # the interest has turned by half of a right angle
    assert logit(end, [0, 1]) == pytest.approx([halfway + 0.1, halfway + 0.2], abs=2e-4)
    assert logit(start, [0, 0]) == pytest.approx([1.1 - 3, 1.1 - 3], abs=2e-4)  # two of a kind


def test_popularity_is_skewed_interest_drifts_and_slates_are_distinct(small: tuple[GroundTruth, Interactions]) -> None:
    truth, interactions = small
    user, progress, slate = shown(truth, interactions)
    assert all(len(set(row)) == truth.config.slate_size for row in slate.tolist())
    counts = np.sort(np.bincount(slate.ravel(), minlength=truth.config.num_items))[::-1]
    assert counts.min() >= 1  # every item is shown
    assert counts[:40].sum() > 0.3 * slate.size  # the first tenth has far more than a tenth
    first, last = truth.user_category[user, 0, None], truth.user_category[user, 1, None]
    moved = (first != last).ravel()
    category = truth.item_category[slate]

    def share(wanted: np.ndarray, when: np.ndarray) -> float:
        return float((category == wanted)[moved & when].mean())

    early, late = progress < 0.2, progress > 0.8
    assert share(first, early) > 2 * share(first, late)
    assert share(last, late) > 2 * share(last, early)


def test_a_similar_slate_is_answered_less(small: tuple[GroundTruth, Interactions]) -> None:
    truth, _ = small
    alike = np.flatnonzero(truth.item_category == truth.item_category[0])[:6]
    mixed = np.array([alike[0], *(np.flatnonzero(truth.item_category == c)[0] for c in range(1, 6))])
    user, start = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.float32)
    among_alike = truth.probabilities(user, start, alike[None])[0, 0, 0]
    among_mixed = truth.probabilities(user, start, mixed[None])[0, 0, 0]
    assert among_alike < among_mixed


def test_the_seed_decides_everything() -> None:
    first, same, other = (generate(PRESETS["tiny"], seed)[1] for seed in (1, 1, 2))
    assert first.log.equals(same.log)
    assert not first.log.equals(other.log)
    assert first.items is not None
    assert same.items is not None
    assert first.items.frame.collect().equals(same.items.frame.collect())


def test_presets_have_their_sizes() -> None:
    kr1k = PRESETS["kr1k"]
    assert (kr1k.num_users, kr1k.num_items, kr1k.num_rows) == (1_000, 4_369_953, 11_713_045)
    ml1m = PRESETS["ml1m"]
    assert (ml1m.num_users, ml1m.num_items, ml1m.num_rows) == (6_040, 3_706, 1_000_209)
    log = generate(PRESETS["small"])[1].log
    assert abs(log.height - PRESETS["small"].num_rows) < 0.01 * log.height
    with pytest.raises(ValidationError, match="a slate of 6 distinct items needs as many items, not 5"):
        SyntheticConfig(num_users=1, num_items=5, num_rows=10, behaviours=PRESETS["tiny"].behaviours)


def test_the_kuairand_layout_comes_back_as_it_was_written(tmp_path: Path) -> None:
    config = PRESETS["kr1k"].model_copy(update={"num_users": 30, "num_items": 40, "num_rows": 3_000})
    interactions = generate(config, seed=5)[1]
    write_kuairand(interactions, tmp_path / "raw")
    back = read_data("kuairand-1k", ReadOptions(raw=tmp_path / "raw"))
    key = ["user", "time"]
    assert back.log.sort(key, maintain_order=True).equals(interactions.log.sort(key, maintain_order=True))
    assert [file.num_rows > 0 for file in back.raw_files] == [True, True, False, False]
    log = pl.read_csv(tmp_path / "raw" / "log_standard_4_22_to_5_08_1k.csv")
    assert len(log.columns) == 19
    assert log["date"].min() == 20220422
    manifest = prepare(back, PrepareConfig(core=5), tmp_path / "out", "kuairand-1k")
    tag = next(feature for feature in manifest.item_features if feature.name == "tag")
    assert tag.vocabulary
    assert tag.num_unknown == 0
    with pytest.raises(UserError, match="KuaiRand's layout needs the behaviour 'view'"):
        write_kuairand(generate(PRESETS["tiny"])[1], tmp_path / "raw")

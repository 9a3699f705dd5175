"""The embedded data set: a synthetic log whose true response probabilities are known.

Items belong to categories and have latent factors, a quality, and a popularity that follows a power law. The interest
of a user drifts from one category to another over the log. Slates of K items are drawn partly by popularity and partly
from the current interest. Responses are independent, with the probability

    sigmoid(bias_b + affinity * <interest, factor> + quality - similarity * mean cosine to the slate's other items)

so `GroundTruth` gives the probability of every response exactly. Some presets have further list effects, which change
these probabilities (`synthetic_effects.py`); their logs say what was shown together, and where.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field, model_validator

from gfn4rec.config import StrictConfig
from gfn4rec.data.interactions import Behaviour, Feature, FeatureTable, Interactions
from gfn4rec.data.synthetic_effects import LoggedEffects, examination, stopped, with_categories
from gfn4rec.seeding import numpy_generator

Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]

_START_MS, _END_MS = 1_649_376_000_000, 1_651_968_000_000  # 8 April to 8 May 2022
_CHUNK_SLATES = 1 << 17
_CALIBRATION_SLATES = 4096
_UNKNOWN_SHARE = 0.01  # of items without a category, so that `unknown` occurs


class SyntheticBehaviour(StrictConfig):
    """A behaviour, the share of rows that show it, and its weight."""

    name: str
    rate: float = Field(gt=0, lt=1)
    weight: float = 1.0


class SyntheticConfig(LoggedEffects):
    """The size of a synthetic log, and the parameters of the model that draws it.

    The rate of a behaviour is that among items which users look at, without the list effects of `LoggedEffects`.
    """

    num_users: int = Field(ge=1)
    num_items: int = Field(ge=1)
    num_rows: int = Field(ge=1)  # of the whole log, rounded to whole slates
    behaviours: tuple[SyntheticBehaviour, ...]
    slate_size: int = Field(default=6, ge=2)
    num_categories: int = Field(default=12, ge=2)
    dim: int = Field(default=8, ge=2)  # width of the latent factors
    popularity_exponent: float = 0.8  # popularity of an item ~ rank ** -exponent
    interest_share: float = Field(default=0.5, ge=0, le=1)  # of slots; the others are filled by popularity
    drift: float = Field(default=0.8, ge=0, le=1)  # how far the interest has moved by the end of a log
    affinity: float = 2.5  # weight of <interest, factor> in the logit
    similarity: float = 1.0  # weight of the mean cosine to the other items of the slate

    @model_validator(mode="after")
    def _check_catalogue(self) -> Self:
        if self.num_items < self.slate_size:
            raise ValueError(f"a slate of {self.slate_size} distinct items needs as many items, not {self.num_items}")
        return self


def _behaviours(**rates: float) -> tuple[SyntheticBehaviour, ...]:
    return tuple(
        SyntheticBehaviour(name=name, rate=rate, weight=-1.0 if name == "hate" else 1.0) for name, rate in rates.items()
    )


_PLAIN = _behaviours(click=0.45, like=0.12, share=0.015, hate=0.004)
_SMALL = SyntheticConfig(num_users=600, num_items=400, num_rows=60_000, behaviours=_PLAIN)
PRESETS = {
    "tiny": SyntheticConfig(num_users=80, num_items=60, num_rows=4_800, num_categories=6, behaviours=_PLAIN),
    "small": _SMALL,
    "saturation": _SMALL.model_copy(update={"saturation": 0.4}),
    "complements": _SMALL.model_copy(update={"complements": 0.5}),
    "decay": _SMALL.model_copy(update={"position_decay": 0.15}),
    "cascade": _SMALL.model_copy(update={"cascade": 0.5}),
    "ml1m": SyntheticConfig(
        num_users=6_040,
        num_items=3_706,
        num_rows=1_000_209,
        num_categories=18,
        behaviours=_behaviours(click=0.84, like=0.57, star=0.23),
    ),
    "kr1k": SyntheticConfig(
        num_users=1_000,
        num_items=4_369_953,
        num_rows=11_713_045,
        num_categories=40,
        popularity_exponent=0.8,
        behaviours=_behaviours(
            click=0.38, view=0.27, like=0.015, comment=0.0025, forward=0.001, follow=0.0012, hate=0.0004
        ),
    ),
}


@dataclass(frozen=True)
class GroundTruth:
    """The model that a log is drawn from. Users and items count from 0 here; their ids in the log are one higher."""

    config: SyntheticConfig
    item_category: Ints
    item_factor: Floats
    item_quality: Floats
    item_popularity: npt.NDArray[np.float64]  # shares, summing to 1
    user_category: Ints  # (U, 2): of the interest at the start and at the end
    user_start: Floats
    user_end: Floats
    bias: Floats

    def interest(self, user: Ints, progress: Floats) -> Floats:
        """Return the interest of users at a point of their log: 0 is its beginning, 1 its end."""
        moved = (self.config.drift * progress)[:, None]
        return _normalised((1 - moved) * self.user_start[user] + moved * self.user_end[user])

    def logits(self, user: Ints, progress: Floats, slate: Ints) -> Floats:
        """Return the logits without the bias, which all behaviours share, for each item of each slate."""
        factor = self.item_factor[slate]
        affinity = np.einsum("nd,nkd->nk", self.interest(user, progress), factor)
        others = factor.sum(axis=1, keepdims=True) - factor
        similarity = np.einsum("nkd,nkd->nk", factor, others) / (slate.shape[1] - 1)
        config = self.config
        logits: Floats = config.affinity * affinity + self.item_quality[slate] - config.similarity * similarity
        return logits

    def attraction(self, user: Ints, progress: Floats, slate: Ints) -> Floats:
        """Return the probability of each behaviour for each item of each slate if the user looks at it, (n, K, R)."""
        probability = _sigmoid(self.logits(user, progress, slate)[:, :, None] + self.bias)
        return with_categories(probability, self.item_category[slate], self.config)

    def probabilities(self, user: Ints, progress: Floats, slate: Ints) -> Floats:
        """Return the true probability of each behaviour for each item of each slate, (n, K, R)."""
        attraction = self.attraction(user, progress, slate)
        if not self.config.has_stops:
            return attraction
        return attraction * examination(attraction, self.config)[:, :, None]


class SyntheticOrigin(StrictConfig):
    """What a manifest stores of a synthetic log, enough to draw it again."""

    seed: int
    world: SyntheticConfig


def generate(config: SyntheticConfig, seed: int = 0) -> tuple[GroundTruth, Interactions]:
    """Draw a ground truth and a log from it. The same seed gives the same of both."""
    drawn = _draw_truth(config, seed)
    user, progress, time = _visits(config, seed)
    slate = _exposures(drawn, user, progress, seed)
    truth = _calibrated(drawn, user, progress, slate, seed)
    response = _responses(truth, user, progress, slate, seed)
    names = [behaviour.name for behaviour in config.behaviours]
    log = pl.DataFrame(
        {"user": np.repeat(user + 1, config.slate_size), "item": (slate + 1).ravel(), "time": time.ravel()}
        | {name: response[:, position] for position, name in enumerate(names)}
        | (_shown(slate.shape) if config.has_effects else {})
    )
    interactions = Interactions(
        log=log,
        behaviours=tuple(Behaviour(behaviour.name, behaviour.weight) for behaviour in config.behaviours),
        users=_user_table(truth, seed),
        items=_item_table(truth, seed),
        origin=SyntheticOrigin(seed=seed, world=config).model_dump(mode="json"),
    )
    return truth, interactions


def true_probabilities(config: SyntheticConfig, seed: int) -> pl.DataFrame:
    """Return user, item, time and the true probability of each behaviour for every row that `generate` draws."""
    truth, interactions = generate(config, seed)
    user, progress, _ = _visits(config, seed)
    slate = interactions.log["item"].to_numpy().reshape(-1, config.slate_size) - 1
    probability = truth.probabilities(user, progress, slate).reshape(-1, len(config.behaviours))
    columns = [pl.Series(behaviour.name, probability[:, number]) for number, behaviour in enumerate(config.behaviours)]
    return interactions.log.select("user", "item", "time").with_columns(columns)


def _draw_truth(config: SyntheticConfig, seed: int) -> GroundTruth:
    rng = numpy_generator(seed, "synthetic/world")
    centre = _normalised(rng.standard_normal((config.num_categories, config.dim), dtype=np.float32))
    category_share = np.arange(1, config.num_categories + 1) ** -0.5
    item_category = rng.choice(config.num_categories, config.num_items, p=category_share / category_share.sum())
    popularity = np.arange(1, config.num_items + 1) ** -config.popularity_exponent
    rng.shuffle(popularity)
    user_category = rng.integers(config.num_categories, size=(config.num_users, 2))

    def around(category: Ints, spread: float) -> Floats:
        noise = rng.standard_normal((len(category), config.dim), dtype=np.float32) * np.float32(spread)
        return _normalised(centre[category] + noise)

    return GroundTruth(
        config=config,
        item_category=item_category,
        item_factor=around(item_category, 0.2),
        item_quality=0.5 * rng.standard_normal(config.num_items, dtype=np.float32),
        item_popularity=popularity / popularity.sum(),
        user_category=user_category,
        user_start=around(user_category[:, 0], 0.2),
        user_end=around(user_category[:, 1], 0.2),
        bias=np.zeros(len(config.behaviours), dtype=np.float32),
    )


def _visits(config: SyntheticConfig, seed: int) -> tuple[Ints, Floats, Ints]:
    """Draw user and progress of each slate and the times of its items, ordered by user, then time."""
    rng = numpy_generator(seed, "synthetic/visits")
    activity = rng.lognormal(sigma=0.6, size=config.num_users)
    num_slates = np.maximum(1, np.rint(activity / activity.sum() * config.num_rows / config.slate_size)).astype(int)
    user = np.repeat(np.arange(config.num_users), num_slates)
    position = np.arange(len(user)) - np.repeat(np.cumsum(num_slates) - num_slates, num_slates)
    progress = ((position + 0.5) / np.repeat(num_slates, num_slates)).astype(np.float32)
    span = (_END_MS - _START_MS) / np.repeat(num_slates, num_slates)
    start = _START_MS + span * (position + 0.5 * rng.random(len(user)))
    second = np.minimum(1000, 0.4 * span / config.slate_size)
    time = start[:, None] + second[:, None] * np.arange(config.slate_size)
    return user, progress, time.astype(np.int64)


def _exposures(truth: GroundTruth, user: Ints, progress: Floats, seed: int) -> Ints:
    """Draw the slates. Every item is shown at least once if there are enough slots."""
    config = truth.config
    rng = numpy_generator(seed, "synthetic/exposures")
    by_category = np.argsort(truth.item_category, kind="stable")
    cumulative = np.cumsum(truth.item_popularity[by_category])
    boundary = np.concatenate([[0.0], cumulative])[
        np.searchsorted(truth.item_category[by_category], np.arange(config.num_categories + 1))
    ]
    slate = np.empty((len(user), config.slate_size), dtype=np.int64)
    for chunk in _chunks(len(user)):
        shape = slate[chunk].shape
        has_moved = rng.random(shape) < (config.drift * progress[chunk])[:, None]
        category = np.where(
            has_moved, truth.user_category[user[chunk], 1, None], truth.user_category[user[chunk], 0, None]
        )
        by_interest = rng.random(shape) < config.interest_share
        low, high = (
            np.where(by_interest, boundary[category], 0.0),
            np.where(by_interest, boundary[category + 1], 1.0),
        )
        drawn = np.searchsorted(cumulative, low + rng.random(shape) * (high - low), side="right")
        slate[chunk] = by_category[np.minimum(drawn, config.num_items - 1)]
    is_fixed = np.zeros(slate.shape, dtype=bool)
    if slate.size >= config.num_items:
        fixed = rng.permutation(slate.size)[: config.num_items]
        slate.ravel()[fixed], is_fixed.ravel()[fixed] = np.arange(config.num_items), True
    for chunk in _chunks(len(user)):
        _make_distinct(slate[chunk], is_fixed[chunk], config.num_items, rng)
    return slate


def _make_distinct(slate: Ints, is_fixed: npt.NDArray[np.bool_], num_items: int, rng: np.random.Generator) -> None:
    """Redraw, in place, what repeats an item of its slate."""
    slots = np.arange(slate.shape[1])
    yields_to = (slots[:, None] > slots) | is_fixed[:, None, :]  # (n, slot, other slot)
    yields_to &= ~is_fixed[:, :, None] & (slots[:, None] != slots)
    while True:
        is_repeat = ((slate[:, :, None] == slate[:, None, :]) & yields_to).any(axis=2)
        if not is_repeat.any():
            return
        slate[is_repeat] = rng.integers(num_items, size=int(is_repeat.sum()))


def _calibrated(truth: GroundTruth, user: Ints, progress: Floats, slate: Ints, seed: int) -> GroundTruth:
    """Return the truth with the biases that give each behaviour its rate, found by bisection on a sample of slates."""
    rng = numpy_generator(seed, "synthetic/calibration")
    sample = rng.permutation(len(user))[:_CALIBRATION_SLATES]
    logits = truth.logits(user[sample], progress[sample], slate[sample]).ravel()
    bias = []
    for behaviour in truth.config.behaviours:
        low, high = -30.0, 30.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if _sigmoid(logits + np.float32(middle)).mean() < behaviour.rate else (low, middle)
            )
        bias.append(low)
    return GroundTruth(**{**truth.__dict__, "bias": np.array(bias, dtype=np.float32)})


def _responses(truth: GroundTruth, user: Ints, progress: Floats, slate: Ints, seed: int) -> npt.NDArray[np.uint8]:
    rng, stops = numpy_generator(seed, "synthetic/responses"), numpy_generator(seed, "synthetic/stops")
    response = np.empty((slate.size, len(truth.bias)), dtype=np.uint8)
    for chunk in _chunks(len(user)):
        attraction = truth.attraction(user[chunk], progress[chunk], slate[chunk])
        flips = rng.random(attraction.shape, dtype=np.float32) < attraction
        if truth.config.has_stops:
            flips = stopped(flips, truth.config, stops)
        rows = slice(chunk.start * slate.shape[1], chunk.start * slate.shape[1] + flips.shape[0] * flips.shape[1])
        response[rows] = flips.reshape(-1, flips.shape[2])
    return response


def _shown(shape: tuple[int, ...]) -> dict[str, Ints]:
    """Return the slate of each row, and its position there, from 1."""
    slate, position = np.indices(shape)
    return {"slate": slate.ravel() + 1, "position": position.ravel() + 1}


def _user_table(truth: GroundTruth, seed: int) -> FeatureTable:
    rng = numpy_generator(seed, "synthetic/users")
    num_users = truth.config.num_users
    frame = pl.DataFrame(
        {
            "id": np.arange(1, num_users + 1),
            "group": [chr(ord("A") + category // 2) for category in truth.user_category[:, 0]],
            "age": rng.choice(["-17", "18-24", "25-34", "35-49", "50-"], num_users),
            "tenure": rng.gamma(2.0, 300.0, num_users).round(1),
        }
    )
    features = (Feature("group", "categorical"), Feature("age", "categorical"), Feature("tenure", "numeric"))
    return FeatureTable(frame.lazy(), features)


def _item_table(truth: GroundTruth, seed: int) -> FeatureTable:
    rng = numpy_generator(seed, "synthetic/items")
    config = truth.config
    second_tag = rng.integers(config.num_categories, size=config.num_items)
    frame = pl.DataFrame(
        {
            "id": np.arange(1, config.num_items + 1),
            "number": truth.item_category,
            "second": second_tag,
            "length": rng.lognormal(4.0, 0.7, config.num_items).round(1),
            "is_known": rng.random(config.num_items) >= _UNKNOWN_SHARE,
        }
    )
    category = pl.format("category {}", pl.col("number"))
    tags = pl.concat_list(pl.format("tag {}", "number"), pl.format("tag {}", "second")).list.unique(maintain_order=True)
    lazy = frame.lazy().select(
        "id",
        title=pl.format("item {}", pl.col("id")),
        category=pl.when("is_known").then(category),
        tags=tags,
        length="length",
    )
    return FeatureTable(
        lazy, (Feature("category", "categorical"), Feature("tags", "multi"), Feature("length", "numeric"))
    )


def _chunks(num_slates: int) -> Iterator[slice]:
    for start in range(0, num_slates, _CHUNK_SLATES):
        yield slice(start, start + _CHUNK_SLATES)


def _normalised(vectors: Floats) -> Floats:
    unit: Floats = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


def _sigmoid(logits: Floats) -> Floats:
    probabilities: Floats = np.float32(1) / (np.float32(1) + np.exp(-logits))
    return probabilities

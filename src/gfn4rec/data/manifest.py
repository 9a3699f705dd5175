"""The manifest of a prepared data set: what it is, what it came from, and what was done to it."""

from typing import Any, Final

from pydantic import Field, FiniteFloat

from gfn4rec.config import StrictConfig
from gfn4rec.data.interactions import FeatureKind

FORMAT: Final = "gfn4rec data set"
VERSION: Final = 2


class PrepareConfig(StrictConfig):
    """How a log is turned into slates."""

    core: int = Field(default=20, ge=1)  # rows that each user and each item must keep; 1 keeps all
    slate_size: int = Field(default=6, ge=1)  # K
    test_slates: int = Field(default=1, ge=0)  # last slates of each user
    val_slates: int = Field(default=1, ge=0)  # the slates before those


class BehaviourEntry(StrictConfig):
    """A behaviour, its weight in the reward, and the share of rows that show it."""

    name: str
    weight: FiniteFloat
    rate: float


class FeatureEntry(StrictConfig):
    """A feature column. Indices: 0 padding, 1 unknown, then the vocabulary in its order."""

    name: str
    kind: FeatureKind
    num_unknown: int  # users or items without a value
    vocabulary: tuple[str, ...] = ()  # raw values in the order of first appearance in the whole raw file
    mean: FiniteFloat = 0.0  # numeric features: for standardising
    deviation: FiniteFloat = 1.0


class RawFileEntry(StrictConfig):
    """A raw file that was read."""

    name: str
    sha256: str


class FileEntry(StrictConfig):
    """A file of the data set itself."""

    num_bytes: int
    sha256: str
    content_sha256: str  # of the values alone: whatever version of a library has written them


class Statistics(StrictConfig):
    """What was there, what was taken away, and what is left."""

    raw_records: int
    raw_users: int
    raw_items: int
    records: int  # what the k-core filter left
    users: int
    items: int
    duplicate_records: int  # those among them equal to an earlier one in user, item and time: dropped
    conflicting_duplicates: int  # dropped ones whose responses differ from those of the row that was kept
    rows: int  # of the log: records less duplicates
    slates: int
    train_slates: int
    val_slates: int
    test_slates: int
    rows_in_slates: int
    rows_skipped: int  # repeat an item of their slate; kept in histories
    rows_leading: int  # before a user's first whole slate; kept in histories
    users_without_slate: int
    users_short_of_test: int  # of the users with a slate, those with fewer test slates than asked for
    users_without_test: int  # and those with none, if any was asked for
    users_short_of_val: int
    users_without_val: int
    longest_log: int


class Manifest(StrictConfig):
    """`manifest.json`."""

    format: str = FORMAT
    version: int = VERSION
    name: str
    settings: PrepareConfig
    timed: bool
    behaviours: tuple[BehaviourEntry, ...]
    user_features: tuple[FeatureEntry, ...]
    item_features: tuple[FeatureEntry, ...]
    statistics: Statistics
    raw_files: tuple[RawFileEntry, ...]
    origin: dict[str, Any]  # how the log was made of the raw files: thresholds, seeds and the like
    files: dict[str, FileEntry]

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest reward that one item can earn."""
        weights = [behaviour.weight for behaviour in self.behaviours]
        return sum(min(weight, 0.0) for weight in weights), sum(max(weight, 0.0) for weight in weights)

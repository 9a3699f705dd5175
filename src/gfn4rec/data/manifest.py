"""The manifest of a prepared data set: its content, its sources, and the settings it was prepared with."""

from typing import Final, Literal

from pydantic import Field, FiniteFloat, JsonValue

from gfn4rec.config import ADDED_LATER, GrownConfig, StrictConfig
from gfn4rec.data.interactions import FeatureKind

FORMAT: Final = "gfn4rec data set"
VERSION: Final = 2


class PrepareConfig(GrownConfig):
    """How a log is filtered, cut into slates and split, and what histories hold.

    >>> PrepareConfig(core=5).slate_size
    6
    """

    core: int = Field(default=20, ge=1)  # rows that each user and each item must have; 1 keeps all
    slate_size: int = Field(default=6, ge=1)  # K
    test_slates: int = Field(default=1, ge=0)  # the last slates of each user are the test set
    val_slates: int = Field(default=1, ge=0)  # the slates before those are for validation
    session_gap: float | None = Field(default=None, gt=0, json_schema_extra=ADDED_LATER)
    """Seconds; a longer pause between two rows of a user begins a session, and histories do not reach beyond it."""
    history: Literal["all", "responded"] = Field(default="all", json_schema_extra=ADDED_LATER)
    """Which rows histories hold: all, or those with at least one response."""
    negatives: int = Field(default=0, ge=0, json_schema_extra=ADDED_LATER)  # of the K, sampled: nobody chose them
    negatives_by: Literal["uniform", "popularity"] = Field(default="uniform", json_schema_extra=ADDED_LATER)
    negatives_seed: int = Field(default=0, json_schema_extra=ADDED_LATER)

    @property
    def logged_size(self) -> int:
        """The number of items of a slate that come from the log."""
        return self.slate_size - self.negatives


class BehaviourEntry(StrictConfig):
    """A behaviour, its weight in the reward, and the share of rows that show it."""

    name: str
    weight: FiniteFloat
    rate: float


class FeatureEntry(StrictConfig):
    """A feature column. Index 0 is padding, 1 is unknown, and the vocabulary follows in its order."""

    name: str
    kind: FeatureKind
    num_unknown: int  # number of users or items without a value
    vocabulary: tuple[str, ...] = ()  # raw values in the order of first appearance in the whole raw file
    mean: FiniteFloat = 0.0  # of a numeric feature, for standardising
    deviation: FiniteFloat = 1.0


class RawFileEntry(StrictConfig):
    """A raw file that was read, and its checksum."""

    name: str
    sha256: str


class FileEntry(StrictConfig):
    """A file of the data set, its size and checksums."""

    num_bytes: int
    sha256: str
    content_sha256: str  # of the values alone, the same whichever library version wrote them


class Statistics(GrownConfig):
    """Counts of the raw log, of what was removed, and of the result."""

    raw_records: int
    raw_users: int
    raw_items: int
    records: int  # after the k-core filter
    users: int
    items: int
    duplicate_records: int  # of these, dropped as equal to an earlier one in user, item and time
    conflicting_duplicates: int  # of these, with other responses than the row that was kept
    rows: int  # of the prepared log: records without duplicates
    slates: int
    train_slates: int
    val_slates: int
    test_slates: int
    rows_in_slates: int
    rows_skipped: int  # they repeat an item of their slate; kept in histories
    rows_leading: int  # before the first full slate of a user, or of a session; kept in histories
    users_without_slate: int
    users_short_of_test: int  # users with a slate, but fewer test slates than asked for
    users_without_test: int  # of these, with no test slate though one was asked for
    users_short_of_val: int
    users_without_val: int
    longest_log: int
    merged_rows: int = 0  # of the raw log, which became part of other rows of the same shown item
    shown_slates: int = 0  # slates of the log that were really shown, of any length
    short_slates: int = 0  # of these, with fewer than K items; kept in histories
    rows_beyond: int = 0  # after the first K of a shown slate; kept in histories
    users_not_in_table: int = 0  # users of the data set without a row in the feature table
    users_not_in_log: int = 0  # users of the feature table without a row in the raw log
    items_not_in_table: int = 0
    items_not_in_log: int = 0
    sessions: int = Field(default=0, json_schema_extra=ADDED_LATER)  # 0: a user's log is not divided
    responded_rows: int = Field(default=0, json_schema_extra=ADDED_LATER)  # those of histories, if not all rows are


class Manifest(StrictConfig):
    """The content of `manifest.json`."""

    format: str = FORMAT
    version: int = VERSION
    name: str
    settings: PrepareConfig
    timed: bool
    behaviours: tuple[BehaviourEntry, ...]
    rho: FiniteFloat = Field(ge=0)  # default strength of item influence in simulators of these users
    user_features: tuple[FeatureEntry, ...]
    item_features: tuple[FeatureEntry, ...]
    statistics: Statistics
    raw_files: tuple[RawFileEntry, ...]
    origin: dict[str, JsonValue]  # how the log came from the raw files: thresholds, seeds and the like
    files: dict[str, FileEntry]

    @property
    def histories(self) -> tuple[str, ...]:
        """The options of `data prepare` that say what histories hold; none if they hold a user's whole log."""
        gap = self.settings.session_gap
        sessions = "--session-column" if gap is None else f"--session-gap {gap:g}"
        responded = ("--history responded",) if self.settings.history == "responded" else ()
        return ((sessions,) if self.statistics.sessions else ()) + responded

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest reward of one item."""
        weights = [behaviour.weight for behaviour in self.behaviours]
        return sum(min(weight, 0.0) for weight in weights), sum(max(weight, 0.0) for weight in weights)

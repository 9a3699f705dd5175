"""The summary of a prepared data set."""

from gfn4rec.config import StrictConfig
from gfn4rec.data.interactions import FeatureKind
from gfn4rec.data.manifest import FeatureEntry, Manifest, PrepareConfig, Statistics


class BehaviourSummary(StrictConfig):
    """A behaviour's weight in the reward, and the share of rows that show it."""

    weight: float
    rate: float


class FeatureSummary(StrictConfig):
    """A feature's kind, its number of values if they are counted, and how many users or items lack it."""

    kind: FeatureKind
    values: int | None
    unknown: int


class Summary(StrictConfig):
    """The paper's data set table, and what preparing did to the log."""

    name: str
    users: int
    items: int
    records: int
    behaviours: dict[str, BehaviourSummary]
    rho: float
    reward_range: tuple[float, float]
    removed_by_filter: dict[str, int]
    statistics: Statistics
    settings: PrepareConfig
    features: dict[str, dict[str, FeatureSummary]]  # of "users" and of "items"
    raw_files: dict[str, str]  # their checksums


def summarise(manifest: Manifest) -> Summary:
    """Return the summary that `gfn4rec data describe` prints."""
    counts = manifest.statistics
    return Summary(
        name=manifest.name,
        users=counts.users,
        items=counts.items,
        records=counts.records,
        behaviours={
            behaviour.name: BehaviourSummary(weight=behaviour.weight, rate=behaviour.rate)
            for behaviour in manifest.behaviours
        },
        rho=manifest.rho,
        reward_range=manifest.reward_range,
        removed_by_filter={
            "records": counts.raw_records - counts.records,
            "users": counts.raw_users - counts.users,
            "items": counts.raw_items - counts.items,
        },
        statistics=counts,
        settings=manifest.settings,
        features={"users": _features(manifest.user_features), "items": _features(manifest.item_features)},
        raw_files={file.name: file.sha256 for file in manifest.raw_files},
    )


def _features(features: tuple[FeatureEntry, ...]) -> dict[str, FeatureSummary]:
    return {
        feature.name: FeatureSummary(
            kind=feature.kind, values=len(feature.vocabulary) or None, unknown=feature.num_unknown
        )
        for feature in features
    }

"""The summary of a prepared data set."""

from collections.abc import Sequence

from gfn4rec.config import StrictConfig
from gfn4rec.data.interactions import FeatureKind
from gfn4rec.data.manifest import BehaviourEntry, FeatureEntry, Manifest, PrepareConfig, Statistics

FEWEST_POSITIVES = 50


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
    warnings: tuple[str, ...]  # about behaviours that hardly anything can be learned from

    @property
    def unmatched(self) -> dict[str, int]:
        """How many users and items only the data set or only the feature file has, for the files that there are."""
        counts = self.statistics
        lines = {}
        for side, missing, unused in (
            ("user", counts.users_not_in_table, counts.users_not_in_log),
            ("item", counts.items_not_in_table, counts.items_not_in_log),
        ):
            if self.features[f"{side}s"] or missing or unused:
                lines[f"{side}s without a row in the {side} file"] = missing
                lines[f"rows of the {side} file whose {side} the log does not have"] = unused
        return lines


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
            "records": counts.raw_records - counts.merged_rows - counts.records,
            "users": counts.raw_users - counts.users,
            "items": counts.raw_items - counts.items,
        },
        statistics=counts,
        settings=manifest.settings,
        features={"users": _features(manifest.user_features), "items": _features(manifest.item_features)},
        raw_files={file.name: file.sha256 for file in manifest.raw_files},
        warnings=tuple(
            warnings_of(
                manifest.behaviours,
                counts.rows,
                has_slates=bool(counts.shown_slates),
                has_negatives=bool(manifest.settings.negatives),
            )
        ),
    )


def warnings_of(
    behaviours: Sequence[BehaviourEntry],
    num_rows: int,
    has_slates: bool,
    has_negatives: bool = False,
    is_filtered: bool = True,
) -> list[str]:
    """Return what is wrong with the behaviours of a log, and the remedies."""
    if len(behaviours) > 1 and not any(behaviour.rate for behaviour in behaviours):
        names = ", ".join(behaviour.name for behaviour in behaviours)
        return [f"no row has any response, so there is nothing to learn: {names} never occur; check what counts as one"]
    lines = (_warning(behaviour, num_rows, has_slates, has_negatives, is_filtered) for behaviour in behaviours)
    return list(filter(None, lines))


def _warning(behaviour: BehaviourEntry, num_rows: int, has_slates: bool, has_negatives: bool, is_filtered: bool) -> str:
    """Return what is wrong with a behaviour and the remedy, or nothing."""
    num_positives, name = round(behaviour.rate * num_rows), behaviour.name
    if num_positives == 0:
        return f"{name} never occurs; check what counts as {name}, or leave it out"
    if num_positives == num_rows and not has_negatives:
        remedy = f"add rows of items that were shown without {name}"
        if not has_slates:  # slates that were shown take no sampled items
            remedy += ", or prepare it with --negatives, which samples such items"
        return f"{name} is true in every row, so nothing says what users do not respond to; {remedy}"
    if num_positives < FEWEST_POSITIVES:
        remedy = "leave it out, or lower --core" if is_filtered else "leave it out"
        return f"{name} occurs in only {num_positives} rows, too few to learn from; {remedy}"
    return ""


def _features(features: tuple[FeatureEntry, ...]) -> dict[str, FeatureSummary]:
    return {
        feature.name: FeatureSummary(
            kind=feature.kind, values=len(feature.vocabulary) or None, unknown=feature.num_unknown
        )
        for feature in features
    }

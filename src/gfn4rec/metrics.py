"""The table of metrics. Evaluation, command line, tables, plots and docs take their metrics from it.

A new metric costs one row here and one function with the name of its key in `gfn4rec/evaluation/<group>.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

Better: TypeAlias = Literal["higher", "lower", "none"]
Group: TypeAlias = Literal["slates", "ranking", "oracle", "held_out"]
"""What a metric is computed from: shown slates with feedback, scores and rewards, an oracle, or held-out slates."""
Value = TypeVar("Value")


@dataclass(frozen=True)
class Metric:
    """A metric: its key in files, how it is printed, and what it means."""

    key: str
    group: Group
    label: str
    decimals: int
    better: Better
    meaning: str
    authors_rule: str | None = None
    """Key of the same metric as the authors' code computes it, where that differs from the paper's equation."""
    is_share: bool = False
    """Whether it is printed in percent."""
    is_per_behaviour: bool = False
    """Whether there is a value per behaviour; these are stored as `<key>_<behaviour>`."""
    is_compared: bool = True
    """Whether tables compare models by it."""

    def write(self, value: float) -> str:
        """Return the value as text."""
        return f"{value:z.{self.decimals}{'%' if self.is_share else 'f'}}"


METRICS: Final[dict[str, Metric]] = {
    metric.key: metric
    for metric in (
        Metric("reward", "slates", "Average reward", 3, "higher", "Mean reward of the slates of a batch."),
        Metric("max_reward", "slates", "Maximum reward", 3, "higher", "Largest reward of a slate of a batch."),
        Metric(
            "expected_reward",
            "slates",
            "Expected reward",
            3,
            "higher",
            "Mean reward computed from the response probabilities instead of the sampled responses.",
            is_compared=False,
        ),
        Metric("coverage", "slates", "Coverage", 1, "higher", "Number of distinct items shown in a batch."),
        Metric(
            "oracle_share",
            "oracle",
            "Share of oracle",
            1,
            "higher",
            "Expected reward divided by the oracle's expected reward at the same coverage.",
            is_share=True,
            is_compared=False,
        ),
        Metric(
            "ild",
            "slates",
            "ILD",
            3,
            "higher",
            "Intra-list diversity (Eq. 11): 1 minus the mean cosine similarity of two different items of a slate.",
            authors_rule="ild_reference",
        ),
        Metric(
            "ild_reference",
            "slates",
            "ILD, authors' rule",
            3,
            "none",
            "Diversity as the authors' code computes it: dot products, including those of items with themselves.",
            is_compared=False,
        ),
        Metric(
            "rate",
            "slates",
            "Rate",
            3,
            "none",
            "Share of the shown items that got a behaviour.",
            is_per_behaviour=True,
            is_compared=False,
        ),
        Metric(
            "r_ndcg",
            "ranking",
            "R-NDCG",
            3,
            "higher",
            "Discounted reward in the order of the model's scores, divided by that in the ideal order (Eq. 12).",
            authors_rule="r_ndcg_unsorted",
        ),
        Metric(
            "r_mrr",
            "ranking",
            "R-MRR",
            4,
            "higher",
            "Mean of reward divided by rank in the order of the model's scores (Eq. 12).",
            authors_rule="r_mrr_unsorted",
        ),
        Metric(
            "r_ndcg_unsorted",
            "ranking",
            "R-NDCG, authors' rule",
            3,
            "none",
            "R-NDCG as the authors' code computes it, which ignores the model's scores.",
            is_compared=False,
        ),
        Metric(
            "r_mrr_unsorted",
            "ranking",
            "R-MRR, authors' rule",
            4,
            "none",
            "R-MRR as the authors' code computes it, which ignores the model's scores.",
            is_compared=False,
        ),
        Metric(
            "recall",
            "held_out",
            "Recall@K",
            4,
            "higher",
            "Share of the liked items of a test slate that the policy shows among all items new to the user.",
        ),
        Metric(
            "ndcg",
            "held_out",
            "NDCG@K",
            4,
            "higher",
            "Discounted number of liked items of a test slate that are shown, divided by that of the ideal order.",
        ),
        Metric(
            "hit_rate",
            "held_out",
            "Hit rate@K",
            4,
            "higher",
            "Share of test slates of which at least one liked item is shown.",
        ),
        Metric(
            "mrr",
            "held_out",
            "MRR@K",
            4,
            "higher",
            "Mean of 1 divided by the rank of the first liked item of the test slate, or 0 if none is shown.",
        ),
        Metric(
            "distinct", "held_out", "Distinct", 0, "higher", "Number of distinct items shown to all users together."
        ),
        Metric("gini", "held_out", "Gini", 3, "lower", "Gini index of how often each item of the catalogue is shown."),
        Metric("records", "held_out", "Records", 0, "none", "Median number of training records of the shown items."),
        Metric(
            "rare_share",
            "held_out",
            "Rare",
            1,
            "lower",
            "Share of the shown items that have fewer than 5 training records.",
            is_share=True,
        ),
        Metric(
            "same_first_share",
            "held_out",
            "Same first",
            1,
            "lower",
            "Largest share of users who get the same first item.",
            is_share=True,
        ),
    )
}
"""By key, in the order in which they are stored and printed."""


def metrics_of(group: Group) -> list[Metric]:
    """Return the metrics of a group."""
    return [metric for metric in METRICS.values() if metric.group == group]


def authors_keys() -> set[str]:
    """Return the keys of the metrics that follow the authors' code."""
    return {metric.authors_rule for metric in METRICS.values() if metric.authors_rule is not None}


def by_authors_rule(row: Mapping[str, Value]) -> dict[str, Value]:
    """Return a row of metrics with the ranking metrics replaced by those of the authors' rule."""
    pairs = {metric.key: metric.authors_rule for metric in metrics_of("ranking")}
    return {**row, **{key: row[theirs] for key, theirs in pairs.items() if theirs is not None}}

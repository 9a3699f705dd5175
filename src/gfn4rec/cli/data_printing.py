"""What `gfn4rec data` prints of prepared data sets."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console

from gfn4rec.cli.output import table
from gfn4rec.data.describe import FeatureSummary, Summary

if TYPE_CHECKING:
    from gfn4rec.data.examples import Example, FeatureValue  # they import torch


def print_summary(console: Console, summary: Summary) -> None:
    """Print the paper's data set table, and what preparing did to the log."""
    low, high = summary.reward_range
    paper = table("data set", "users |U|", "items |I|", "records", "behaviours |B|", "reward R")
    counts = [f"{count:,}" for count in (summary.users, summary.items, summary.records)]
    paper.add_row(summary.name, *counts, str(len(summary.behaviours)), f"[{low:g}, {high:g}]")
    console.print(paper)
    console.print(f"\nItem influence (rho) of its simulators: {summary.rho:g}")
    for title, rows in _summary_sections(summary).items():
        if not rows:
            continue
        console.print(f"\n{title}", style="bold")
        section = table("", "")
        section.columns[1].justify = "left" if any(isinstance(value, str) for value in rows.values()) else "right"
        for name, value in rows.items():
            section.add_row(name, value if isinstance(value, str) else f"{value:,}")
        console.print(section)
    for warning in summary.warnings:
        console.print(f"\nWarning: {warning}.")


def _summary_sections(summary: Summary) -> dict[str, Mapping[str, int | str]]:
    counts, is_responded = summary.statistics, summary.settings.history == "responded"
    return {
        f"Removed by the {summary.settings.core}-core filter": summary.removed_by_filter,
        "Log": {
            **({"events merged into other rows": counts.merged_rows} if counts.merged_rows else {}),
            "duplicate records dropped": counts.duplicate_records,
            "of which with other responses": counts.conflicting_duplicates,
            "rows": counts.rows,
            "longest log of a user": counts.longest_log,
            **({"sessions": counts.sessions} if counts.sessions else {}),
            **({"rows with a response, for histories": counts.responded_rows} if is_responded else {}),
        },
        f"Slates of {summary.settings.slate_size}": {
            "train": counts.train_slates,
            "val": counts.val_slates,
            "test": counts.test_slates,
            "rows in slates": counts.rows_in_slates,
            **_sampled(summary),
            **_left_over(summary),
            "users without a slate": counts.users_without_slate,
            "users with fewer test slates than asked for": counts.users_short_of_test,
            "of which with no test slate": counts.users_without_test,
            "users with fewer val slates than asked for": counts.users_short_of_val,
            "of which with no val slate": counts.users_without_val,
        },
        "Behaviours": {
            name: f"weight {behaviour.weight:g}, {behaviour.rate:.4%} of rows"
            for name, behaviour in summary.behaviours.items()
        },
        "Features": {
            **{
                f"{side[:-1]} {name}": _feature_line(feature)
                for side, features in summary.features.items()
                for name, feature in features.items()
            },
            **summary.unmatched,
        },
    }


def _sampled(summary: Summary) -> dict[str, int]:
    """Return the number of sampled items of all slates, if there are any."""
    config = summary.settings
    way = "uniformly" if config.negatives_by == "uniform" else "by popularity"
    return {f"items sampled {way}": config.negatives * summary.statistics.slates} if config.negatives else {}


def _left_over(summary: Summary) -> dict[str, int]:
    """Return the counts of what is in no slate; they depend on whether slates were shown or cut."""
    counts, size = summary.statistics, summary.settings.slate_size
    if not counts.shown_slates:
        return {
            "rows skipped, item already in the slate": counts.rows_skipped,
            "rows before the first full slate": counts.rows_leading,
        }
    return {
        f"rows after the first {size} of their slate": counts.rows_beyond,
        "slates that were shown": counts.shown_slates,
        f"of which with fewer than {size} items, for histories only": counts.short_slates,
    }


def _feature_line(feature: FeatureSummary) -> str:
    values = f"{feature.values:,} values, " if feature.values else ""
    return f"{feature.kind}, {values}{feature.unknown:,} unknown"


def print_example(console: Console, example: "Example") -> None:
    """Print a request, with the slate that was logged for it."""
    profile = ", ".join(f"{name} {_feature_text(value)}" for name, value in example.profile.items())
    latest = example.history[-3:]
    console.print(f"\nUser {example.user}", style="bold", end="")
    console.print(f" ({profile})" if profile else "")
    console.print(f"  history of {len(example.history)} events" + (f", the latest {len(latest)}:" if latest else ""))
    for event in latest:
        console.print(f"    {event.title or event.item}: {', '.join(event.responses) or 'no response'}")
    console.print(f"  slate with reward {example.reward:.3f}:")
    slate = table("    item", "reward", "responses")
    for event, reward in zip(example.slate, example.item_rewards, strict=True):
        responses = "sampled" if event.is_sampled else ", ".join(event.responses) or "-"
        slate.add_row(f"    {event.title or event.item}", f"{reward:g}", responses)
    console.print(slate)


def _feature_text(value: "FeatureValue") -> str:
    if isinstance(value, list):
        return ", ".join(value) or "unknown"
    return "unknown" if value is None else str(value)

"""A prepared data set in words and numbers."""

from typing import Any

from gfn4rec.data.manifest import Manifest


def summarise(manifest: Manifest) -> dict[str, Any]:
    """The paper's data set table and everything that was done on the way, for `--json` and for tables alike."""
    counts = manifest.statistics.model_dump()
    return {
        "name": manifest.name,
        "users": counts["users"],
        "items": counts["items"],
        "records": counts["records"],
        "behaviours": {each.name: {"weight": each.weight, "rate": each.rate} for each in manifest.behaviours},
        "reward_range": list(manifest.reward_range),
        "removed_by_filter": {what: counts[f"raw_{what}"] - counts[what] for what in ("records", "users", "items")},
        "statistics": counts,
        "settings": manifest.settings.model_dump(),
        "features": {
            side: {
                feature.name: {
                    "kind": feature.kind,
                    "values": len(feature.vocabulary) or None,
                    "unknown": feature.num_unknown,
                }
                for feature in features
            }
            for side, features in (("users", manifest.user_features), ("items", manifest.item_features))
        },
        "raw_files": {file.name: file.sha256 for file in manifest.raw_files},
    }

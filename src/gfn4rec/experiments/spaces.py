"""Where to search: the values of each setting that are tried, the paper's for the paper's policies."""

import itertools
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from gfn4rec.errors import UserError
from gfn4rec.policies import policy_class
from gfn4rec.training.config import Kind, RunSettings, merge_changes

Grid: TypeAlias = Mapping[str, tuple[float, ...]]
Point: TypeAlias = dict[str, float]

_TOP_K_OR_SAMPLED: Final[Grid] = {"temperature": (0.0, 0.1, 1.0)}
"""Of slates shown while learning: the paper's CF and PRM show the top K, and may learn more from others."""
_RATES: Final[Grid] = {"learning_rate": (1e-3, 1e-4, 1e-5)}
_DECAYS: Final[Grid] = {"weight_decay": (1e-4, 1e-5, 0.0)}

_OFFSETS: Final[Grid] = {"b_f": (0.1, 0.5, 1.0, 1.5, 2.0), "b_r": (0.1, 0.3, 1.0, 1.5), "b_z": (0.1, 0.5, 1.0, 1.5)}
"""In the paper's order: b_f first, beside a fixed b_r."""

LARGE_BATCH_RATES: Final = (3e-3, 2e-3, 1e-3, 5e-4)
"""Learning rates that suit a learning batch of 512."""

OWN: Final[Mapping[str, Grid]] = {
    "gfn": _OFFSETS,
    "gfn-rerank": _OFFSETS,
    "list-cvae": {"beta": (1.0, 0.1, 0.01, 0.001)},
    "cf": _TOP_K_OR_SAMPLED,
    "prm": {**_TOP_K_OR_SAMPLED, "pv_weight": (1.0, 0.1, 0.01)},
    # Not in the paper; in the spirit of its grids.
    "boltzmann-cf": {"learning_rate": LARGE_BATCH_RATES, "reward_temperature": (1.0, 0.3, 0.1, 0.03)},
    "gfn-energy": {"learning_rate": LARGE_BATCH_RATES, "beta": (30.0, 60.0, 90.0, 120.0)},
}
"""What a policy has of its own."""


def grid_of(
    policy: str, kind: Kind = "online", changes: Mapping[str, Any] | None = None, values: Grid | None = None
) -> dict[str, tuple[float, ...]]:
    """The values to try for a policy, some of them given; not of settings that `changes` decide, or only online has."""
    if not policy_class(policy).is_learned:
        raise UserError(f"policy {policy} has nothing to learn, and nothing to search")
    # What matters most comes first, because a search may be short.
    grid = {**_RATES, **OWN.get(policy, {}), **_DECAYS, **(values or {})}
    if kind == "offline":  # where nothing is shown
        grid = {key: tried for key, tried in grid.items() if key not in _TOP_K_OR_SAMPLED}
    decided = merge_changes(changes or {})
    for key in values or {}:
        if key in decided:
            raise UserError(f"{key}: is set, and has values to try; give one of them")
    left = {key: tried for key, tried in grid.items() if key not in decided}
    if not left:
        raise UserError(f"policy {policy}: all of {', '.join(grid)} are set; leave one of them to the search")
    return left


def points_of(grid: Grid) -> list[Point]:
    """All combinations of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def start_of(grid: Grid, settings: RunSettings) -> Point:
    """The combination that is nearest to the settings."""
    current = {**settings.training, **settings.policy_settings}
    for key in grid:
        if not isinstance(current.get(key), float):
            raise UserError(f"{key}: policy {settings.policy} has no such number to search")
    return {key: min(values, key=lambda value: abs(value - current[key])) for key, values in grid.items()}

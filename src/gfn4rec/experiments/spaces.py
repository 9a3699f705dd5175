"""Where to search: the values of each setting that are tried, the paper's for the paper's policies."""

import itertools
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from gfn4rec.errors import UserError
from gfn4rec.policies import policy_class
from gfn4rec.training.config import RunSettings

Grid: TypeAlias = Mapping[str, tuple[float, ...]]
Point: TypeAlias = dict[str, float]

COMMON: Final[Grid] = {"learning_rate": (1e-3, 1e-4, 1e-5), "weight_decay": (1e-4, 1e-5, 0.0)}
"""Searched for every policy that learns."""

_OFFSETS: Final[Grid] = {"b_r": (0.1, 0.3, 1.0, 1.5), "b_f": (0.1, 0.5, 1.0, 1.5, 2.0), "b_z": (0.1, 0.5, 1.0, 1.5)}

_RATES = (3e-3, 2e-3, 1e-3, 5e-4)  # for a large learning batch

OWN: Final[Mapping[str, Grid]] = {
    "gfn": _OFFSETS,
    "gfn-rerank": _OFFSETS,
    "list-cvae": {"beta": (1.0, 0.1, 0.01, 0.001)},
    "prm": {"pv_weight": (1.0, 0.1, 0.01)},
    # Not in the paper; in the spirit of its grids.
    "boltzmann-cf": {"learning_rate": _RATES, "reward_temperature": (1.0, 0.3, 0.1, 0.03)},
    "gfn-energy": {"learning_rate": _RATES, "beta": (30.0, 60.0, 90.0, 120.0)},
}
"""What a policy has of its own; it takes the place of what is common."""

_TABLES = ("settings.", "training.", "users.")


def grid_of(policy: str, changes: Mapping[str, Any] | None = None) -> dict[str, tuple[float, ...]]:
    """The values to try for a policy; a setting that `changes` decide is not searched."""
    if not policy_class(policy).is_learned:
        raise UserError(f"policy {policy} has nothing to learn, and nothing to search")
    grid = {**COMMON, **OWN.get(policy, {})}
    decided = {key.removeprefix(table) for key in changes or {} for table in _TABLES}
    left = {key: values for key, values in grid.items() if key not in decided}
    if not left:
        raise UserError(f"policy {policy}: all of {', '.join(grid)} are set; leave one of them to the search")
    return left


def points_of(grid: Grid) -> list[Point]:
    """All combinations of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def start_of(grid: Grid, settings: RunSettings) -> Point:
    """The combination that is nearest to the settings."""
    current = {**settings.training, **settings.policy_settings}
    return {key: min(values, key=lambda value: abs(value - current[key])) for key, values in grid.items()}

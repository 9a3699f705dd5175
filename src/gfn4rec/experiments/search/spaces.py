"""The values of settings that a search tries: the paper's for the paper's policies."""

import itertools
from collections.abc import Mapping
from typing import Final, TypeAlias

from gfn4rec.errors import UserError
from gfn4rec.policies import policy_class
from gfn4rec.training.config import Mode, RunSettings, merge_changes

Grid: TypeAlias = Mapping[str, tuple[float, ...]]
Point: TypeAlias = dict[str, float]

_TOP_K_OR_SAMPLED: Final[Grid] = {"temperature": (0.0, 0.1, 1.0)}
"""Temperatures of training slates: the paper's CF and PRM recommend the top K, but sampling may teach them more."""
_RATES: Final[Grid] = {"learning_rate": (1e-3, 1e-4, 1e-5)}
_DECAYS: Final[Grid] = {"weight_decay": (1e-4, 1e-5, 0.0)}

_OFFSETS: Final[Grid] = {"b_f": (0.1, 0.5, 1.0, 1.5, 2.0), "b_r": (0.1, 0.3, 1.0, 1.5), "b_z": (0.1, 0.5, 1.0, 1.5)}
"""Offsets in the paper's order: b_f first, with b_r fixed."""

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
    "gfn-anchored": {"learning_rate": LARGE_BATCH_RATES, "beta": (30.0, 60.0, 90.0, 120.0)},
    "gfn-prior": {"learning_rate": LARGE_BATCH_RATES},  # validation slates choose its reward scale
}
"""Values of settings that not all policies have, or have other values of."""


def grid_of(
    policy: str, mode: Mode = "online", changes: Mapping[str, object] | None = None, values: Grid | None = None
) -> dict[str, tuple[float, ...]]:
    """Return the values to try for a policy, without settings in `changes`; `values` replace the usual ones."""
    if not policy_class(policy).is_learned:
        raise UserError(f"policy {policy} is not trained, so there are no settings to search")
    # The most important settings come first, because a search may be short.
    grid = {**_RATES, **OWN.get(policy, {}), **_DECAYS, **(values or {})}
    if mode == "offline":  # no slates are recommended
        grid = {key: tried for key, tried in grid.items() if key not in _TOP_K_OR_SAMPLED}
    fixed = merge_changes(changes or {})
    for key in values or {}:
        if key in fixed:
            raise UserError(f"{key}: is both set and searched; use either --set or --values")
    searched = {key: tried for key, tried in grid.items() if key not in fixed}
    if not searched:
        raise UserError(f"policy {policy}: all of {', '.join(grid)} are set; leave one of them to the search")
    return searched


def points_of(grid: Grid) -> list[Point]:
    """Return all combinations of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def start_of(grid: Grid, settings: RunSettings) -> Point:
    """Return the combination that is nearest to the settings."""
    current = {**settings.training.model_dump(), **settings.policy_settings.model_dump()}
    for key in grid:
        if not isinstance(current.get(key), float):
            raise UserError(
                f"{key}: not a decimal setting of policy {settings.policy}; only such settings can be searched"
            )
    return {key: min(tried, key=lambda value: abs(value - current[key])) for key, tried in grid.items()}

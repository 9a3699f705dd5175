"""Tables of figures: one row per way of choosing slates."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gfn4rec.cli.output import out, table

if TYPE_CHECKING:
    from gfn4rec.evaluation.frontier import FrontierPoint

COLUMNS = {
    "reward": "reward",
    "max_reward": "max",
    "expected_reward": "expected",
    "coverage": "coverage",
    "ruler_share": "of ruler",
    "ild": "ILD",
    "r_ndcg": "R-NDCG",
    "r_mrr": "R-MRR",
}
_DECIMALS = {"coverage": 1, "r_mrr": 4}


def print_figures(rows: Mapping[str, Mapping[str, float | None]]) -> None:
    """Reward, diversity and ranking; then the rates of the behaviours, and ILD as the authors report it."""
    rates = sorted({key for row in rows.values() for key in row if key.startswith("rate_")})
    names = {key: key.removeprefix("rate_") for key in rates}
    _print_columns("", rows, COLUMNS)
    if rates:
        out().print()
        _print_columns("rate of", rows, names | {"ild_reference": "ild_reference"})


def print_ruler(title: str, points: Sequence["FrontierPoint"]) -> None:
    """What samplers attain that see the simulator's own probabilities."""
    shown = table(title, "temperature", "expected", "coverage", "ILD")
    for point in points:
        temperature = "" if point.temperature is None else f"{point.temperature:g}"
        figures = (f"{point.reward:.3f}", f"{point.coverage:.1f}", f"{point.ild:.3f}")
        shown.add_row(point.sampler, temperature, *figures)
    out().print(shown)


def _print_columns(title: str, rows: Mapping[str, Mapping[str, float | None]], columns: Mapping[str, str]) -> None:
    keys = [key for key in columns if any(key in row for row in rows.values())]
    shown = table(title, *(columns[key] for key in keys))
    for name, row in rows.items():
        if any(key in row for key in keys):
            shown.add_row(name, *(_figure(key, row.get(key)) for key in keys))
    out().print(shown)


def _figure(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1%}" if key == "ruler_share" else f"{value:.{_DECIMALS.get(key, 3)}f}"

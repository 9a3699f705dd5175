"""Experiments: jobs that are computed once, searches for settings, the paper's tables, and reports."""

from importlib.util import find_spec

from gfn4rec.errors import UserError

_PACKAGES = ("filelock", "jinja2", "optuna", "scipy")


def require_experiments() -> None:
    """Raise UserError if a package that only experiments need is not installed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(f"{missing[0]} is not installed; get it with: pip install 'gfn4rec[experiments]'")

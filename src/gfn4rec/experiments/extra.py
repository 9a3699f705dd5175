"""What experiments need that the rest does not."""

from importlib.util import find_spec

from gfn4rec.errors import UserError

_PACKAGES = ("filelock", "jinja2", "optuna", "scipy")


def require_experiments() -> None:
    """Tell in one line what is not installed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(f"{missing[0]} is not installed; get it with: pip install 'gfn4rec[experiments]'")

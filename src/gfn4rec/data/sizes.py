"""Which --core and --slate-size a log bears."""

import numpy as np
import polars as pl

from gfn4rec.config import StrictConfig
from gfn4rec.data.core import codes, k_core
from gfn4rec.data.interactions import Interactions
from gfn4rec.data.manifest import PrepareConfig

_DEFAULT = PrepareConfig()
_CORES = (_DEFAULT.core, 10, 5, 1)
_LEAST_KEPT = 0.2  # share of the rows that a core should keep
_LONGEST_SLATE = 20


class Sizes(StrictConfig):
    """Users, items and slates of a log, and the options that fit them."""

    users: int
    items: int
    has_slates: bool  # those that were shown; without them, slates are cut from the log
    core: int
    share_kept_by_default: float  # of the rows, by the default core
    slate_size: int
    users_with_slate: int  # users with a slate of this size
    users_with_split: int  # users with three of them, for training, validation and test

    def warnings(self, is_whole: bool) -> list[str]:
        """Return what these sizes mean for the data set; a file of which only a part was read may bear more."""
        lines = []
        if self.core != _DEFAULT.core:
            is_small = self.share_kept_by_default < _LEAST_KEPT
            result = f"keep only {self.share_kept_by_default:.0%} of these rows" if is_small else "leave no full slate"
            hint = "" if is_whole else ", but the whole file may bear more"
            lines.append(f"the default --core {_DEFAULT.core} would {result}; --core {self.core} is suggested{hint}")
        few = f"only {{}} of {self.users} users have at least {{}} {'slates' if self.has_slates else 'rows'}"
        unit = 1 if self.has_slates else self.slate_size
        of_size = f" of {self.slate_size} items" if self.has_slates else ""
        if 2 * self.users_with_slate < self.users:
            lines.append(few.format(self.users_with_slate, unit) + f"{of_size}, so most give nothing to learn from")
        elif 2 * self.users_with_split < self.users:
            need = "one slate each for training, validation and test"
            is_large = not self.has_slates and self.slate_size > 2
            remedy = f"{f'--slate-size {self.slate_size // 2} or ' if is_large else ''}--val-slates 0 needs fewer"
            lines.append(few.format(self.users_with_split, 3 * unit) + f"{of_size}, as {need} needs; {remedy}")
        return lines


def suggest_sizes(log: Interactions) -> Sizes:
    """Return the largest usual core that keeps enough rows and at least one slate, and the size of slates."""
    (user, _), (item, _) = codes(log.log["user"]), codes(log.log["item"])
    masks = {core: k_core(user, item, core) for core in _CORES}
    key = "slate" if log.has_slates else "user"
    for core, mask in masks.items():
        kept = log.log.filter(pl.Series(mask))
        lengths = kept.group_by(key).agg(pl.col("item").n_unique())["item"]
        slate_size = _slate_size(lengths, log.has_slates)
        is_default_size = slate_size == _DEFAULT.slate_size or log.has_slates
        if core == 1 or (np.mean(mask) >= _LEAST_KEPT and is_default_size):
            break
    of_user = _slates_of_users(log, slate_size)
    return Sizes(
        users=log.log["user"].n_unique(),
        items=log.log["item"].n_unique(),
        has_slates=log.has_slates,
        core=core,
        share_kept_by_default=float(np.mean(masks[_DEFAULT.core])),
        slate_size=slate_size,
        users_with_slate=int((of_user >= 1).sum()),
        users_with_split=int((of_user >= 3).sum()),
    )


def _slate_size(lengths: pl.Series, has_slates: bool) -> int:
    """Return the commonest length of slates that were shown, or the default as far as somebody has so many items."""
    if has_slates:
        usual = lengths.filter(lengths.is_between(2, _LONGEST_SLATE))
        if len(usual):
            return int(usual.mode().max())  # type: ignore[arg-type]
    return min(_DEFAULT.slate_size, int(lengths.max() or 1))  # type: ignore[arg-type]


def _slates_of_users(log: Interactions, slate_size: int) -> pl.Series:
    """Return how many slates each user has, in any order."""
    if not log.has_slates:
        return log.log.group_by("user").len()["len"] // slate_size
    items = log.log.group_by("user", "slate").agg(pl.col("item").n_unique())
    return items.filter(pl.col("item") >= slate_size).group_by("user").len()["len"]

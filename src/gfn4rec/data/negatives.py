"""Items that a user has not met, sampled into the slates of logs that hold positive responses only."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.slates import SPLITS, TRAIN, Ints
from gfn4rec.errors import UserError
from gfn4rec.seeding import numpy_generator


@dataclass(frozen=True)
class Unmet:
    """The items of the catalogue that each user has not met, with weights.

    Items lie side by side on a line, each as long as its weight. Each user has a line of their own, from which the
    items that the user has met are cut out. Users and items are numbered from 0.
    """

    bound_N: Ints  # item n lies from bound_N[n] to bound_N[n + 1] of the whole line
    first_U: Ints  # the items that user u has met are those from first_U[u] to first_U[u + 1] of the following
    cut_M: Ints  # where an item is cut out of its user's line, which begins at u times `span`
    length_M: Ints  # sum of the weights of the met items before

    @classmethod
    def of(cls, user_R: Ints, item_R: Ints, num_users: int, weight_N: Ints) -> "Unmet":
        """Return what is left of the catalogue, given pairs of a user and an item that the user has met."""
        user_M, item_M = np.divmod(np.unique(user_R * len(weight_N) + item_R), len(weight_N))
        bound_N = np.append(0, np.cumsum(weight_N))
        first_U = np.searchsorted(user_M, np.arange(num_users + 1))
        length_M = np.append(0, np.cumsum(weight_N[item_M]))
        cut_M = bound_N[item_M] - (length_M[:-1] - length_M[first_U[user_M]])
        return cls(bound_N, first_U, cut_M + user_M * (bound_N[-1] + 1), length_M)

    @property
    def span(self) -> int:
        """The distance between the beginnings of two lines; none is longer."""
        return int(self.bound_N[-1]) + 1

    def count(self) -> Ints:
        """Return the number of items that each user has not met."""
        counts: Ints = len(self.bound_N) - 1 - np.diff(self.first_U)
        return counts

    def draw(self, user_S: Ints, count: int, rng: np.random.Generator) -> Ints:
        """Draw different items, one after the other in proportion to the weights of those that are left, (S, count)."""
        met_S, end_S = self.length_M[self.first_U[user_S]], self.length_M[self.first_U[user_S + 1]]
        free_S = self.bound_N[-1] - (end_S - met_S)
        items, start_SX, weight_SX = [], np.empty((len(user_S), 0), np.int64), np.empty((len(user_S), 0), np.int64)
        for _ in range(count):
            place_S = rng.integers(0, free_S - weight_SX.sum(axis=1))
            for column_S in np.argsort(start_SX, axis=1).T:  # skip what was drawn before, from left to right
                start_S, weight_S = (each[np.arange(len(each)), column_S] for each in (start_SX, weight_SX))
                place_S += weight_S * (place_S >= start_S)
            num_cut_S = np.searchsorted(self.cut_M, place_S + user_S * self.span, side="right")
            cut_S = self.length_M[num_cut_S] - met_S
            item_S = np.searchsorted(self.bound_N, place_S + cut_S, side="right") - 1
            items.append(item_S)
            start_SX = np.column_stack([start_SX, self.bound_N[item_S] - cut_S])
            weight_SX = np.column_stack([weight_SX, np.diff(self.bound_N)[item_S]])
        return np.column_stack(items)


def refuse_impossible(config: PrepareConfig, has_slates: bool) -> None:
    """Raise an error unless slates can have as many sampled items as the settings say."""
    if not config.negatives:
        for name in ("negatives_by", "negatives_seed"):
            if getattr(config, name) != PrepareConfig.model_fields[name].default:
                raise UserError(f"--{name.replace('_', '-')} has no meaning without --negatives; leave it out")
        return
    wanted, size = f"--negatives {config.negatives}", config.slate_size
    if has_slates:
        raise UserError(
            f"{wanted}: the log says which items were shown together, so its slates have the items that nobody chose; "
            "leave out --negatives, or the column of slates (--slate-column)"
        )
    if config.negatives >= size:
        remedy = f"lower it to at most {size - 1}" if size > 1 else "raise --slate-size"
        raise UserError(f"{wanted}: a slate of {size} needs at least one item of the log; {remedy}")


def sample_negatives(
    log: pl.DataFrame, user_ids: pl.Series, row_SK: Ints, split_S: npt.NDArray[np.uint8], config: PrepareConfig
) -> pl.DataFrame:
    """Return the sampled items of slates and their places in them, N rows per slate; `row_SK` has its rows of the log.

    A held-out slate may hold an item that is sampled for a training slate. If it could not, the items that are never
    sampled for a user would give away what is held out.
    """
    user_R, item_R = (log[name].to_numpy().astype(np.int64) - 1 for name in ("user", "item"))
    num_users, num_items = len(user_ids), int(item_R.max()) + 1
    weight_N = np.ones(num_items, dtype=np.int64)
    if config.negatives_by == "popularity":
        is_training_R = _rows_before(row_SK[split_S > TRAIN, 0], user_R, num_users)
        weight_N += np.bincount(item_R[is_training_R], minlength=num_items)
    rng, user_S = numpy_generator(config.negatives_seed, "negatives"), user_R[row_SK[:, 0]]
    item_SX = np.empty((len(row_SK), config.negatives), dtype=np.uint32)
    for split in range(len(SPLITS)):
        is_known_R = _rows_before(row_SK[split_S > split, 0], user_R, num_users)
        unmet, is_here_S = Unmet.of(user_R[is_known_R], item_R[is_known_R], num_users, weight_N), split_S == split
        _refuse_few(unmet.count(), user_S[is_here_S], user_ids, config)
        item_SX[is_here_S] = unmet.draw(user_S[is_here_S], config.negatives, rng) + 1
    place_SX = rng.random((len(row_SK), config.slate_size)).argsort(axis=1)[:, : config.negatives]
    return pl.DataFrame({"item": item_SX.ravel(), "place": place_SX.ravel().astype(np.uint32)})


def _refuse_few(count_U: Ints, user_S: Ints, user_ids: pl.Series, config: PrepareConfig) -> None:
    few_S = user_S[count_U[user_S] < config.negatives]
    if len(few_S):
        user, count = user_ids[int(few_S[0])], int(count_U[few_S[0]])
        met, remedy = (f"all items but {count}", f"lower it to {count}") if count else ("all items", "leave it out")
        raise UserError(f"--negatives {config.negatives}: user {user} has met {met}; {remedy}, or leave out this user")


def _rows_before(row_X: Ints, user_R: Ints, num_users: int) -> npt.NDArray[np.bool_]:
    """Return which rows of the log come before all of these rows of their users."""
    end_U = np.full(num_users, len(user_R))
    np.minimum.at(end_U, user_R[row_X], row_X)
    is_before: npt.NDArray[np.bool_] = np.arange(len(user_R)) < end_U[user_R]
    return is_before

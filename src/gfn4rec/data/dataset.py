"""An opened data set: requests and slates as vectorised gathers from one log array, features as index tensors."""

from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gfn4rec.config import nearest
from gfn4rec.data.features import decode_features
from gfn4rec.data.interactions import Behaviour, Interactions, RawFile
from gfn4rec.data.manifest import FeatureEntry, Manifest
from gfn4rec.data.slates import SPLITS
from gfn4rec.data.storage import read_manifest
from gfn4rec.errors import UserError
from gfn4rec.schema import FeatureTensors, Request, SlateBatch

HISTORY_LENGTH = 50  # L of the paper


class SlateData:
    """A prepared data set in memory.

    Users and items are numbered from 1; 0 is padding. A log row, a slate: numbers from 0. The history of a request is
    the window of the log before its row, addressed by offsets and never copied until it is asked for.
    """

    def __init__(self, directory: Path, history_length: int = HISTORY_LENGTH, device: torch.device | str = "cpu"):
        self.manifest: Manifest = read_manifest(directory)
        self.history_length, self.device = history_length, torch.device(device)
        names = ("log", "slates", "users", "items")
        tables = {name: pl.read_parquet(directory / f"{name}.parquet", glob=False) for name in names}
        self.users, self.items, self._time = tables["users"], tables["items"], tables["log"]["time"]
        responses = np.stack([tables["log"][name].to_numpy() for name in self.behaviours], axis=1)

        def tensor(array: np.ndarray, dtype: torch.dtype) -> Tensor:
            return torch.tensor(array, dtype=dtype, device=device)

        self._user_row = tensor(tables["log"]["user"].to_numpy(), torch.int32)
        self._item_row = tensor(tables["log"]["item"].to_numpy(), torch.int32)
        self._response_row = tensor(responses, torch.uint8)
        first_row = self.users["first_row"].to_numpy()
        # The rows of user u are first_row_U[u] to first_row_U[u + 1]; user 0, the unknown one, has none.
        self.first_row_U = tensor(np.concatenate([[0], first_row, [tables["log"].height]]), torch.int64)
        slate_rows = tables["log"]["in_slate"].to_numpy().nonzero()[0]  # slates follow each other, K rows each
        self._slate_row = tensor(slate_rows.reshape(-1, self.slate_size), torch.int64)
        self._slate_split = tensor(tables["slates"]["split"].to_numpy(), torch.uint8)
        self.weight_R = tensor(np.array([each.weight for each in self.manifest.behaviours]), torch.float32)
        self.user_features = _feature_tensors(self.users, self.manifest.user_features).to(device)
        self.item_features = _feature_tensors(self.items, self.manifest.item_features).to(device)
        self._window = torch.arange(-history_length, 0, device=device)

    @classmethod
    def open(
        cls, directory: Path | str, history_length: int = HISTORY_LENGTH, device: torch.device | str = "cpu"
    ) -> Self:
        """Open a directory that `gfn4rec data prepare` wrote."""
        return cls(Path(directory), history_length, device)

    @property
    def num_users(self) -> int:
        return self.users.height

    @property
    def num_items(self) -> int:
        return self.items.height

    @property
    def num_rows(self) -> int:
        return len(self._item_row)

    @property
    def num_slates(self) -> int:
        return len(self._slate_row)

    @property
    def slate_size(self) -> int:
        return self.manifest.settings.slate_size

    @property
    def behaviours(self) -> tuple[str, ...]:
        return tuple(behaviour.name for behaviour in self.manifest.behaviours)

    def split(self, name: str) -> Tensor:
        """The numbers of the slates of a split: train, val or test."""
        if name not in SPLITS:
            raise UserError(f"no split {name!r}; {nearest(name, list(SPLITS))}")
        return torch.nonzero(self._slate_split == SPLITS.index(name)).squeeze(1)

    def training_rows(self) -> Tensor:
        """The log rows that a policy may learn from: each user's, up to the first slate that is held out."""
        row, is_held_out = torch.arange(self.num_rows, device=self.device), self._slate_split != SPLITS.index("train")
        first_row = self.first_rows(torch.nonzero(is_held_out).squeeze(1))
        end_U = self.first_row_U[1:].scatter_reduce(0, self.user_at(first_row), first_row, "amin")
        return row[row < end_U[self.user_at(row)]]

    def user_at(self, row: Tensor) -> Tensor:
        """The users of log rows, of any shape."""
        return self._user_row[row].long()

    def item_at(self, row: Tensor) -> Tensor:
        """The items of log rows, of any shape."""
        return self._item_row[row].long()

    def response_at(self, row: Tensor) -> Tensor:
        """The responses of log rows, (...) -> (..., R)."""
        return self._response_row[row].float()

    def requests(self, row_B: Tensor) -> Request:
        """The requests as they stood just before these log rows."""
        return self._windows(self.user_at(row_B), row_B[:, None] + self._window)

    def _windows(self, user_B: Tensor, index_BH: Tensor) -> Request:
        is_padding_BH = index_BH < self.first_row_U[user_B][:, None]
        index_BH = index_BH.clamp_(min=0)
        history_BH = self.item_at(index_BH).masked_fill_(is_padding_BH, 0)
        response_BHR = self.response_at(index_BH).masked_fill_(is_padding_BH[:, :, None], 0.0)
        return Request(user_B, history_BH, response_BHR)

    def items_of(self, user: int) -> Tensor:
        """The items of all events of a user, oldest first; the unknown user, 0, has none."""
        return self.item_at(torch.arange(int(self.first_row_U[user]), int(self.first_row_U[user + 1])))

    def latest(self, user_B: Tensor) -> Request:
        """The requests of users as they stand after the whole log; user 0 has no history."""
        index_BH = self.first_row_U[user_B + 1][:, None] + self._window
        return self._windows(user_B, index_BH)

    def slates(self, slate_B: Tensor) -> SlateBatch:
        """Logged slates with their answers, and the requests before them."""
        row_BK = self._slate_row[slate_B]
        response_BKR = self.response_at(row_BK)
        item_reward_BK = response_BKR @ self.weight_R
        return SlateBatch(
            request=self.requests(row_BK[:, 0]),
            slate_BK=self.item_at(row_BK),
            response_BKR=response_BKR,
            item_reward_BK=item_reward_BK,
            reward_B=item_reward_BK.mean(dim=1),
        )

    def first_rows(self, slate_B: Tensor) -> Tensor:
        """The log rows at which slates begin; a request before one is what the slate answered."""
        return self._slate_row[slate_B, 0]

    def interactions(self) -> Interactions:
        """The log with its raw ids and features: preparing it once more gives the same tables."""

        def raw(ids: pl.Series, number: Tensor) -> pl.Series:
            return ids[number.cpu().numpy().astype(np.int64) - 1]

        responses = self._response_row.cpu().numpy()
        log = pl.DataFrame(
            {
                "user": raw(self.users["id"], self._user_row),
                "item": raw(self.items["id"], self._item_row),
                "time": self._time,
            }
            | {name: responses[:, position] for position, name in enumerate(self.behaviours)}
        )
        return Interactions(
            log=log,
            behaviours=tuple(Behaviour(each.name, each.weight) for each in self.manifest.behaviours),
            users=decode_features(self.users, self.manifest.user_features),
            items=decode_features(self.items, self.manifest.item_features),
            raw_files=tuple(RawFile(file.name, partial(str, file.sha256)) for file in self.manifest.raw_files),
            timed=self.manifest.timed,
            origin=self.manifest.origin,
        )


def _feature_tensors(table: pl.DataFrame, entries: tuple[FeatureEntry, ...]) -> FeatureTensors:
    categorical, multi, numeric, num_values = {}, {}, {}, {}
    for entry in entries:
        column = table[entry.name]
        if entry.kind == "numeric":
            standardised = ((column - entry.mean) / entry.deviation).fill_null(0.0).to_numpy()
            numeric[entry.name] = torch.tensor(np.concatenate([[0.0], standardised]), dtype=torch.float32)
            continue
        num_values[entry.name] = 2 + len(entry.vocabulary)
        if entry.kind == "categorical":
            categorical[entry.name] = torch.tensor(np.concatenate([[0], column.to_numpy()]), dtype=torch.int64)
        else:
            multi[entry.name] = _padded(column)
    return FeatureTensors(categorical, multi, numeric, num_values)


def _padded(lists: pl.Series) -> Tensor:
    """Lists of indices as a matrix with zeros on the right, and a row of zeros in front for the padding item."""
    length = np.concatenate([[0], lists.list.len().to_numpy()])
    padded = np.zeros((len(length), length.max()), dtype=np.int64)
    padded[np.arange(padded.shape[1]) < length[:, None]] = lists.explode().to_numpy()
    return torch.tensor(padded)

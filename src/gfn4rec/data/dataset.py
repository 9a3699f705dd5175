"""An opened data set: requests and slates gathered from one log array, features as index tensors."""

import copy
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gfn4rec.config import nearest
from gfn4rec.data.feature_tensors import feature_tensors
from gfn4rec.data.features import decode_features
from gfn4rec.data.interactions import SHOWN_COLUMNS, Behaviour, Interactions, RawFile
from gfn4rec.data.manifest import Manifest
from gfn4rec.data.sessions import offsets
from gfn4rec.data.slates import SPLITS
from gfn4rec.data.storage import read_manifest
from gfn4rec.errors import UserError
from gfn4rec.schema import Request, SlateBatch

HISTORY_LENGTH = 50  # L of the paper


class SlateData:
    """A prepared data set in memory.

    Users and items are numbered from 1; 0 is padding. Log rows and slates are numbered from 0. The history of a request
    is a window of the rows before it, copied only when it is asked for: rows of its user or, if the data set has
    sessions, of its session. These are all rows, or only those with a response; the rows of histories are numbered,
    too, and the number of one is its place.

    >>> from gfn4rec.data.prepare import PrepareConfig, prepare
    >>> from gfn4rec.data.read import read_data
    >>> manifest = prepare(read_data("synthetic-tiny"), PrepareConfig(), "data/tiny")
    >>> data = SlateData.open("data/tiny", history_length=20)
    >>> data.behaviours
    ('click', 'like', 'share', 'hate')
    >>> batch = data.slates(data.split("test")[:3])
    >>> batch.slate_BK.shape, batch.response_BKR.shape, batch.request.history_BH.shape
    (torch.Size([3, 6]), torch.Size([3, 6, 4]), torch.Size([3, 20]))
    """

    def __init__(self, directory: Path, history_length: int = HISTORY_LENGTH, device: torch.device | str = "cpu"):
        self.directory = directory
        self.manifest: Manifest = read_manifest(directory)
        self.history_length, self.device = history_length, torch.device(device)
        names = ("log", "slates", "users", "items")
        tables = {name: pl.read_parquet(directory / f"{name}.parquet", glob=False) for name in names}
        self.users, self.items, self._time = tables["users"], tables["items"], tables["log"]["time"]
        self._shown = tables["log"].select(name for name in SHOWN_COLUMNS if name in tables["log"].columns)
        if self.manifest.settings.session_gap is not None:
            self._shown = self._shown.drop("session")  # it is no column of the raw log
        responses = np.stack([tables["log"][name].to_numpy() for name in self.behaviours], axis=1)

        def tensor(array: np.ndarray, dtype: torch.dtype) -> Tensor:
            return torch.tensor(array, dtype=dtype, device=device)

        self._user_row = tensor(tables["log"]["user"].to_numpy(), torch.int32)
        self._item_row = tensor(tables["log"]["item"].to_numpy(), torch.int32)
        self._response_row = tensor(responses, torch.uint8)
        first_row = self.users["first_row"].to_numpy()
        # The rows of user u are first_row_U[u] to first_row_U[u + 1]; user 0, the unknown one, has none.
        self.first_row_U = tensor(np.concatenate([[0], first_row, [tables["log"].height]]), torch.int64)
        self._index_histories(tables["log"], responses)
        slate_rows = tables["log"]["in_slate"].to_numpy().nonzero()[0]  # slate after slate, as many rows each
        self._slate_row = tensor(slate_rows.reshape(-1, self.manifest.settings.logged_size), torch.int64)
        self._negatives: tuple[Tensor, Tensor] | None = None  # items and their places in the slates
        if num_negatives := self.manifest.settings.negatives:
            table = pl.read_parquet(directory / "negatives.parquet", glob=False)
            item, place = (table[name].to_numpy().reshape(-1, num_negatives) for name in ("item", "place"))
            self._negatives = tensor(item, torch.int32), tensor(place, torch.int64)
        self._slate_split = tensor(tables["slates"]["split"].to_numpy(), torch.uint8)
        self.weight_R = tensor(np.array([behaviour.weight for behaviour in self.manifest.behaviours]), torch.float32)
        self.user_features = feature_tensors(self.users, self.manifest.user_features).to(device)
        self.item_features = feature_tensors(self.items, self.manifest.item_features).to(device)
        self._window = torch.arange(-history_length, 0, device=device)
        self._index_shown_slates()

    def _index_shown_slates(self) -> None:
        """Find out where the slates of rows begin, and the positions of rows in them, as far as the log says so."""
        self._slate_start_row: Tensor | None = None
        if "slate" in self._shown.columns:
            starts = offsets(self._shown["slate"])
            self._slate_start_row = torch.tensor(np.repeat(starts[:-1], np.diff(starts)), device=self.device)
        self._position_row: Tensor | None = None
        if "position" in self._shown.columns:
            from_first = (self._shown["position"] - self._shown["position"].min()).clip(0, self.slate_size - 1)
            self._position_row = torch.tensor(from_first.to_numpy(), dtype=torch.int32, device=self.device)

    def _index_histories(self, log: pl.DataFrame, responses: np.ndarray) -> None:
        """Find out where sessions begin and which rows histories hold; without sessions, a user's rows are one."""
        self._session_row: Tensor | None = None
        self.session_starts = self.first_row_U[1:-1]
        if self.manifest.statistics.sessions:
            self._session_row = torch.tensor(log["session"].to_numpy(), dtype=torch.int32, device=self.device)
            self.session_starts = torch.tensor(offsets(log["session"])[:-1], device=self.device)
        self._place_row: Tensor | None = None
        if self.is_responded_only:
            is_responded = responses.any(axis=1)
            self._place_row = torch.tensor(np.append(0, np.cumsum(is_responded)), device=self.device)
            # There is one row at least, to address padding by.
            self._row_at_place = torch.tensor(np.append(np.flatnonzero(is_responded), 0), device=self.device)

    @classmethod
    def open(
        cls, directory: Path | str, history_length: int = HISTORY_LENGTH, device: torch.device | str = "cpu"
    ) -> Self:
        """Open a directory that `gfn4rec data prepare` wrote."""
        return cls(Path(directory), history_length, device)

    def with_history(self, length: int) -> Self:
        """Return the same data set with histories of another length; the arrays are shared."""
        if length == self.history_length:
            return self
        other = copy.copy(self)
        other.history_length, other._window = length, torch.arange(-length, 0, device=self.device)
        return other

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
    def is_responded_only(self) -> bool:
        """Whether histories hold only rows with at least one response."""
        return self.manifest.settings.history == "responded"

    @property
    def behaviours(self) -> tuple[str, ...]:
        return tuple(behaviour.name for behaviour in self.manifest.behaviours)

    def split(self, name: str) -> Tensor:
        """Return the numbers of the slates of a split: train, val or test."""
        if name not in SPLITS:
            raise UserError(f"no split {name!r}; {nearest(name, list(SPLITS))}")
        return torch.nonzero(self._slate_split == SPLITS.index(name)).squeeze(1)

    def training_rows(self) -> Tensor:
        """Return the log rows that a policy may learn from: those before the first held-out slate of a user."""
        row, is_held_out = torch.arange(self.num_rows, device=self.device), self._slate_split != SPLITS.index("train")
        first_row = self.first_rows(torch.nonzero(is_held_out).squeeze(1))
        end_U = self.first_row_U[1:].scatter_reduce(0, self.user_at(first_row), first_row, "amin")
        return row[row < end_U[self.user_at(row)]]

    def user_at(self, row: Tensor) -> Tensor:
        """Return the users of log rows, of any shape."""
        return self._user_row[row].long()

    def item_at(self, row: Tensor) -> Tensor:
        """Return the items of log rows, of any shape."""
        return self._item_row[row].long()

    @property
    def has_positions(self) -> bool:
        """Whether the log says at which position of a slate an item was shown."""
        return self._position_row is not None

    def before_response(self, row: Tensor) -> Tensor:
        """Return the rows whose requests came before the responses in other rows.

        Items that were shown together were responded to together: the request is the one before their slate.
        """
        return row if self._slate_start_row is None else self._slate_start_row[row]

    def position_at(self, row: Tensor) -> Tensor:
        """Return the positions of log rows in their slates, from 0 to K - 1; later ones count as the last of them."""
        assert self._position_row is not None
        return self._position_row[row].long()

    def response_at(self, row: Tensor) -> Tensor:
        """Return the responses of log rows, (...) -> (..., R)."""
        return self._response_row[row].float()

    def requests(self, row_B: Tensor) -> Request:
        """Return the requests just before these log rows."""
        return self._before(self.user_at(row_B), row_B, self.session_start(row_B))

    def _before(self, user_B: Tensor, row_B: Tensor, start_B: Tensor) -> Request:
        """Return the requests before these rows, with histories from other rows on."""
        place_BH = self.history_place(row_B)[:, None] + self._window
        return self.request_of(user_B, place_BH, place_BH >= self.history_place(start_B)[:, None])

    def session_start(self, row: Tensor) -> Tensor:
        """Return the first rows of the sessions of log rows; without sessions, those of their users."""
        return self.session_starts[self.user_at(row) - 1 if self._session_row is None else self._session_row[row]]

    def history_place(self, row: Tensor) -> Tensor:
        """Return how many rows of histories are before log rows; `row` may be the number of rows."""
        return row if self._place_row is None else self._place_row[row]

    def request_of(self, user_B: Tensor, place_BH: Tensor, is_event_BH: Tensor) -> Request:
        """Return requests whose histories hold the rows at these places, and padding where there is no event."""
        place_BH = place_BH.masked_fill(~is_event_BH, 0)
        row_BH = place_BH if self._place_row is None else self._row_at_place[place_BH]
        history_BH = self.item_at(row_BH).masked_fill_(~is_event_BH, 0)
        response_BHR = self.response_at(row_BH).masked_fill_(~is_event_BH[:, :, None], 0.0)
        return Request(user_B, history_BH, response_BHR)

    def items_of(self, user: int) -> Tensor:
        """Return the items of all events of a user, oldest first; the unknown user, 0, has none."""
        return self.item_at(torch.arange(int(self.first_row_U[user]), int(self.first_row_U[user + 1])))

    def latest(self, user_B: Tensor) -> Request:
        """Return the requests of users after the whole log, with the histories of their last sessions.

        User 0 has no history.
        """
        end_B = self.first_row_U[user_B + 1]
        start_B = self.session_start((end_B - 1).clamp_(min=0))
        return self._before(user_B, end_B, torch.where(user_B > 0, start_B, end_B))

    def slates(self, slate_B: Tensor) -> SlateBatch:
        """Return logged slates with their responses, and the requests before them."""
        row_BX = self._slate_row[slate_B]
        request, slate_BK, response_BKR = self.requests(row_BX[:, 0]), self.item_at(row_BX), self.response_at(row_BX)
        is_sampled_BK = None
        if self._negatives is not None:
            negative_BX, place_BX = (values[slate_B] for values in self._negatives)
            logged, shape = (slate_BK, response_BKR), (len(slate_B), self.slate_size)
            is_sampled_BK = torch.zeros(shape, dtype=torch.bool, device=self.device).scatter_(1, place_BX, True)
            slate_BK = slate_BK.new_zeros(shape).scatter_(1, place_BX, negative_BX.long())
            response_BKR = response_BKR.new_zeros(*shape, len(self.weight_R))
            slate_BK[~is_sampled_BK], response_BKR[~is_sampled_BK] = (values.flatten(0, 1) for values in logged)
        return SlateBatch.of(request, slate_BK, response_BKR, self.weight_R, True, is_sampled_BK)

    def first_rows(self, slate_B: Tensor) -> Tensor:
        """Return the first log rows of slates; the request of a slate is the one before its first row."""
        return self._slate_row[slate_B, 0]

    def interactions(self) -> Interactions:
        """Return the log with its raw ids and features; preparing it again gives the same tables."""

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
        ).hstack(self._shown)
        return Interactions(
            log=log,
            behaviours=tuple(Behaviour(entry.name, entry.weight) for entry in self.manifest.behaviours),
            users=decode_features(self.users, self.manifest.user_features),
            items=decode_features(self.items, self.manifest.item_features),
            raw_files=tuple(RawFile(file.name, partial(str, file.sha256)) for file in self.manifest.raw_files),
            timed=self.manifest.timed,
            origin=self.manifest.origin,
            rho=self.manifest.rho,
        )

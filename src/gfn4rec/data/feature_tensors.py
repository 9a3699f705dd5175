"""Features as tensors: those of a data set, and of items that are added or changed later."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gfn4rec.data.features import ValueEncoder
from gfn4rec.data.manifest import FeatureEntry
from gfn4rec.schema import FeatureTensors


def feature_tensors(table: pl.DataFrame, entries: tuple[FeatureEntry, ...]) -> FeatureTensors:
    """Return the features in a table of users or items, after a first row of padding."""
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
    """Return lists of indices as a matrix, padded with zeros, with a first row of zeros for the padding item."""
    length = np.concatenate([[0], lists.list.len().to_numpy()])
    padded = np.zeros((len(length), length.max()), dtype=np.int64)
    padded[np.arange(padded.shape[1]) < length[:, None]] = lists.explode().to_numpy()
    return torch.tensor(padded)


def with_items(
    features: FeatureTensors,
    entries: Sequence[FeatureEntry],
    num_items: int,
    given: Mapping[int, Mapping[str, object]],
) -> FeatureTensors:
    """Return the features of the items of a data set and of more items, up to the number `num_items`.

    `given` has raw values by the item's number and the feature's name. A feature that is not given stays as it is in
    the data set; that of an item that is not in the data set is unknown.
    """
    kinds: dict[str, dict[str, Tensor]] = {"categorical": {}, "multi": {}, "numeric": {}}
    for entry in entries:
        known, encoder = getattr(features, entry.kind)[entry.name], ValueEncoder(entry)
        rows = dict.fromkeys(range(len(known), num_items + 1), encoder.unknown)
        rows |= {number: encoder.encode(row[entry.name]) for number, row in given.items() if entry.name in row}
        kinds[entry.kind][entry.name] = _with_rows(known, num_items, rows)
    return FeatureTensors(**kinds, num_values=features.num_values)


def _with_rows(known: Tensor, num_items: int, rows: Mapping[int, Sequence[float]]) -> Tensor:
    """Return the values of all items, given those of some rows; others are as before, wider ones padded with 0."""
    num_known, width = len(known), max([known[0].numel(), *map(len, rows.values())])
    values_NM = known.new_zeros(num_items + 1, width)
    values_NM[:num_known, : known[0].numel()] = known.view(num_known, -1)
    if rows:
        padded = [[*row, *[0] * (width - len(row))] for row in rows.values()]
        values_NM[list(rows)] = torch.tensor(padded, dtype=known.dtype, device=known.device)
    return values_NM if known.dim() == 2 else values_NM[:, 0]

"""Features of items that are added or changed after the data set was prepared."""

import math

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.feature_tensors import with_items
from gfn4rec.data.features import ValueEncoder, decode_features
from gfn4rec.data.manifest import FeatureEntry
from gfn4rec.errors import UserError
from gfn4rec.schema import FeatureTensors

GENRE = FeatureEntry(name="genre", kind="categorical", num_unknown=0, vocabulary=("drama", "comedy", "7"))
TAGS = FeatureEntry(name="tags", kind="multi", num_unknown=0, vocabulary=("old", "short", "blue"))
LENGTH = FeatureEntry(name="length", kind="numeric", num_unknown=0, mean=90.0, deviation=20.0)
ENTRIES = (GENRE, TAGS, LENGTH)
KNOWN = FeatureTensors(  # of two items
    categorical={"genre": torch.tensor([0, 2, 3])},
    multi={"tags": torch.tensor([[0], [2], [4]])},
    numeric={"length": torch.tensor([0.0, -1.5, 1.5])},
    num_values={"genre": 5, "tags": 5},
)


@pytest.mark.parametrize(
    ("entry", "value", "code", "not_known"),
    [
        (GENRE, "comedy", [3], []),
        (GENRE, " comedy ", [3], []),
        (GENRE, 7, [4], []),
        (GENRE, 7.0, [4], []),
        (GENRE, "western", [1], ["western"]),
        (GENRE, None, [1], []),
        (GENRE, "", [1], []),
        (TAGS, ["blue", "old", "blue"], [4, 2], []),
        (TAGS, "short", [3], []),
        (TAGS, ["loud", "old", "wet"], [2], ["loud", "wet"]),
        (TAGS, ["loud"], [1], ["loud"]),
        (TAGS, [], [1], []),
        (TAGS, None, [1], []),
        (LENGTH, 120, [1.5], []),
        (LENGTH, "100", [0.5], []),
        (LENGTH, 1e300, [1e6], []),  # finite, and no square of it overflows
        (LENGTH, -1e300, [-1e6], []),
        (LENGTH, None, [0.0], []),
    ],
)
def test_values_by_hand(entry: FeatureEntry, value: object, code: list[float], not_known: list[str]) -> None:
    encoder = ValueEncoder(entry)
    assert list(encoder.encode(value)) == code
    assert encoder.not_known(value) == not_known


@pytest.mark.parametrize(
    ("entry", "value", "problem"),
    [
        (GENRE, ["drama"], "feature genre: takes one value, not a list"),
        (LENGTH, "long", "feature length: takes a number, not 'long'"),
        (LENGTH, math.inf, "feature length: takes a number, not inf"),
        (LENGTH, "nan", "feature length: takes a number, not 'nan'"),
        (LENGTH, [90], "feature length: takes a number, not [90]"),
    ],
)
def test_values_of_another_kind_are_refused(entry: FeatureEntry, value: object, problem: str) -> None:
    with pytest.raises(UserError) as error:
        ValueEncoder(entry).not_known(value)
    assert str(error.value) == problem


def test_items_are_added_and_changed() -> None:
    given: dict[int, dict[str, object]] = {
        2: {"genre": "drama"},
        3: {"tags": ["old", "blue"], "length": 50},
        5: {"genre": "comedy"},
    }
    later = with_items(KNOWN, ENTRIES, 5, given)
    assert later.categorical["genre"].tolist() == [0, 2, 2, 1, 1, 3]
    assert later.multi["tags"].tolist() == [[0, 0], [2, 0], [4, 0], [2, 4], [1, 0], [1, 0]]
    assert later.numeric["length"].tolist() == [0.0, -1.5, 1.5, -2.0, 0.0, 0.0]
    assert later.num_values == KNOWN.num_values
    assert KNOWN.categorical["genre"].tolist() == [0, 2, 3]
    for kind in ("categorical", "multi", "numeric"):
        for name, tensor in getattr(with_items(KNOWN, ENTRIES, 2, {}), kind).items():
            assert torch.equal(tensor, getattr(KNOWN, kind)[name])
            assert tensor.dtype == getattr(KNOWN, kind)[name].dtype


def test_raw_values_are_encoded_as_when_the_data_set_was_prepared(data: SlateData) -> None:
    entries = data.manifest.item_features
    assert {entry.kind for entry in entries} == {"categorical", "multi", "numeric"}
    raw = decode_features(data.items, entries).frame.drop("id").collect().to_dicts()
    twice = with_items(data.item_features, entries, 2 * data.num_items, dict(enumerate(raw, data.num_items + 1)))
    for kind in ("categorical", "multi", "numeric"):
        for name, known in getattr(data.item_features, kind).items():
            later = getattr(twice, kind)[name]
            assert torch.equal(later[: data.num_items + 1], known)
            assert torch.equal(later[data.num_items + 1 :], known[1:]), name

"""What a change of the catalogue leaves out, and what is said of features that the data set does not know."""

import pytest

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live.growth import feature_notes
from gfn4rec.live.items import LiveItems
from gfn4rec.live.records import Features, ItemChange


def test_an_item_of_the_log_keeps_what_a_change_leaves_out(data: SlateData) -> None:
    first = LiveItems.of(data)
    known = first.at(7)
    assert known.title is not None
    changes = [
        ItemChange(1, known.id, False, known.title, {}),
        ItemChange(2, known.id, True, None, {"category": "category 1"}),
        ItemChange(3, known.id, True, "another", {}),
    ]
    off, changed, again = (first.after(changes[: number + 1]).at(7) for number in range(3))
    assert (off.title, off.features, off.is_enabled) == (known.title, None, False)
    assert (changed.title, changed.features, changed.is_enabled) == (known.title, {"category": "category 1"}, True)
    assert (again.title, again.features, again.number) == ("another", None, 7)
    assert (first.at(7), first.features()) == (known, {})


def test_a_new_item_is_what_its_last_change_says(data: SlateData) -> None:
    changes = [ItemChange(1, "new", True, "a title", {"length": 3.0}), ItemChange(2, "new", True, None, {})]
    one, two = (LiveItems.of(data).after(changes[: number + 1]) for number in range(2))
    assert (one.get("new").title, one.features()) == ("a title", {61: {"length": 3.0}})
    assert (two.get("new").title, two.features()) == (None, {61: {}})
    assert LiveItems.of(data).after(changes[:1]).after(changes[1:]).get("new") == two.get("new")


def test_notes_name_what_is_not_known(data: SlateData) -> None:
    known: Features = {"category": "category 1", "tags": ["tag 1"], "length": 3}
    assert feature_notes(data, known) == []
    assert feature_notes(data, {"category": None, "tags": [], "length": None}) == []
    notes = feature_notes(data, {"category": "category 99", "tags": ["tag 1", "loud", "wet"]})
    assert notes == [
        "feature category: the data set does not know category 99; taken as unknown",
        "feature tags: the data set does not know loud, wet; taken as unknown",
    ]


@pytest.mark.parametrize(
    ("features", "problem"),
    [
        ({"categorie": "category 1"}, "the data set has no feature 'categorie' of items; did you mean 'category'?"),
        ({"xyz": 1}, "the data set has no feature 'xyz' of items; choose from category, tags, length"),
        ({"length": "long"}, "feature length: takes a number, not 'long'"),
        ({"category": ["category 1"]}, "feature category: takes one value, not a list"),
    ],
)
def test_features_that_cannot_be(data: SlateData, features: Features, problem: str) -> None:
    with pytest.raises(UserError) as error:
        feature_notes(data, features)
    assert str(error.value) == problem


def test_a_data_set_without_features_of_items(live_data: SlateData) -> None:
    assert feature_notes(live_data, {}) == []
    with pytest.raises(UserError, match="no feature 'genre' of items; its items have no features"):
        feature_notes(live_data, {"genre": "drama"})

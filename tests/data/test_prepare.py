"""From a log to a prepared directory: numbers worked out by hand, and properties that hold for every log."""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Behaviour, Feature, FeatureTable, Interactions, RawFile
from gfn4rec.data.manifest import Manifest, PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.errors import UserError
from tests.conftest import make_interactions

ALL = PrepareConfig(core=1, slate_size=2, test_slates=1, val_slates=1)

logs = st.lists(
    st.tuples(st.integers(-3, 4), st.integers(1, 6), st.integers(0, 8), st.integers(0, 1)), min_size=6, max_size=60
)


def read_back(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_order_numbers_and_slates_by_hand(tmp_path: Path) -> None:
    # Users "10" and "9" sort as numbers; rows by time, ties in file order; items by first appearance.
    rows: list[tuple[int | str, int | str, int, int]] = [
        (10, "x", 5, 1),
        (9, "y", 3, 0),
        (10, "z", 1, 0),
        (9, "w", 3, 1),
        (9, "x", 1, 1),
        (10, "y", 5, 0),
        (9, "x", 9, 0),
    ]
    prepare(make_interactions(rows), ALL, tmp_path / "out", "hand")
    log = pl.read_parquet(tmp_path / "out" / "log.parquet")
    assert log.rows() == [
        (1, 1, 1, True, True),  # user 9: x at 1
        (1, 2, 3, False, True),  # y before w: file order at equal time
        (1, 3, 3, True, True),
        (1, 1, 9, False, True),
        (2, 4, 1, False, False),  # user 10: z, left over, then x before y
        (2, 1, 5, True, True),
        (2, 2, 5, False, True),
    ]
    data = SlateData.open(tmp_path / "out")
    assert data.users["id"].to_list() == [9, 10]
    assert data.items["id"].to_list() == ["x", "y", "w", "z"]
    assert pl.read_parquet(tmp_path / "out" / "slates.parquet")["split"].to_list() == [0, 2, 0]


def test_ids_of_any_span_are_numbered_alike(tmp_path: Path) -> None:
    compact = [(user, item, time, 1) for user in (1, 2) for time, item in enumerate((3, 1, 2, 4))]
    sparse = [(user * 10**15, item * -(10**14), time, 1) for user, item, time, _ in compact]
    text = [(f"u{user}", f"i{item}", time, 1) for user, item, time, _ in compact]
    tables = []
    logs: list[list[tuple[int | str, int | str, int, int]]] = [[*compact], [*sparse], [*text]]
    for number, rows in enumerate(logs):
        prepare(make_interactions(rows), ALL, tmp_path / str(number), "x")
        tables.append(pl.read_parquet(tmp_path / str(number) / "log.parquet"))
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


def test_duplicates_are_dropped_and_counted_after_the_filter(tmp_path: Path) -> None:
    rows: list[tuple[int | str, int | str, int, int]] = [
        (1, 1, 1, 1),
        (1, 1, 1, 1),  # the same once more
        (1, 2, 2, 0),
        (1, 2, 2, 1),  # the same with another response: the first is kept
        (1, 1, 3, 0),  # another time: another visit
        (2, 9, 1, 0),  # too rare for a core of 2
    ]
    manifest = prepare(make_interactions(rows), ALL.model_copy(update={"core": 2}), tmp_path / "out", "x")
    counts = manifest.statistics
    assert (counts.raw_records, counts.raw_users, counts.raw_items) == (6, 2, 3)
    assert (counts.records, counts.users, counts.items) == (5, 1, 2)
    assert (counts.duplicate_records, counts.conflicting_duplicates, counts.rows) == (2, 1, 3)
    assert pl.read_parquet(tmp_path / "out" / "log.parquet")["click"].to_list() == [1, 0, 0]


def test_without_times_a_repetition_is_a_second_visit(tmp_path: Path) -> None:
    rows: list[tuple[int | str, int | str, int, int]] = [(1, 1, 0, 1), (1, 2, 0, 0), (1, 1, 0, 1), (1, 2, 0, 1)]
    manifest = prepare(make_interactions(rows, timed=False), ALL, tmp_path / "out", "x")
    assert manifest.statistics.duplicate_records == 0
    assert not manifest.timed
    again = prepare(SlateData.open(tmp_path / "out").interactions(), ALL, tmp_path / "again", "x")
    assert again == manifest


def test_an_empty_core_says_which_k_keeps_something(tmp_path: Path) -> None:
    interactions = make_interactions([(user, item, item, 1) for user in range(3) for item in range(4)])
    with pytest.raises(UserError, match="--core 5 leaves nothing of the log; 3 is the largest core"):
        prepare(interactions, PrepareConfig(core=5), tmp_path / "out", "x")
    assert not (tmp_path / "out").exists()


def test_a_slate_size_beyond_every_log_says_what_there_is(tmp_path: Path) -> None:
    interactions = make_interactions([(user, item % 4, item, 1) for user in range(3) for item in range(9)])
    with pytest.raises(UserError, match="--slate-size 6: no user has that many distinct items; the most any has is 4"):
        prepare(interactions, PrepareConfig(core=1), tmp_path / "out", "x")


def test_short_users_are_counted(tmp_path: Path) -> None:
    lengths = {1: 1, 2: 2, 3: 4, 4: 6, 5: 8, 6: 1}  # 0, 1, 2, 3, 4 and 0 slates of two
    rows = [(user, item, item, 1) for user, length in lengths.items() for item in range(length)]
    counts = prepare(make_interactions(list(rows)), ALL, tmp_path / "out", "x").statistics
    assert (counts.slates, counts.train_slates, counts.val_slates, counts.test_slates) == (10, 5, 2, 3)
    assert (counts.users_without_slate, counts.users_without_test, counts.users_without_val) == (2, 1, 2)
    two = prepare(
        make_interactions(list(rows)), ALL.model_copy(update={"test_slates": 2, "val_slates": 0}), tmp_path / "b", "x"
    )
    assert (two.statistics.users_short_of_test, two.statistics.users_without_test) == (2, 1)
    assert (two.statistics.users_short_of_val, two.statistics.users_without_val) == (0, 0)
    assert (counts.rows_in_slates, counts.rows_leading, counts.rows_skipped, counts.longest_log) == (20, 2, 0, 8)


@settings(max_examples=40)
@given(logs, st.integers(1, 3), st.integers(1, 3))
def test_properties_of_every_prepared_log(log: list[tuple[int, int, int, int]], core: int, slate_size: int) -> None:
    config = PrepareConfig(core=core, slate_size=slate_size, test_slates=1, val_slates=1)
    with tempfile.TemporaryDirectory() as folder:
        first, second, again = (Path(folder) / name for name in ("first", "second", "again"))
        try:
            manifest = prepare(make_interactions(list(log)), config, first, "x")
        except UserError:  # nothing is left of this log
            return
        prepare(make_interactions(list(log)), config, second, "x")
        assert read_back(first) == read_back(second)
        check_no_leak(first, manifest)
        # What is filtered stays as it is when it is prepared once more.
        prepare(SlateData.open(first).interactions(), config.model_copy(update={"core": 1}), again, "x")
        tables, tables_again = read_back(first), read_back(again)
        del tables["manifest.json"], tables_again["manifest.json"]
        assert tables == tables_again
        if not manifest.statistics.duplicate_records:
            repeated = prepare(SlateData.open(first).interactions(), config, again, "x")
            removed = {"raw_records": 0, "raw_users": 0, "raw_items": 0}
            assert repeated.model_copy(update={"statistics": None}) == manifest.model_copy(update={"statistics": None})
            assert repeated.statistics.model_copy(update=removed) == manifest.statistics.model_copy(update=removed)


def check_no_leak(directory: Path, manifest: Manifest) -> None:
    """Histories end before their slate, and no training slate shares a row with, or comes after, a held-out one."""
    log = pl.read_parquet(directory / "log.parquet")
    slates = pl.read_parquet(directory / "slates.parquet")
    rows = np.flatnonzero(log["in_slate"].to_numpy()).reshape(slates.height, -1)
    data = SlateData.open(directory, history_length=100)
    for number, slate in enumerate(rows):
        user = log["user"][int(slate[0])]
        before = log.head(int(slate[0])).filter(pl.col("user") == user)
        history = data.slates(data.split("train").new_tensor([number])).request.history_BH[0]
        assert history[history > 0].tolist() == before["item"].to_list()
    by_split = {split: set(rows[(slates["split"] == split).to_numpy()].ravel().tolist()) for split in range(3)}
    assert not by_split[0] & by_split[1]
    assert not (by_split[0] | by_split[1]) & by_split[2]
    user_of_row = log["user"].to_list()
    for split in (1, 2):
        for row in by_split[split]:
            earlier = [
                other for lower in range(split) for other in by_split[lower] if user_of_row[other] == user_of_row[row]
            ]
            assert all(other < row for other in earlier)
    assert manifest.statistics.rows == log.height


def feature_interactions() -> Interactions:
    log = make_interactions([(user, item, item, 1) for user in (1, 2) for item in (10, 20, 30)]).log
    items = pl.LazyFrame(
        {
            "id": [99, 10, 20],
            "title": ["not kept", "ten", "twenty"],
            "kind": ["b", "a", "b"],
            "tags": [["z", "y"], ["x", "y", "x"], None],
            "price": [5.0, 1.0, 3.0],
        }
    )
    features = (Feature("kind", "categorical"), Feature("tags", "multi"), Feature("price", "numeric"))
    raw_files = (RawFile("log.csv", lambda: "0123", log.height),)
    return Interactions(log, (Behaviour("click"),), items=FeatureTable(items, features, "items"), raw_files=raw_files)


def test_features_count_in_raw_order_and_unknowns_are_counted(tmp_path: Path) -> None:
    manifest = prepare(feature_interactions(), ALL, tmp_path / "out", "x")
    kind, tags, price = manifest.item_features
    # "b" comes first in the raw table though its first row is not kept; "z" belongs to no kept item.
    assert (kind.vocabulary, kind.num_unknown) == (("b", "a"), 1)
    assert (tags.vocabulary, tags.num_unknown) == (("y", "x"), 2)
    assert (price.mean, price.deviation, price.num_unknown) == (2.0, 1.0, 1)
    features = SlateData.open(tmp_path / "out").item_features
    assert features.categorical["kind"].tolist() == [0, 3, 2, 1]
    assert features.multi["tags"].tolist() == [[0, 0], [3, 2], [1, 0], [1, 0]]
    assert features.numeric["price"].tolist() == [0.0, -1.0, 1.0, 0.0]
    assert features.num_values == {"kind": 4, "tags": 4}


def test_empty_text_and_not_a_number_are_unknown_and_a_constant_is_only_centred(tmp_path: Path) -> None:
    log = make_interactions([(1, item, item, 1) for item in (10, 20, 30)])
    items = pl.LazyFrame(
        {
            "id": [10, 20, 30],
            "kind": ["", "a", "a"],
            "tags": [["", "p"], [""], []],
            "price": [4.0, float("nan"), 4.0],
            "nothing": [None, None, None],
        },
        schema_overrides={"nothing": pl.Float64},
    )
    features = (
        Feature("kind", "categorical"),
        Feature("tags", "multi"),
        Feature("price", "numeric"),
        Feature("nothing", "numeric"),
    )
    table = FeatureTable(items, features)
    manifest = prepare(Interactions(log.log, log.behaviours, items=table), ALL, tmp_path / "out", "x")
    kind, tags, price, nothing = manifest.item_features
    assert (kind.vocabulary, kind.num_unknown) == (("a",), 1)
    assert (tags.vocabulary, tags.num_unknown) == (("p",), 2)
    assert (price.mean, price.deviation, price.num_unknown) == (4.0, 1.0, 1)
    assert (nothing.mean, nothing.deviation, nothing.num_unknown) == (0.0, 1.0, 3)
    opened = SlateData.open(tmp_path / "out").item_features
    assert opened.multi["tags"].tolist() == [[0], [2], [1], [1]]
    assert opened.numeric["price"].tolist() == [0.0, 0.0, 0.0, 0.0]


def test_features_of_many_items_stay_with_their_items(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    num_items = 5_000
    log = make_interactions([(1, int(item), time, 1) for time, item in enumerate(rng.permutation(num_items))])
    values = [f"v{item % 97}" for item in range(num_items)]
    tags = [[f"t{item % 89}", f"t{item % 7}", f"t{item % 89}"] for item in range(num_items)]
    items = pl.LazyFrame({"id": range(num_items), "kind": values, "tags": tags})
    table = FeatureTable(items, (Feature("kind", "categorical"), Feature("tags", "multi")))
    manifest = prepare(Interactions(log.log, log.behaviours, items=table), ALL, tmp_path / "out", "x")
    kind, tag = manifest.item_features
    assert kind.vocabulary == tuple(f"v{number}" for number in range(97))
    assert tag.vocabulary == tuple(dict.fromkeys(value for row in tags for value in row))
    data = SlateData.open(tmp_path / "out")
    for number in range(1, num_items + 1, 501):
        item = int(data.items["id"][number - 1])
        assert kind.vocabulary[int(data.item_features.categorical["kind"][number]) - 2] == values[item]
        indices = [index for index in data.item_features.multi["tags"][number].tolist() if index]
        assert [tag.vocabulary[index - 2] for index in indices] == list(dict.fromkeys(tags[item]))


def test_preparing_what_was_opened_is_the_identity_with_features_too(tmp_path: Path) -> None:
    first = prepare(feature_interactions(), ALL, tmp_path / "first", "x")
    data = SlateData.open(tmp_path / "first")
    assert data.items["title"].to_list() == ["ten", "twenty", None]
    again = prepare(data.interactions(), ALL, tmp_path / "again", "x")
    unmatched = {"users_not_in_table", "users_not_in_log", "items_not_in_table", "items_not_in_log"}
    assert again.statistics.model_dump(include=unmatched) == dict.fromkeys(unmatched, 0)  # it has a row for everybody
    same = {name: getattr(first.statistics, name) for name in unmatched}
    assert again.model_copy(update={"statistics": again.statistics.model_copy(update=same)}) == first
    files = [read_back(tmp_path / name) for name in ("first", "again")]
    assert {name for name in files[0] if files[0][name] != files[1][name]} == {"manifest.json"}


@pytest.mark.parametrize("ids", [[1.0, 2.0], ["1", "2"], [1, 2]])
def test_ids_of_features_may_be_written_in_another_type(tmp_path: Path, ids: list[object]) -> None:
    log = make_interactions([(1, item, item, 1) for item in (1, 2)])
    table = FeatureTable(pl.LazyFrame({"id": ids, "kind": ["a", "b"]}), (Feature("kind", "categorical"),))
    manifest = prepare(Interactions(log.log, log.behaviours, items=table), ALL, tmp_path / "out", "x")
    assert manifest.item_features[0].num_unknown == 0


def test_features_of_nobody_are_an_error(tmp_path: Path) -> None:
    log = make_interactions([(1, item, item, 1) for item in (1, 2)])
    table = FeatureTable(
        pl.LazyFrame({"id": ["01", "02"], "kind": ["a", "b"]}), (Feature("kind", "categorical"),), "i.csv"
    )
    with pytest.raises(UserError, match="i.csv: none of its ids occurs in the log"):
        prepare(Interactions(log.log, log.behaviours, items=table), ALL, tmp_path / "out", "x")


@pytest.mark.parametrize("name", ["id", "title", "first_row", "*", ""])
def test_names_of_features_are_checked(name: str) -> None:
    log = make_interactions([(1, item, item, 1) for item in (1, 2)])
    table = FeatureTable(pl.LazyFrame({"id": [1]}), (Feature(name, "categorical"),))
    with pytest.raises(UserError, match="user feature"):
        Interactions(log.log, log.behaviours, users=table)


def test_feature_tables_may_not_contradict_themselves(tmp_path: Path) -> None:
    interactions = make_interactions([(1, item, item, 1) for item in (1, 2)])
    twice = FeatureTable(
        pl.LazyFrame({"id": [1, 1], "kind": ["a", "b"]}), (Feature("kind", "categorical"),), "items.csv"
    )
    with pytest.raises(UserError, match="items.csv: id 1 has several rows"):
        prepare(Interactions(interactions.log, interactions.behaviours, items=twice), ALL, tmp_path / "out", "x")
    infinite = FeatureTable(pl.LazyFrame({"id": [1], "price": [float("inf")]}), (Feature("price", "numeric"),), "i.csv")
    with pytest.raises(UserError, match="i.csv: column 'price' of id 1 is infinite"):
        prepare(Interactions(interactions.log, interactions.behaviours, items=infinite), ALL, tmp_path / "out", "x")


def test_ids_of_the_log_and_of_a_feature_table_meet_as_text(tmp_path: Path) -> None:
    log = make_interactions([(1, "7", 1, 1), (1, "x", 2, 1)])
    table = FeatureTable(pl.LazyFrame({"id": [7], "kind": ["a"]}), (Feature("kind", "categorical"),))
    manifest = prepare(Interactions(log.log, log.behaviours, items=table), ALL, tmp_path / "out", "x")
    assert manifest.item_features[0].num_unknown == 1
    assert SlateData.open(tmp_path / "out").item_features.categorical["kind"].tolist() == [0, 2, 1]

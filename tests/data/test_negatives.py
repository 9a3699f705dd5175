"""Sampled items in the slates of positive-only logs: which, where, how often, and what they must not touch."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gfn4rec.config import identity_values
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import content_of
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.negatives import Unmet
from gfn4rec.data.prepare import prepare
from gfn4rec.data.storage import _checksum, read_manifest
from gfn4rec.errors import UserError
from gfn4rec.evaluation.held_out_protocol import HeldOut, seen_before
from gfn4rec.policies.catalogue import Catalogue
from tests.conftest import make_interactions

THREE = PrepareConfig(core=1, slate_size=3, test_slates=1, val_slates=0, negatives=1)


def prepared(folder: Path, log: dict[int, str], config: PrepareConfig = THREE) -> SlateData:
    """Prepare a log of clicks, written as the items of each user, one letter each; items are numbered as they come."""
    rows: list[tuple[int | str, int | str, int, int]] = [
        (user, item, time, 1) for user, items in log.items() for time, item in enumerate(items)
    ]
    prepare(make_interactions(rows), config, folder, "small")
    return SlateData.open(folder, history_length=4)


def test_slates_written_down(tmp_path: Path) -> None:
    """The items are a 1, b 2, c 3, d 4, e 5. In test slates, only the one item is left that a user never meets."""
    data = prepared(tmp_path / "out", {1: "abcd", 2: "abce", 3: "abde"})
    negatives = pl.read_parquet(tmp_path / "out" / "negatives.parquet")
    item, place = negatives["item"].to_list(), negatives["place"].to_list()
    assert len(item) == len(place) == data.num_slates == 6
    assert [item[number] for number in (1, 3, 5)] == [5, 4, 3]
    assert all(item[number] in {3, 4, 5} for number in (0, 2, 4))
    logged = [[1, 2], [3, 4], [1, 2], [3, 5], [1, 2], [4, 5]]
    batch = data.slates(torch.arange(6))
    for number in range(6):
        slate, clicks, mark = [*logged[number]], [1, 1], [0, 0]
        for values, value in ((slate, item[number]), (clicks, 0), (mark, 1)):
            values.insert(place[number], value)
        assert batch.slate_BK[number].tolist() == slate
        assert batch.response_BKR[number, :, 0].tolist() == batch.item_reward_BK[number].tolist() == clicks
        assert batch.is_sampled_BK is not None
        assert batch.is_sampled_BK[number].tolist() == mark
    assert batch.reward_B.tolist() == pytest.approx([2 / 3] * 6)
    assert batch.without_sampled(batch.slate_BK).tolist() == logged
    assert batch.request.history_BH.tolist() == [[0] * 4, [0, 0, 1, 2]] * 3
    assert data.slates(torch.tensor([3, 3])).slate_BK.tolist() == [batch.slate_BK[3].tolist()] * 2


def test_nothing_else_of_the_data_set_knows_of_sampled_items(tmp_path: Path) -> None:
    log = {1: "abcd", 2: "abce", 3: "abde"}
    data = prepared(tmp_path / "out", log)
    plain = prepared(tmp_path / "plain", log, PrepareConfig(core=1, slate_size=2))
    assert Catalogue.of(data).count_N.tolist() == [0, 3, 3, 0, 0, 0]
    assert data.items_of(1).tolist() == [1, 2, 3, 4]
    assert seen_before(data, torch.tensor([1]))[0].tolist() == [False, True, True, False, False, False]
    assert data.latest(torch.tensor([1])).history_BH.tolist() == [[1, 2, 3, 4]]
    counts = data.manifest.statistics
    assert (counts.rows, counts.rows_in_slates, counts.slates) == (12, 12, 6)
    assert counts.rows_in_slates == plain.manifest.statistics.rows_in_slates
    assert data.manifest.behaviours == plain.manifest.behaviours
    again = prepare(data.interactions(), THREE, tmp_path / "again", "small")
    assert again == data.manifest


def test_relevant_items_are_logged_ones_even_if_every_reward_is_liked(tmp_path: Path) -> None:
    data = prepared(tmp_path / "out", {1: "abcdef", 2: "gabcdf", 3: "fegabc", 4: "defgab"})
    tests = HeldOut.of(data, liked=0.0)
    assert tests is not None
    batch = data.slates(tests.slate_B)
    assert [sorted(set(row) - {0}) for row in tests.relevant_BK.tolist()] == [
        sorted(row) for row in batch.without_sampled(batch.slate_BK).tolist()
    ]
    assert [int(count) for count in tests.count_relevant()] == [2, 2, 2, 2]
    assert tests.count_N.sum() == 4 * 4  # training records, in slates or leading


def items_of(data: SlateData, split: str) -> list[set[int]]:
    """Return the items of each user's log up to the end of a split."""
    last = {"train": ("val", "test"), "val": ("test",), "test": ()}[split]
    sets = []
    for user in range(1, data.num_users + 1):
        later = [int(data.first_rows(slate[None])) for name in last for slate in data.split(name)]
        own = [row for row in later if int(data.user_at(torch.tensor(row))) == user]
        end = min(own, default=int(data.first_row_U[user + 1]))
        sets.append(set(data.item_at(torch.arange(int(data.first_row_U[user]), end)).tolist()))
    return sets


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(0, 8)), min_size=8, max_size=60),
    st.integers(1, 3),
    st.sampled_from(["uniform", "popularity"]),
)
def test_no_sampled_item_was_met_up_to_the_end_of_its_part_of_the_log(
    log: list[tuple[int, int, int]], num_negatives: int, by: str
) -> None:
    config = PrepareConfig.model_validate(
        {"core": 1, "slate_size": num_negatives + 2, "negatives": num_negatives, "negatives_by": by}
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            prepare(make_interactions([(*row, 1) for row in log]), config, Path(folder) / "out")
        except UserError:  # too few items
            return
        data = SlateData.open(Path(folder) / "out")
    for split in ("train", "val", "test"):
        met = items_of(data, split)
        batch = data.slates(data.split(split))
        assert batch.is_sampled_BK is not None
        for user, slate_K, is_sampled_K in zip(batch.request.user_B, batch.slate_BK, batch.is_sampled_BK, strict=True):
            assert not met[int(user) - 1] & set(slate_K[is_sampled_K].tolist())
            assert set(slate_K[~is_sampled_K].tolist()) <= met[int(user) - 1]
            assert len(set(slate_K.tolist())) == num_negatives + 2
            assert int(is_sampled_K.sum()) == num_negatives


def test_what_is_held_out_may_be_sampled_for_training_slates(tmp_path: Path) -> None:
    """If users never got their test items as negatives, whoever remembers negatives would guess the test items."""
    log = {user: "ab" * 30 + "cd" for user in range(100)} | {200: "efgh"}
    data = prepared(tmp_path / "out", log)
    batch = data.slates(data.split("train")[: 30 * 100])
    assert batch.is_sampled_BK is not None
    share = Counter(batch.slate_BK[batch.is_sampled_BK].tolist())
    assert share.keys() == {3, 4, 5, 6, 7, 8}
    for count in share.values():  # each of c to h in a sixth of 3000 slates, with a standard deviation of 20
        assert count == pytest.approx(500, abs=80)


def test_items_are_drawn_by_their_training_records_plus_one_and_stand_anywhere(tmp_path: Path) -> None:
    # User 1 has 2999 training slates of x and y. In training, others have met a 4 times, b 3 times, c once, d never.
    log = {1: "xy" * 3000, 2: "ab", 3: "ac", 4: "ab", 5: "abcd"}
    popular = THREE.model_copy(update={"negatives_by": "popularity"})
    data = prepared(tmp_path / "out", log, popular)
    number = {item: position for position, item in enumerate(data.items["id"].to_list(), 1)}
    batch = data.slates(data.split("train")[:2999])
    assert batch.is_sampled_BK is not None
    drawn = Counter(batch.slate_BK[batch.is_sampled_BK].tolist())
    for item, weight in {"a": 5, "b": 4, "c": 2, "d": 1}.items():
        assert drawn[number[item]] / 2999 == pytest.approx(weight / 12, abs=0.035)
    for item in "ad":  # a place that depended on the item would give it away
        places_K = (batch.slate_BK == number[item]).double().mean(dim=0)
        assert (places_K / places_K.sum()).tolist() == pytest.approx([1 / 3] * 3, abs=0.12 if item == "d" else 0.06)


@pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1, 1], [5, 1, 7, 2, 4, 1]])
def test_different_items_one_after_the_other_in_proportion_to_their_weights(weights: list[int]) -> None:
    """User 0 has met items 0 and 3, user 1 nothing, user 2 items 1 and 2, side by side."""
    user_R, item_R = np.array([0, 2, 0, 2, 0]), np.array([3, 2, 0, 1, 3])
    unmet = Unmet.of(user_R, item_R, 3, np.array(weights))
    assert unmet.count().tolist() == [4, 6, 4]
    items_SX = unmet.draw(np.repeat([0, 1, 2], 20_000), 3, np.random.default_rng(0))
    for user, left in enumerate(([1, 2, 4, 5], [0, 1, 2, 3, 4, 5], [0, 3, 4, 5])):
        drawn, total = Counter(map(tuple, items_SX[20_000 * user :][:20_000].tolist())), sum(weights[i] for i in left)
        for first in left:
            for second in set(left) - {first}:
                for third in set(left) - {first, second}:
                    after = total - weights[first], total - weights[first] - weights[second]
                    share = weights[first] / total * weights[second] / after[0] * weights[third] / after[1]
                    found = drawn.pop((first, second, third), 0) / 20_000
                    assert found == pytest.approx(share, abs=4.5 * (share * (1 - share) / 20_000) ** 0.5)
        assert not drawn


def test_all_items_that_are_left_can_be_drawn() -> None:
    unmet = Unmet.of(np.array([0, 0]), np.array([0, 2]), 1, np.array([1, 1, 1, 10**12]))
    items_SX = unmet.draw(np.zeros(50, dtype=np.int64), 2, np.random.default_rng(0))
    assert items_SX.tolist() == [[3, 1]] * 50


def test_preparing_twice_gives_the_same_bytes_and_another_seed_other_items(tmp_path: Path) -> None:
    log = {1: "abcdef", 2: "gabcdf", 3: "fegabc", 4: "dehijk"}
    for name, config in (("one", THREE), ("two", THREE), ("other", THREE.model_copy(update={"negatives_seed": 1}))):
        prepared(tmp_path / name, log, config)
    one, two, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two", "other")
    )
    assert one == two
    assert {name for name in one if one[name] != other[name]} == {"negatives.parquet", "manifest.json"}
    assert content_of(read_manifest(tmp_path / "one")) != content_of(read_manifest(tmp_path / "other"))


def test_data_sets_without_sampled_items_are_what_they_were_before(tmp_path: Path) -> None:
    data = prepared(tmp_path / "out", {1: "abcd", 2: "abce"}, PrepareConfig(core=1, slate_size=2))
    assert set(data.manifest.files) == {"log.parquet", "slates.parquet", "users.parquet", "items.parquet"}
    assert data.slates(torch.tensor([0])).is_sampled_BK is None
    before = {"core": 1, "slate_size": 2, "test_slates": 1, "val_slates": 1}
    assert identity_values(content_of(data.manifest))["settings"] == before
    path = tmp_path / "out" / "manifest.json"
    values = json.loads(path.read_text()) | {"settings": before}  # as written by earlier versions
    del values["sha256"]
    path.write_text(json.dumps({"sha256": _checksum(values)} | values))
    assert read_manifest(tmp_path / "out") == data.manifest
    assert SlateData.open(tmp_path / "out").slates(torch.tensor([1])).slate_BK.tolist() == [[3, 4]]


def test_a_user_who_has_met_nearly_all_items_is_named(tmp_path: Path) -> None:
    two = PrepareConfig(core=1, slate_size=4, test_slates=0, val_slates=0, negatives=2)
    with pytest.raises(UserError, match="--negatives 2: user 7 has met all items but 1; lower it to 1, or leave out"):
        prepared(tmp_path / "out", {6: "ab", 7: "abcd", 8: "ae"}, two)
    assert not (tmp_path / "out").exists()

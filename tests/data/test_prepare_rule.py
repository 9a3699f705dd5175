"""The prepared log against the rule written out row by row, on ids, times and sizes of every kind."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.interactions import Behaviour, Interactions
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.errors import UserError

Row = tuple[int | str, int | str, float, bool, bool]

ids = st.one_of(
    st.just([0, 1, 2, 3, 4]),
    st.just([-3, -1, 0, 2, 5]),
    st.just([-(2**62), -7, 0, 10**12, 2**62]),
    st.just([2**63 - 1, 2**63 - 2, 2**63 - 3, 2**63 - 4, 2**63 - 5]),
    st.just(["b", "a", "ä", "10", "9"]),
)
times = st.one_of(
    st.lists(st.integers(0, 3), min_size=40, max_size=40),
    st.lists(st.sampled_from([-(2**62), -1, 0, 1, 2**62]), min_size=40, max_size=40),
    st.lists(st.sampled_from([-1.5, 0.0, 0.25, 1.6e9, 1.6e9 + 1]), min_size=40, max_size=40),
)


def naive(rows: list[Row], core: int) -> dict[str, object]:
    """Filter, sort, drop duplicates and number, one row at a time."""
    kept = list(rows)
    while True:
        users, items = [row[0] for row in kept], [row[1] for row in kept]
        still = [row for row in kept if users.count(row[0]) >= core and items.count(row[1]) >= core]
        if len(still) == len(kept):
            break
        kept = still
    ordered = sorted(kept, key=lambda row: (row[0], row[2]))  # stable
    first: dict[tuple[object, ...], Row] = {}
    num_conflicts = 0
    for row in ordered:
        earlier = first.setdefault(row[:3], row)
        num_conflicts += earlier[3:] != row[3:]
    log = [row for position, row in enumerate(ordered) if row[:3] not in {other[:3] for other in ordered[:position]}]
    user_ids = sorted({row[0] for row in log})
    item_ids = list(dict.fromkeys(row[1] for row in log))
    return {
        "records": len(kept),
        "duplicates": len(kept) - len(log),
        "conflicts": num_conflicts,
        "user_ids": user_ids,
        "item_ids": item_ids,
        "log": [(user_ids.index(row[0]) + 1, item_ids.index(row[1]) + 1, *row[2:]) for row in log],
    }


def build(rows: list[Row]) -> Interactions:
    columns = list(zip(*rows, strict=True))
    names = ("user", "item", "time", "click", "like")
    log = pl.DataFrame({name: list(column) for name, column in zip(names, columns, strict=True)})
    return Interactions(log, (Behaviour("click"), Behaviour("like")))


@settings(max_examples=150)
@given(st.data(), ids, ids, times, st.integers(1, 3))
def test_the_prepared_log_follows_the_rule(
    data: st.DataObject, user_ids: list[int | str], item_ids: list[int | str], time: list[float], core: int
) -> None:
    rows: list[Row] = [
        (
            data.draw(st.sampled_from(user_ids)),
            data.draw(st.sampled_from(item_ids)),
            time[number],
            data.draw(st.booleans()),
            data.draw(st.booleans()),
        )
        for number in range(data.draw(st.integers(2, 40)))
    ]
    expected = naive(rows, core)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        try:
            manifest = prepare(build(rows), PrepareConfig(core=core, slate_size=1), out, "x")
        except UserError:
            assert expected["records"] == 0
            return
        log = pl.read_parquet(out / "log.parquet")
        assert log.drop("in_slate").rows() == expected["log"]
        opened = SlateData.open(out)
        assert opened.users["id"].to_list() == expected["user_ids"]
        assert opened.items["id"].to_list() == expected["item_ids"]
    counts = manifest.statistics
    assert (counts.records, counts.duplicate_records) == (expected["records"], expected["duplicates"])
    assert counts.conflicting_duplicates == expected["conflicts"]
    assert counts.raw_users == len({row[0] for row in rows})
    assert counts.raw_items == len({row[1] for row in rows})
    for position, behaviour in enumerate(manifest.behaviours):
        assert behaviour.rate == pytest.approx(np.mean([row[3 + position] for row in expected["log"]]))


@pytest.mark.parametrize("as_float", [False, True])
def test_ties_keep_the_order_of_the_file_in_large_logs(tmp_path: Path, as_float: bool) -> None:
    """An unstable sort may look stable on a few rows."""
    rng = np.random.default_rng(0)
    num_rows = 50_000
    user, time, item = rng.integers(3, size=num_rows), rng.integers(5, size=num_rows), np.arange(num_rows)
    log = pl.DataFrame(
        {"user": user, "item": item, "time": time.astype(float) if as_float else time, "click": item % 2}
    )
    prepare(Interactions(log, (Behaviour("click"),)), PrepareConfig(core=1), tmp_path / "out", "x")
    expected = sorted(zip(user.tolist(), time.tolist(), item.tolist(), strict=True), key=lambda row: row[:2])
    assert SlateData.open(tmp_path / "out").items["id"].to_list() == [row[2] for row in expected]


def test_a_log_that_shrinks_a_lot_is_filtered_alike(tmp_path: Path) -> None:
    """Most rows are rare items: the filter goes on with the rest alone, and the result is still a core."""
    common = [(user, item) for user, item in itertools.product(range(5), range(5))]
    rare = [(5 + number % 7, 100 + number) for number in range(200)]
    rows: list[Row] = [(user, item, number, True, False) for number, (user, item) in enumerate(rare + common)]
    manifest = prepare(build(rows), PrepareConfig(core=5, slate_size=2), tmp_path / "out", "x")
    assert (manifest.statistics.records, manifest.statistics.users, manifest.statistics.items) == (25, 5, 5)

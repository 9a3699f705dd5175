"""The published data sets, where they are on this machine: counts that were found independently."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.read import ReadOptions, read_data
from tests.conftest import Cli


@pytest.mark.parametrize(
    ("name", "core", "records", "users", "items", "reward_range"),
    [
        ("ml-1m", 20, 995_154, 6_022, 3_043, [0, 3]),
        ("ml-100k", 20, 94_443, 917, 937, [0, 3]),
        ("kuairand-pure", 10, 127_947, 7_372, 2_530, [-1, 6]),
    ],
)
def test_counts_after_the_filter(
    cli: Cli,
    real_data: Callable[[str], Path],
    tmp_path: Path,
    name: str,
    core: int,
    records: int,
    users: int,
    items: int,
    reward_range: list[int],
) -> None:
    raw = real_data(name)
    result = cli("data", "prepare", name, "--raw", raw, "--core", core, "--out", tmp_path / "out", "--json")
    summary = json.loads(result.out)
    assert (summary["records"], summary["users"], summary["items"]) == (records, users, items)
    assert summary["reward_range"] == reward_range
    counts = summary["statistics"]
    assert counts["rows"] == counts["rows_in_slates"] + counts["rows_skipped"] + counts["rows_leading"]
    assert counts["slates"] * 6 == counts["rows_in_slates"]
    data = SlateData.open(tmp_path / "out")
    batch = data.slates(torch.arange(data.num_slates))
    assert (batch.slate_BK > 0).all()
    assert (batch.slate_BK.sort(dim=1).values.diff(dim=1) > 0).all()  # distinct
    assert int(batch.slate_BK.max()) <= data.num_items


def test_an_empty_core_of_kuairand_pure_names_the_largest(
    fails: Callable[..., str], real_data: Callable[[str], Path], tmp_path: Path
) -> None:
    raw = real_data("kuairand-pure")
    line = fails("data", "prepare", "kuairand-pure", "--raw", raw, "--core", 20, "--out", tmp_path / "out")
    assert "--core 20 leaves nothing of the log" in line
    largest = int(line.split("; ")[1].split()[0])
    assert 10 <= largest < 20


def test_numbering_is_that_of_the_published_ml_1m_response_model(
    cli: Cli, real_data: Callable[[str], Path], tmp_path: Path
) -> None:
    """Users by id, items by first appearance, genres by first appearance in all of movies.dat, as imports need it."""
    raw = real_data("ml-1m")
    cli("data", "prepare", "ml-1m", "--raw", raw, "--out", tmp_path / "out")
    data = SlateData.open(tmp_path / "out")
    assert data.users["id"].is_sorted()
    genres = data.manifest.item_features[0]
    first_lines = [line.split("::")[2] for line in (raw / "movies.dat").read_text("latin-1").splitlines()]
    in_file_order = dict.fromkeys(genre for line in first_lines for genre in line.split("|"))
    assert genres.vocabulary == tuple(in_file_order)
    assert len(genres.vocabulary) == 18
    log = pl.read_parquet(tmp_path / "out" / "log.parquet")
    first_seen = log["item"].unique(maintain_order=True).to_numpy()
    assert np.array_equal(first_seen, np.arange(1, data.num_items + 1))


def test_random_and_standard_logs_of_kuairand_have_all_they_need(real_data: Callable[[str], Path]) -> None:
    interactions = read_data("kuairand-pure", ReadOptions(raw=real_data("kuairand-pure")))
    assert interactions.log.height == 222_869
    assert interactions.log["user"].n_unique() == 25_156
    assert interactions.log["item"].n_unique() == 6_361

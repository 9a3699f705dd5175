"""The embedded data set in every layout: the same data set, the same slates, and a way from each file to a slate."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from gfn4rec import PrepareConfig, SlateData, prepare
from gfn4rec.cli import main
from gfn4rec.data.interactions import FrameColumns
from gfn4rec.data.synthetic import PRESETS, generate
from tests.conftest import Cli

STORY = generate(PRESETS["tiny"], seed=0)[1]
SLATE_SIZE = 6  # the generator's: with --core 1, the slates that are cut from the log are those that it drew
NUM_SAMPLED = 3
WEIGHTS = {"click": 1, "like": 1, "share": 1, "hate": -1}
BEHAVIOURS = tuple(WEIGHTS)
PLAIN = {"user": "user", "item": "item", "time": "time"}
SHOWN = PLAIN | {"slate": "request", "position": "rank", "propensity": "chance"}
FLAGS = {name: {"column": name, "weight": weight} for name, weight in WEIGHTS.items()}
TYPES = {name: {"column": "event", "comparison": "==", "value": name, "weight": WEIGHTS[name]} for name in WEIGHTS}
FEATURES = {
    "users": {"group": "categorical", "age": "categorical", "tenure": "numeric"},
    "items": {"category": "categorical", "tags": "multi", "length": "numeric"},
}
SMALL = "{dim = 8, embedding_dim = 8, num_heads = 2, feedforward_dim = 8, state_dim = 16}"
TRAINING = f"""
training = {{learning_batch = 64, num_steps = 12}}
settings = {{encoder = {SMALL}, prior_encoder = {SMALL}, hidden_dims = [16], num_members = 1}}
"""


@dataclass(frozen=True)
class Layout:
    """How a table becomes a file."""

    ending: str
    write: Callable[[pl.DataFrame, Path], object]
    has_header: bool = True

    def save(self, path: Path, table: pl.DataFrame) -> dict[str, str]:
        """Write a table, and return what its columns are called in a description."""
        self.write(table, path.with_suffix(self.ending))
        numbered = enumerate(table.columns, start=1)
        return {name: name if self.has_header else str(number) for number, name in numbered}


CSV, TSV = (
    Layout(".csv", pl.DataFrame.write_csv),
    Layout(".tsv", lambda table, path: table.write_csv(path, separator="\t")),
)
LAYOUTS = {
    "csv": CSV,
    "tsv": TSV,
    "headerless": Layout(".csv", lambda table, path: table.write_csv(path, include_header=False), has_header=False),
    "excel": Layout(".xlsx", lambda table, path: table.write_excel(path)),
}
FRAMES: dict[str, Callable[[pl.DataFrame], object]] = {
    "polars": lambda log: log,
    "pandas": lambda log: pd.DataFrame(log.to_dict(as_series=False)),
}


def plain_log() -> pl.DataFrame:
    return STORY.log.with_columns(pl.col(BEHAVIOURS).cast(pl.Int8))


def impressions() -> pl.DataFrame:
    """The log with the generator's slates, its rows in no order."""
    row = pl.int_range(pl.len())
    place = row % SLATE_SIZE + 1
    shown = plain_log().with_columns(request=pl.format("r{}", row // SLATE_SIZE), rank=place, chance=1 / place)
    return shown.sample(fraction=1, shuffle=True, seed=0)


def events() -> pl.DataFrame:
    """One row per view and one, a little later, per response, in no order."""
    shown = impressions()
    views = shown.with_columns(event=pl.lit("view"))
    responses = [
        shown.filter(pl.col(name) == 1).with_columns(pl.col("time") + later, event=pl.lit(name))
        for later, name in enumerate(BEHAVIOURS, start=1)
    ]
    return pl.concat([views, *responses]).drop(BEHAVIOURS).sample(fraction=1, shuffle=True, seed=1)


def clicks() -> pl.DataFrame:
    """Only what was clicked."""
    return plain_log().filter(pl.col("click") == 1).select("user", "item", "time", "click")


def toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {toml(entry)}" for key, entry in value.items()) + "}"
    return json.dumps(value)


def describe(
    folder: Path,
    layout: Layout,
    log: pl.DataFrame,
    columns: Mapping[str, str],
    responses: Mapping[str, Any],
    **more: bool,
) -> Path:
    """Write the log and the features of users and items in a layout, and return a TOML description of them."""
    folder.mkdir()
    names = layout.save(folder / "log", log)
    description: dict[str, Any] = {
        "log": {"files": [f"log{layout.ending}"], "has_header": layout.has_header, **more}
        | {meaning: names[column] for meaning, column in columns.items()},
        "behaviours": {name: response | {"column": names[response["column"]]} for name, response in responses.items()},
    }
    for side, table in (("users", STORY.users), ("items", STORY.items)):
        assert table is not None
        frame = table.frame.collect().with_columns(pl.col(pl.List(pl.String)).list.join("|"))
        names = layout.save(folder / side, frame)
        features = {name: {"kind": kind, "column": names[name]} for name, kind in FEATURES[side].items()}
        file = {"file": f"{side}{layout.ending}", "has_header": layout.has_header, "features": features}
        description[side] = file | {name: names[name] for name in ("id", "title") if name in names}
    path = folder / "log.toml"
    path.write_text("\n".join(f"{key} = {toml(value)}" for key, value in description.items()))
    return path


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A prepared data set per layout."""
    root, log = tmp_path_factory.mktemp("layouts"), plain_log()
    files = {name: describe(root / name, layout, log, PLAIN, FLAGS) for name, layout in LAYOUTS.items()}
    files["impressions"] = describe(root / "impressions", CSV, impressions(), SHOWN, FLAGS)
    files["events"] = describe(root / "events", TSV, events(), SHOWN, TYPES, merge_events=True)
    files["positive"] = describe(root / "positive", CSV, clicks(), PLAIN, {"click": FLAGS["click"]})
    folders = {name: root / f"{name}-data" for name in (*files, *FRAMES)}
    for name, path in files.items():
        options = ["--core", "1", *(["--negatives", str(NUM_SAMPLED)] if name == "positive" else [])]
        assert main(["data", "prepare", str(path), *options, "--out", str(folders[name])]) == 0
    same = {name: name for name in BEHAVIOURS}
    columns = FrameColumns(behaviours=same, weights=WEIGHTS, users=STORY.users, items=STORY.items)
    for name, make in FRAMES.items():
        prepare(make(log), PrepareConfig(core=1), folders[name], **columns)
    return folders


@pytest.fixture(scope="module")
def runs(prepared: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A training on each different content; `test_every_layout_has_the_bytes_of_the_csv_file` says what is the same."""
    root = tmp_path_factory.mktemp("runs")
    (root / "run.toml").write_text(TRAINING)
    for name in ("csv", "impressions", "positive"):
        words = ["--data", str(prepared[name]), "--out", str(root / name), "--config", str(root / "run.toml")]
        assert main(["train", "offline", *words]) == 0
    return {name: root / name for name in ("csv", "impressions", "positive")}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def raw_log(folder: Path) -> pl.DataFrame:
    """The rows of a prepared log with the ids of the raw one."""
    return SlateData.open(folder).interactions().log


@pytest.mark.parametrize("name", [*LAYOUTS, *FRAMES])
def test_every_layout_has_the_bytes_of_the_csv_file(prepared: dict[str, Path], name: str) -> None:
    assert content(prepared[name]) == content(prepared["csv"])
    assert {*content(prepared[name])} == {"log.parquet", "slates.parquet", "users.parquet", "items.parquet"}


def test_the_csv_file_has_the_rows_and_slates_of_the_generator(prepared: dict[str, Path]) -> None:
    data = SlateData.open(prepared["csv"])
    assert raw_log(prepared["csv"]).rows() == STORY.log.rows()
    assert data.num_slates * SLATE_SIZE == data.num_rows == STORY.log.height


def test_events_and_impressions_tell_the_same_story(prepared: dict[str, Path]) -> None:
    assert content(prepared["events"]) == content(prepared["impressions"])
    log, counts = raw_log(prepared["events"]), SlateData.open(prepared["events"]).manifest.statistics
    assert log.select(STORY.log.columns).rows() == STORY.log.rows()
    assert log["slate"].to_list() == [row // SLATE_SIZE for row in range(STORY.log.height)]
    assert log["position"].to_list() == [row % SLATE_SIZE + 1 for row in range(STORY.log.height)]
    assert log["propensity"].to_list() == [1 / (row % SLATE_SIZE + 1) for row in range(STORY.log.height)]
    assert counts.merged_rows == STORY.log.select(pl.sum_horizontal(pl.col(BEHAVIOURS).sum())).item()
    shared = ("slates.parquet", "users.parquet", "items.parquet")
    assert [content(prepared["events"])[name] for name in shared] == [content(prepared["csv"])[name] for name in shared]


def test_a_positive_only_log_has_the_clicks_and_samples_what_was_not_met(prepared: dict[str, Path]) -> None:
    data = SlateData.open(prepared["positive"])
    assert raw_log(prepared["positive"]).rows() == clicks().with_columns(pl.col("click") == 1).rows()
    batch = data.slates(data.split("test"))
    assert batch.response_BKR.sum(dim=(1, 2)).tolist() == [SLATE_SIZE - NUM_SAMPLED] * len(batch.slate_BK)
    for user, slate, response in zip(batch.request.user_B, batch.slate_BK, batch.response_BKR[:, :, 0], strict=True):
        met = {*data.items_of(int(user)).tolist()}
        assert [item in met for item in slate.tolist()] == response.bool().tolist()


@pytest.mark.parametrize("name", [*LAYOUTS, *FRAMES, "impressions", "events", "positive"])
def test_every_layout_goes_on_to_a_recommendation(
    prepared: dict[str, Path], runs: dict[str, Path], cli: Cli, name: str
) -> None:
    log = clicks() if name == "positive" else plain_log()
    user, seen = min(log.group_by("user").agg("item").rows(), key=lambda row: (len(row[1]), row[0]))
    request = ["--user", user, "--exclude-seen", "--greedy", "--json"]
    run = runs[{"positive": "positive", "impressions": "impressions", "events": "impressions"}.get(name, "csv")]
    (slate,) = json.loads(cli("recommend", run, "--data", prepared[name], *request).out)["slates"]
    items = {int(item) for item in slate["items"]}
    assert len(items) == SLATE_SIZE
    assert items <= {*log["item"]} - {*seen}
    if name != "positive":  # the same story ends in the same slate, however it is written
        assert slate == json.loads(cli("recommend", runs["csv"], *request).out)["slates"][0]

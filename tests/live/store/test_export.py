"""`live export`: the rows of a small store worked out by hand, propensities included."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live import export as exporting
from gfn4rec.live.export import export
from gfn4rec.live.records import Decision, Event, History
from gfn4rec.live.service import LiveService
from gfn4rec.live.store.state import write_property
from gfn4rec.live.store.store import Store
from gfn4rec.policies.catalogue import Catalogue
from tests.live.conftest import NewService
from tests.live.fakes import BEHAVIOURS, ITEMS, LONGEST_WAIT, FakeClock, FakePolicy, recommend

FILES = ["decisions.parquet", "events.parquet", "manifest.json", "samples.parquet"]


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    return pl.read_parquet(folder / f"{name}.parquet").to_dicts()


def uniform(*num_open: int) -> list[Any]:
    """Log-probabilities of steps that choose among so many items of equal scores."""
    return [pytest.approx(-math.log(number), abs=1e-6) for number in num_open]


def play(service: LiveService, clock: FakeClock) -> tuple[Decision, Decision, Decision, Decision]:
    """Four slates; the policy knows nothing of their users, so that all items have equal scores."""
    (a,) = recommend(service, "a", user=None)
    clock.now = 1_001.5
    b, c = recommend(service, "b", user="new", num_slates=2, exclude=("b", "a", "zebra"), greediness=0.25)
    clock.now = 1_002.0
    (d,) = recommend(service, "d", user=None, is_shown_at_once=False, candidates=("h", "g", "f"))
    clock.now = 1_010.0
    wrong, right = Event("e1", "nobody", "a", "like"), Event("e2", b.decision_id, b.slate[1], "click", time=77.5)
    taken_back = Event("e3", b.decision_id, b.slate[2], "hide", value=0)
    service.feedback([wrong, right, taken_back]).result(LONGEST_WAIT)
    clock.now = 1_601.5
    assert len(service.close_due()) == 3
    late = Event("e4", a.decision_id, a.slate[0], "click")
    service.feedback([late, Event("e5", d.decision_id, d.slate[0], "hide")]).result(LONGEST_WAIT)
    return a, b, c, d


@pytest.mark.parametrize("rows_at_once", [5000, 2])
def test_every_row(
    service: LiveService,
    clock: FakeClock,
    store_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows_at_once: int,
) -> None:
    monkeypatch.setattr(exporting, "_ROWS_AT_ONCE", rows_at_once)
    a, b, c, d = play(service, clock)
    service.store.write(lambda connection: write_property(connection, "run", {"policy": "fake"})).result(LONGEST_WAIT)
    done: list[tuple[str, int, int]] = []
    counts = export(store_url, tmp_path / "out", report=lambda *values: done.append(values))
    assert counts == {"decisions": 4, "events": 5, "samples": 3}
    expected = {5000: [4, 5, 3], 2: [2, 4, 2, 4, 5, 2, 3]}[rows_at_once]
    assert [entry[1] for entry in done] == expected
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["format"], manifest["run"], manifest["rows"]) == (
        "gfn4rec live export",
        {"policy": "fake"},
        counts,
    )
    assert read(tmp_path / "out", "decisions") == decision_rows(a, b, c, d)
    assert read(tmp_path / "out", "events") == event_rows(a, b, d)
    assert read(tmp_path / "out", "samples") == [
        sample_row(1, a, 1_601.5, [[], [], []], [0.0, 0.0, 0.0]),
        sample_row(2, b, 1_601.5, [[], ["click"], []], [0.0, 1.0, 0.0]),
        sample_row(3, c, 1_601.5, [[], [], []], [0.0, 0.0, 0.0]),
    ]


def decision_rows(a: Decision, b: Decision, c: Decision, d: Decision) -> list[dict[str, Any]]:
    excluding = {
        "user": "new",
        "created": 1_001.5,
        "log_prob": uniform(6, 5, 4),
        "learned_log_prob": uniform(6, 5, 4),
        "greediness": 0.25,
        "rule": '{"exclude": ["b", "a"]}',
        "notes": [
            "user new is not in the log; the slates are for an unknown user",
            "item zebra of exclude is not in the catalogue; ignored",
        ],
    }
    among_three = {
        "created": 1_002.0,
        "state": "waiting",
        "log_prob": uniform(3, 2, 1),
        "learned_log_prob": uniform(3, 2, 1),
        "rule": '{"candidates": ["h", "g", "f"]}',
        "responses": [["hide"], [], []],
    }
    assert set(d.slate) == {"f", "g", "h"}
    assert not {*b.slate, *c.slate} & {"a", "b"}
    return [
        decision_row(a),
        decision_row(b, **excluding, responses=[[], ["click"], []]),
        decision_row(c, **excluding, place=1),
        decision_row(d, **among_three),
    ]


def decision_row(decision: Decision, **own: Any) -> dict[str, Any]:
    """The row of a decision, by default of a request that says nothing, at 1,000 seconds."""
    assert set(decision.slate) <= set(ITEMS)
    return {
        "decision_id": decision.decision_id,
        "request_id": decision.request_id,
        "place": 0,
        "user": None,
        "created": 1_000.0,
        "state": "closed",
        "slate": list(decision.slate),
        "log_prob": uniform(8, 7, 6),
        "learned_log_prob": uniform(8, 7, 6),
        "greediness": 0.0,
        "reward_weight": 1.0,
        "epsilon": 0.0,
        "rule": "{}",
        "version": 1,
        "revision": 0,
        "history": [],
        "responses": [[], [], []],
        "notes": [],
    } | own


def event_rows(a: Decision, b: Decision, d: Decision) -> list[dict[str, Any]]:
    rows = [
        ("e1", "nobody", "a", "like", 1, None, 1_010.0, "unknown decision"),
        ("e2", b.decision_id, b.slate[1], "click", 1, 77.5, 1_010.0, "stored"),
        ("e3", b.decision_id, b.slate[2], "hide", 0, None, 1_010.0, "stored"),
        ("e4", a.decision_id, a.slate[0], "click", 1, None, 1_601.5, "late"),
        ("e5", d.decision_id, d.slate[0], "hide", 1, None, 1_601.5, "stored"),
    ]
    names = ("event_id", "decision_id", "item", "behaviour", "value", "client_time", "received", "status")
    return [dict(zip(names, row, strict=True)) for row in rows]


def sample_row(
    seq: int, decision: Decision, closed: float, responses: list[list[str]], rewards: list[float]
) -> dict[str, Any]:
    return {
        "seq": seq,
        "decision_id": decision.decision_id,
        "responses": responses,
        "item_rewards": rewards,
        "reward": pytest.approx(sum(rewards) / 3),
        "closed": closed,
    }


def scores_for(history: History, policy: FakePolicy, items: Sequence[str]) -> dict[str, float]:
    """The fake policy's scores of all items, given in the order of their numbers, in double precision."""
    vectors = dict(zip(items, policy.vector_ND.double()[1:], strict=True))
    weights = dict(zip(BEHAVIOURS, (1.0, 2.0, 3.0), strict=True))
    query = sum(vectors[item] * (0.1 + sum(weights[name] for name in names)) for item, names in history)
    return {item: float(vector @ torch.tanh(torch.as_tensor(query))) for item, vector in vectors.items()}


def test_propensities_of_greedy_slates_with_exploration(
    live_data: SlateData, new_service: NewService, store: Store, store_url: str, tmp_path: Path
) -> None:
    """At greediness 1 the best item is drawn with probability 1 - epsilon, and any open one with epsilon."""
    policy = FakePolicy(Catalogue.of(live_data))
    service = new_service(store, policy=policy, epsilon=0.4, greediness=1.0)
    scores = scores_for(service.history("u1"), policy, live_data.items["id"].to_list())
    for number in range(20):
        recommend(service, f"r{number}", user="u1")
    export(store_url, tmp_path / "out")
    num_explored = 0
    for row in read(tmp_path / "out", "decisions"):
        assert (row["greediness"], row["epsilon"]) == (1.0, 0.4)
        left = set(ITEMS)
        for item, log_prob, learned in zip(row["slate"], row["log_prob"], row["learned_log_prob"], strict=True):
            is_best = item == max(left, key=scores.__getitem__)
            assert log_prob == pytest.approx(math.log(0.6 * is_best + 0.4 / len(left)), abs=1e-5)
            softmax = math.exp(scores[item]) / sum(math.exp(scores[name]) for name in left)
            assert learned == pytest.approx(math.log(softmax), abs=1e-5)
            left.remove(item)
            num_explored += not is_best
    assert 5 <= num_explored <= 40  # of 60 steps; 0.4 * (1 - 1 / 7) of them are expected


def test_what_the_policy_read_is_exported(service: LiveService, store_url: str, tmp_path: Path) -> None:
    (first,) = recommend(service, "first", user="new")
    service.feedback([Event("e1", first.decision_id, first.slate[2], "like")]).result(LONGEST_WAIT)
    recommend(service, "second", user="new")
    export(store_url, tmp_path / "out")
    rows = read(tmp_path / "out", "decisions")
    assert [row["history"] for row in rows] == [
        [],
        [
            {"item": first.slate[0], "behaviours": []},
            {"item": first.slate[1], "behaviours": []},
            {"item": first.slate[2], "behaviours": ["like"]},
        ],
    ]
    assert sum(rows[1]["log_prob"]) != pytest.approx(sum(rows[0]["log_prob"]), abs=1e-3)  # scores are no longer equal


def test_an_export_is_of_one_moment(service: LiveService, clock: FakeClock, store_url: str, tmp_path: Path) -> None:
    """What is written while an export runs is in none of its files."""
    recommend(service, "first")
    clock.now = 1_600.0
    service.close_due()

    def write_more(name: str, *_: object) -> None:
        (decision,) = recommend(service, f"during {name}")
        event = Event(f"during {name}", decision.decision_id, decision.slate[0], "click")
        service.feedback([event]).result(LONGEST_WAIT)
        clock.advance(600.0)
        service.close_due()

    counts = export(store_url, tmp_path / "out", report=write_more)
    assert counts == {"decisions": 1, "events": 0, "samples": 1}
    assert [len(read(tmp_path / "out", name)) for name in counts] == [1, 0, 1]
    assert export(store_url, tmp_path / "later")["decisions"] > 1


def test_an_empty_store(store: Store, store_url: str, tmp_path: Path) -> None:
    store.close()
    assert export(store_url, tmp_path / "out") == {"decisions": 0, "events": 0, "samples": 0}
    assert pl.read_parquet(tmp_path / "out" / "decisions.parquet").schema["log_prob"] == pl.List(pl.Float64)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["run"] is None


def test_an_export_is_replaced_only_when_told(service: LiveService, store_url: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(store_url, out)
    recommend(service, "later")
    with pytest.raises(UserError, match="exists already; add --force to replace an export"):
        export(store_url, out)
    assert read(out, "decisions") == []
    export(store_url, out, force=True)
    assert len(read(out, "decisions")) == 1
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter.txt").write_text("1")
    with pytest.raises(UserError, match="thesis"):
        export(store_url, foreign, force=True)
    assert [path.name for path in foreign.iterdir()] == ["chapter.txt"]


def test_no_store_to_export(tmp_path: Path, new_store_url: Callable[[str], str]) -> None:
    gone = tmp_path / "gone.db"
    with pytest.raises(UserError, match="there is no store; name that of a service, or its run"):
        export(str(gone), tmp_path / "out")
    assert not gone.exists()
    gone.write_text("Dear diary, " * 500)
    with pytest.raises(UserError, match="cannot be read as the store of a service \\(file is not a database\\)"):
        export(str(gone), tmp_path / "out")
    with pytest.raises(UserError, match="cannot be read as the store of a service"):
        export(new_store_url("postgresql"), tmp_path / "out")  # a database without tables
    assert not (tmp_path / "out").exists()

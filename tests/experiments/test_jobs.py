"""A job is found again wherever its files lie, and only where nothing that matters differs."""

import shutil
from pathlib import Path

import pytest

from gfn4rec import api
from gfn4rec.errors import UserError
from gfn4rec.experiments.execute import execute
from gfn4rec.experiments.outcome import Outcome, OutcomeStore
from gfn4rec.experiments.world import World
from gfn4rec.simulator.checkpoint import WEIGHTS
from gfn4rec.training import online
from gfn4rec.training.run import Run
from tests.experiments.conftest import small_job


def test_the_key_does_not_depend_on_the_place(world: World, tmp_path: Path) -> None:
    assert world.simulator_path is not None
    shutil.copytree(world.data_path, tmp_path / "data")
    shutil.copytree(world.simulator_path, tmp_path / "users")
    moved = World(tmp_path / "data", tmp_path / "users")
    assert small_job().key(moved) == small_job().key(world)


def test_the_key_tells_jobs_apart(world: World) -> None:
    jobs = [
        small_job(),
        small_job(seed=1),
        small_job("cf"),
        small_job(num_steps=13),
        small_job(b_f=0.25),
        small_job(rho=0.3),
        small_job("gfn", "offline"),
        small_job().model_copy(update={"num_batches": 3}),
        small_job().model_copy(update={"temperatures": (1.0, 0.5)}),
    ]
    assert len({job.key(world) for job in jobs}) == len(jobs)
    assert small_job(checkpoint_every=3).key(world) == small_job().key(world)


@pytest.mark.parametrize(
    "change", [{"rho": 0.05}, {"model": {"dim": 8}}, {"files": {WEIGHTS: "y"}}, {"kind": "reference"}]
)
def test_the_key_tells_simulators_apart(world: World, change: dict[str, object]) -> None:
    other = World(world.data_path, world.simulator_path)
    other.__dict__["simulator"] = world.simulator.model_copy(update=change)
    assert small_job().key(other) != small_job().key(world)


@pytest.mark.parametrize("change", ["weights", "files", "settings"])
def test_the_key_tells_data_sets_apart(world: World, change: str) -> None:
    data = world.data
    log = data.files["log.parquet"]
    heavy = tuple(each.model_copy(update={"weight": 5 * each.weight}) for each in data.behaviours)
    changes: dict[str, dict[str, object]] = {
        "weights": {"behaviours": heavy},
        "files": {"files": {**data.files, "log.parquet": log.model_copy(update={"content_sha256": "0"})}},
        "settings": {"settings": data.settings.model_copy(update={"test_slates": 9})},
    }
    other = World(world.data_path, world.simulator_path)
    other.__dict__["data"] = data.model_copy(update=changes[change])
    assert small_job().key(other) != small_job().key(world)


def test_the_key_does_not_depend_on_who_wrote_the_files(world: World) -> None:
    data, users = world.data, world.simulator
    files = {name: each.model_copy(update={"sha256": "0", "num_bytes": 1}) for name, each in data.files.items()}
    other = World(world.data_path, world.simulator_path)
    other.__dict__["data"] = data.model_copy(update={"files": files})
    other.__dict__["simulator"] = users.model_copy(update={"files": {**users.files, "reliability.png": "0"}})
    assert small_job().key(other) == small_job().key(world)


def test_a_simulator_of_another_data_set_is_refused(world: World) -> None:
    other = World(world.data_path, world.simulator_path)
    other.__dict__["data"] = world.data.model_copy(update={"name": "other"})
    assert small_job().key(other) == small_job().key(world)  # a name is not what tells data sets apart
    users = world.data.files["users.parquet"].model_copy(update={"content_sha256": "0"})
    other = World(world.data_path, world.simulator_path)
    other.__dict__["data"] = world.data.model_copy(update={"files": {**world.data.files, "users.parquet": users}})
    with pytest.raises(UserError, match="made for another data set"):
        small_job().key(other)


def test_the_key_tells_versions_apart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    key = small_job().key(world)
    monkeypatch.setattr("gfn4rec.experiments.job.CODE_VERSION", -1)
    assert small_job().key(world) != key


def test_the_simulators_own_influence_is_the_default(world: World) -> None:
    assert small_job(rho=world.simulator.rho).key(world) == small_job().key(world)


def test_an_outcome_has_what_evaluate_measures(world: World, tmp_path: Path) -> None:
    job = small_job(seed=3)
    outcome = execute(job, world, tmp_path)
    assert outcome is not None
    assert outcome.key == job.key(world)
    found = api.evaluate(tmp_path / outcome.key, temperatures=(1.0,), num_batches=2, ruler_batches=0, seed=3)
    assert outcome.figures == found.rows
    assert outcome.test == found.test
    assert found.test is not None
    for row in (found.rows["greedy"], found.rows["T=1"], found.test):
        assert row["r_mrr_unsorted"] != row["r_mrr"]
    assert [point.step for point in outcome.curve] == [0, 1, 2, 3, 4, 5, 10, 12]
    assert outcome.step == 12
    assert len({example.user for example in outcome.examples}) == 3
    assert all(len(set(example.titles)) == 6 for example in outcome.examples)


def test_an_interrupted_job_ends_as_if_it_had_not_been(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = small_job()
    whole = execute(job, world, tmp_path / "whole")
    asked = iter([False] * 5 + [True] * 100)
    with monkeypatch.context() as patch:
        patch.setattr(online, "asked_to_end", lambda: _Asking(asked))
        assert execute(job, world, tmp_path / "cut") is None
    again = execute(job, world, tmp_path / "cut")
    assert whole is not None
    assert again is not None
    assert again.figures == whole.figures
    assert again.curve == whole.curve


class _Asking:
    def __init__(self, answers: object) -> None:
        self.answers = answers

    def __enter__(self) -> object:
        return lambda: next(self.answers)  # type: ignore[call-overload]

    def __exit__(self, *_: object) -> None:
        pass


def test_a_finished_run_is_measured_without_training(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = execute(small_job(), world, tmp_path)
    monkeypatch.setattr(api, "train", None)
    monkeypatch.setattr(api, "resume", None)
    assert execute(small_job(), world, tmp_path) == first


@pytest.mark.parametrize("damaged", ["manifest.json", "checkpoints/*/manifest.json", "results.json"])
def test_a_damaged_run_is_made_again(world: World, tmp_path: Path, damaged: str) -> None:
    first = execute(small_job(), world, tmp_path)
    assert first is not None
    for path in (tmp_path / first.key).glob(damaged):
        path.write_text("{")
    again = execute(small_job(), world, tmp_path)
    assert again is not None
    assert again.figures == first.figures
    assert (tmp_path / f"{first.key}-damaged").is_dir()  # whoever can read it still may


def test_progress_is_not_lost_to_a_mistake_that_can_be_mended(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter([False] * 5 + [True] * 100)
    with monkeypatch.context() as patch:
        patch.setattr(online, "asked_to_end", lambda: _Asking(asked))
        assert execute(small_job(), world, tmp_path) is None
    with monkeypatch.context() as patch:
        patch.setattr(Run, "record", _full_disk)
        with pytest.raises(UserError, match="the disk is full"):
            execute(small_job(), world, tmp_path)
    assert Run.open(tmp_path / small_job().key(world)).has_checkpoints()


def _full_disk(*_: object) -> None:
    raise UserError("the disk is full")


@pytest.fixture(scope="module")
def outcome(world: World, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    made = execute(small_job("random"), world, tmp_path_factory.mktemp("runs"))
    assert made is not None
    return made


def test_outcomes_are_found_beside_their_run_or_among_summaries(outcome: Outcome, tmp_path: Path) -> None:
    store = OutcomeStore(tmp_path / "runs", tmp_path / "summaries")
    assert store.find(outcome.key) is None
    store.keep(outcome)
    found = store.find(outcome.key)
    assert found is not None
    assert found.figures["greedy"]["reward"] == pytest.approx(outcome.figures["greedy"]["reward"], rel=1e-5)
    assert found.job == outcome.job
    shutil.rmtree(tmp_path / "runs")
    assert store.find(outcome.key) == found
    assert OutcomeStore(tmp_path / "runs").find(outcome.key) is None


@pytest.mark.parametrize("text", ["", "{", '{"key": "x"}', "\xff"])
def test_a_damaged_outcome_counts_as_none(outcome: Outcome, tmp_path: Path, text: str) -> None:
    store = OutcomeStore(tmp_path)
    store.keep(outcome)
    (tmp_path / outcome.key / "outcome.json").write_bytes(text.encode("latin-1"))
    assert store.find(outcome.key) is None


def test_an_outcome_under_another_name_is_not_taken(outcome: Outcome, tmp_path: Path) -> None:
    store = OutcomeStore(tmp_path)
    store.keep(outcome)
    (tmp_path / outcome.key).rename(tmp_path / "other")
    assert store.find("other") is None

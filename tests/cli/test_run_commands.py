"""`gfn4rec train` and `evaluate`, from the command line; and what all that open a run refuse."""

import hashlib
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gfn4rec import api
from gfn4rec.data.dataset import SlateData
from gfn4rec.seeding import stream_seed
from tests.cli.conftest import online_command
from tests.conftest import Cli


def test_train_online(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path) -> None:
    result = cli(
        *online_command(folder, data_folder, tmp_path / "run", "--threads", 1, "--set", "b_f=0.8", "--seed", 4)
    )
    assert result.code == 0, result.err
    for word in ("greedy", "sampled", "last steps", "Coverage", "12 steps in"):
        assert word in result.out
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["settings"]["policy_settings"]["b_f"] == 0.8
    assert manifest["settings"]["seed"] == 4


def test_train_offline(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path) -> None:
    command = ["train", "offline", "--data", data_folder, "--config", folder / "offline.toml"]
    result = cli(*command, "--policy", "cf", "--out", tmp_path / "run", "--json")
    found = json.loads(result.out)
    assert found["step"] == 12
    assert set(found["test"]) == {"r_ndcg", "r_mrr", "r_ndcg_unsorted", "r_mrr_unsorted"}
    assert "greedy" not in found
    result = cli(*command, "--policy", "cf", "--out", tmp_path / "more", "--simulator", folder / "simulator")
    assert "greedy" in result.out


def test_interrupted_and_resumed(
    cli: Cli,
    fails: Callable[..., str],
    folder: Path,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gfn4rec.training.replay import ReplayBuffer

    add, calls = ReplayBuffer.add, list[int]()

    def interrupted(self: ReplayBuffer, *arguments: object) -> None:
        calls.append(1)
        if len(calls) == 6:
            signal.raise_signal(signal.SIGINT)
        add(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ReplayBuffer, "add", interrupted)
    result = cli(*online_command(folder, data_folder, tmp_path / "run"))
    assert result.code == 130
    assert f"resume with: gfn4rec train resume {tmp_path / 'run'}" in result.err
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    assert newest.name == "step-00000006"
    (newest / "policy.safetensors").write_bytes(b"damaged")
    result = cli("train", "resume", tmp_path / "run", "--json")
    assert result.code == 0
    assert "step-00000006" in result.err
    assert "missing or damaged" in result.err
    expected = json.loads((folder / "run" / "results.json").read_text(encoding="utf-8"))
    found = json.loads(result.out)
    assert found["greedy"] == expected["greedy"]
    assert found["last_steps"] == expected["last_steps"]
    assert "is finished; there is nothing to resume" in fails("train", "resume", tmp_path / "run")


def test_evaluate(cli: Cli, folder: Path, tmp_path: Path) -> None:
    command = ["evaluate", folder / "run", "--temperature", "1,0.5", "--batches", 2, "--oracle-batches", 1]
    result = cli(*command, "--plot", tmp_path / "curve.png")
    assert result.code == 0, result.err
    for word in ("greedy", "T=1", "T=0.5", "Share of oracle", "pointwise oracle", "test slates: R-NDCG", "Rate of"):
        assert word in result.out
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(cli(*command, "--json").out)
    rows = found["runs"]["run"]["rows"]
    assert set(rows) == {"greedy", "T=1", "T=0.5"}
    assert rows["greedy"]["coverage"] <= rows["T=1"]["coverage"]
    unsorted = json.loads(cli(*command, "--json", "--ranking", "unsorted").out)["runs"]["run"]["rows"]
    assert unsorted["T=1"]["r_mrr"] != rows["T=1"]["r_mrr"]


def test_evaluate_with_the_list_oracle(cli: Cli, fails: Callable[..., str], folder: Path) -> None:
    command = ["evaluate", folder / "run", "--batches", 1, "--oracle-batches", 1]
    without = json.loads(cli(*command, "--json").out)["runs"]["run"]
    found = json.loads(cli(*command, "--list-oracle", "--json").out)["runs"]["run"]
    assert {**found["rows"]["greedy"], "oracle_share": 0} == {**without["rows"]["greedy"], "oracle_share": 0}
    assert found["oracle"][: len(without["oracle"])] == without["oracle"]
    lists = found["oracle"][len(without["oracle"]) :]
    assert [point["sampler"] for point in lists] == ["list"] * 5 + ["best found"]
    assert all(point["gap_error"] > 0 for point in lists[:5])
    assert max(point["reward"] for point in found["oracle"]) == lists[-1]["reward"]
    text = cli(*command, "--list-oracle").out
    assert "best slates found" in text
    assert "list oracle: reward of chains from greedy slates less that from random slates: " in text
    command = ["evaluate", folder / "run", "--oracle-batches", 0, "--list-oracle"]
    assert "--list-oracle: needs batches to measure it with" in fails(*command)


def test_evaluate_heeds_seed_ranking_and_simulator(cli: Cli, folder: Path, data_folder: Path, tmp_path: Path) -> None:
    train = ["simulator", "train", data_folder, "--out", tmp_path / "other", "--config", folder / "model.toml"]
    assert cli(*train, "--seed", 5).code == 0

    def figures(*more: object) -> tuple[dict[str, float], dict[str, float]]:
        command = ["evaluate", folder / "run", "--batches", 1, "--oracle-batches", 0, "--json"]
        run = json.loads(cli(*command, *more).out)["runs"]["run"]
        return run["rows"]["T=1"], run["test"]

    row, test = figures()
    assert figures() == (row, test)
    reseeded = figures("--seed", 1)
    assert reseeded[0]["expected_reward"] != row["expected_reward"]
    assert reseeded[1] == test  # the test slates are not drawn
    unsorted = figures("--ranking", "unsorted")
    assert unsorted[0]["reward"] == row["reward"]
    assert unsorted[1]["r_mrr"] != test["r_mrr"]
    answered = figures("--simulator", tmp_path / "other")
    assert answered[0]["expected_reward"] != row["expected_reward"]
    assert answered[1] == test


def test_evaluate_sets_the_expected_reward_beside_the_oracles(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A oracle that earns 2 at every coverage."""
    from gfn4rec import api
    from gfn4rec.evaluation.frontier import FrontierPoint

    points = [FrontierPoint("boltzmann", 1.0, 2.0, 0.0, coverage, 0.0, 0.0, 0.0) for coverage in (0.0, 60.0)]
    monkeypatch.setattr(api, "measure_frontier", lambda *_, **__: points)
    rows = json.loads(cli("evaluate", folder / "run", "--batches", 2, "--json").out)["runs"]["run"]["rows"]
    for row in rows.values():
        assert row["oracle_share"] == pytest.approx(row["expected_reward"] / 2)
        assert row["reward"] != pytest.approx(row["expected_reward"])


def test_evaluate_several_runs(cli: Cli, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "copy")
    result = cli("evaluate", folder / "run", tmp_path / "copy", "--batches", 2, "--oracle-batches", 1, "--json")
    found = json.loads(result.out)
    assert found["runs"]["run"] == found["runs"]["copy"]
    assert found["runs"]["copy"]["rows"]["greedy"]["oracle_share"] is not None
    shown = cli("evaluate", folder / "run", tmp_path / "copy", "--batches", 2, "--oracle-batches", 1).out
    assert "copy T=1" in shown


def test_runs_of_one_name_are_both_shown(cli: Cli, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    found = json.loads(
        cli("evaluate", folder / "run", tmp_path / "run", "--batches", 1, "--oracle-batches", 0, "--json").out
    )
    assert set(found["runs"]) == {str(folder / "run"), str(tmp_path / "run")}


def test_each_run_is_measured_by_the_oracle_of_its_own_users(
    cli: Cli, folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    assert cli(*online_command(folder, data_folder, tmp_path / "more", "--set", "num_users=16")).code == 0
    command = ["--batches", 1, "--oracle-batches", 1]
    runs = json.loads(cli("evaluate", folder / "run", tmp_path / "more", *command, "--json").out)["runs"]
    for directory in (folder / "run", tmp_path / "more"):
        alone = json.loads(cli("evaluate", directory, *command, "--json").out)["runs"]
        assert alone[directory.name] == runs[directory.name]
    assert runs["run"]["oracle"] != runs["more"]["oracle"]
    result = cli("evaluate", folder / "run", tmp_path / "more", *command, "--plot", tmp_path / "p.png")
    assert "oracle of run" in result.out
    assert "oracle of more" in result.out


def test_a_damaged_checkpoint_is_told_wherever_it_is_opened(cli: Cli, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    (newest / "policy.safetensors").write_bytes(b"")
    evaluated = cli("evaluate", tmp_path / "run", "--batches", 1, "--oracle-batches", 0)
    recommended = cli("recommend", tmp_path / "run", "--user", "x", "--greedy")
    for result in (evaluated, recommended):
        assert result.code == 0
        assert "policy.safetensors: missing or damaged; it is skipped" in result.err


def test_an_offline_run_is_measured_from_the_requests_before_its_test_slates(
    cli: Cli, folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    command = ["train", "offline", "--data", data_folder, "--simulator", folder / "simulator"]
    trained = cli(*command, "--config", folder / "offline.toml", "--out", tmp_path / "run", "--json")
    seed = stream_seed(0, "evaluation users")
    found = json.loads(cli("evaluate", tmp_path / "run", "--batches", 2, "--seed", seed, "--json").out)
    assert found["runs"]["run"]["rows"]["greedy"] == json.loads(trained.out)["greedy"] | {
        "oracle_share": found["runs"]["run"]["rows"]["greedy"]["oracle_share"]
    }


def test_a_run_that_has_moved_goes_on(
    cli: Cli, fails: Callable[..., str], folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    shutil.copytree(data_folder, tmp_path / "data")
    shutil.copytree(folder / "simulator", tmp_path / "simulator")
    (tmp_path / "run" / "results.json").unlink()
    path = tmp_path / "run" / "manifest.json"
    gone = {"data_path": str(tmp_path / "gone"), "simulator_path": str(tmp_path / "gone")}
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | gone), encoding="utf-8")
    assert "name its place with --data" in fails("train", "resume", tmp_path / "run")
    moved = ["--data", tmp_path / "data"]
    assert "name its place with --simulator" in fails("train", "resume", tmp_path / "run", *moved)
    slates = cli("recommend", tmp_path / "run", "--user", "x", "--greedy", "--expected-reward", *moved)
    assert "no expected rewards: " in slates.err
    assert "expected reward" not in slates.out
    moved += ["--simulator", tmp_path / "simulator"]
    assert "expected reward" in cli("recommend", tmp_path / "run", "--user", "x", "--greedy", *moved).out
    assert cli("train", "resume", tmp_path / "run", *moved).code == 0
    (tmp_path / "run" / "results.json").unlink()
    users = json.loads((tmp_path / "simulator" / "manifest.json").read_text(encoding="utf-8"))
    (tmp_path / "simulator" / "reliability.png").write_bytes(b"drawn anew")
    drawn_anew = users | {"files": users["files"] | {"reliability.png": hashlib.sha256(b"drawn anew").hexdigest()}}
    (tmp_path / "simulator" / "manifest.json").write_text(json.dumps(drawn_anew), encoding="utf-8")
    assert cli("train", "resume", tmp_path / "run", *moved).code == 0  # the same weights are the same users
    (tmp_path / "run" / "results.json").unlink()
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"simulator_files": {}}), encoding="utf-8"
    )
    assert "not the simulator of this run, or changed since" in fails("train", "resume", tmp_path / "run", *moved)
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["data_content"]["weights"]["click"] = 9.0
    path.write_text(json.dumps(manifest), encoding="utf-8")
    assert "its data set has changed since it was begun (weights)" in fails("train", "resume", tmp_path / "run", *moved)


def test_interrupted_outside_a_step(
    cli: Cli, folder: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the evaluation before the first step, and before there is a run at all."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("gfn4rec.training.evaluator.evaluate_in_simulator", interrupted)
        result = cli(*online_command(folder, data_folder, tmp_path / "run"))
        message = f"gfn4rec: stopped; resume with: gfn4rec train resume {tmp_path / 'run'}\n"
        assert (result.code, result.err) == (130, message)
        again = cli("train", "resume", tmp_path / "run")
        assert (again.code, again.err) == (130, message)
    assert cli("train", "resume", tmp_path / "run").code == 0
    monkeypatch.setattr("gfn4rec.api.OpenedRun.begin", interrupted)
    result = cli(*online_command(folder, data_folder, tmp_path / "other"))
    assert (result.code, result.err) == (130, "gfn4rec: stopped before the run began\n")
    assert not (tmp_path / "other").exists()


def test_an_oracle_is_shared_by_runs_of_one_log_with_the_same_weights(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracles: api.Oracles = {}

    def evaluate() -> int:
        api.evaluate(folder / "run", num_batches=1, oracle_batches=1, oracles=oracles)
        return len(oracles)

    assert [evaluate(), evaluate()] == [1, 1]
    monkeypatch.setattr(api, "content_of", lambda _: {"weights": {"click": 9.0}})
    assert evaluate() == 2


def test_options(cli: Cli) -> None:
    assert "newest_share" in cli("train", "options", "online").out
    default = json.loads(cli("train", "options", "offline", "--json").out)["training"]
    assert default == json.loads(cli("train", "options", "offline", "gfn-prior", "--json").out)["training"]
    assert json.loads(cli("train", "options", "offline", "gfn", "--json").out)["training"]["patience"] == 5
    sizes = [
        json.loads(cli("train", "options", "online", policy, "--json").out)["training"]["learning_batch"]
        for policy in ("gfn", "gfn-energy")
    ]
    assert sizes == [128, 512]


def test_bad_input(fails: Callable[..., str], folder: Path, data_folder: Path, data: SlateData, tmp_path: Path) -> None:
    def start(*more: object) -> str:
        return fails(*online_command(folder, data_folder, tmp_path / "x", *more))

    assert "no policy 'gnf'; did you mean 'gfn'?" in start("--policy", "gnf")
    assert "unknown key 'b_g'" in start("--set", "b_g=1")
    assert "--device gpu: no such device; write cpu, cuda, cuda:1 or mps" in start("--device", "gpu")
    assert "--device meta:x: " in start("--device", "meta:x")
    assert "settings: seed is not a setting; give it as --seed" in start("--set", "seed=3")
    assert "cannot take 8 at once" in start("--set", "buffer_size=2")
    offline = ["train", "offline", "--data", data_folder, "--out", tmp_path / "x", "--policy", "random"]
    assert "policy random has nothing to learn" in fails(*offline)
    assert not (tmp_path / "x").exists()
    line = fails(*online_command(folder, data_folder, folder / "run"))
    assert "run: exists already; choose another --out" in line  # it is finished
    run, user = folder / "run", data.users["id"][0]
    assert "not a run" in fails("evaluate", tmp_path)
    assert "choose sorted or unsorted" in fails("evaluate", run, "--ranking", "best")
    assert "write finite numbers greater than 0" in fails("evaluate", run, "--temperature", "1,0")
    assert "no user; give --user" in fails("recommend", run)
    assert "--users and --out need each other" in fails("recommend", run, "--users", tmp_path / "u")
    nowhere = ("--users", tmp_path / "u", "--out", tmp_path / "nowhere" / "x.jsonl")
    assert "x.jsonl: there is no folder" in fails("recommend", run, *nowhere)
    assert "candidates: item zzz is not in the catalogue" in fails(
        "recommend", run, "--user", user, "--candidates", "zzz"
    )
    few = ",".join(str(each) for each in data.items["id"].to_list()[:3])
    assert "a slate has 6 items, but there are only 3" in fails("recommend", run, "--user", user, "--candidates", few)
    seen = str(data.items["id"][int(data.items_of(1)[0]) - 1])
    few = ",".join([seen, *(str(each) for each in data.items["id"].to_list() if str(each) != seen)][:6])
    line = fails("recommend", run, "--user", user, "--candidates", few, "--exclude-seen")
    assert f"user {user}: a slate has 6 items, but there are only" in line
    assert line.rstrip().endswith("that the user has not seen")
    item = data.items["id"][0]
    assert "no behaviour 'clik'; did you mean 'click'?" in fails("recommend", run, "--history", f"{item}:clik")
    (tmp_path / "users").write_text('{"usr": 3}\n')
    many = ["recommend", run, "--users", tmp_path / "users", "--out", tmp_path / "out"]
    assert "line 1: unknown key 'usr'; did you mean 'user'?" in fails(*many)
    (tmp_path / "users").write_text('{"user": 3, "history": 5}\n')
    assert 'line 1: write "history" as a list' in fails(*many)
    for text in ('{"history": "12"}', '{"candidates": "123456"}', '{"history": [{"item": 1, "behaviours": "click"}]}'):
        (tmp_path / "users").write_text(text)
        assert 'line 1: write "history" as a list' in fails(*many)


def test_a_run_without_its_data_or_simulator(fails: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(manifest | {"data_path": str(tmp_path / "gone")}), encoding="utf-8")
    assert "the data set of this run is not there; name its place with --data" in fails("evaluate", tmp_path / "run")
    path.write_text(json.dumps(manifest | {"simulator_path": str(tmp_path / "gone")}), encoding="utf-8")
    assert "the simulator of this run is not there; name its place" in fails("evaluate", tmp_path / "run")
    path.write_text(json.dumps(manifest | {"simulator_files": {}}), encoding="utf-8")
    assert "not the simulator of this run, or changed since" in fails("evaluate", tmp_path / "run")


def test_a_simulator_for_other_data_is_refused(
    cli: Cli, fails: Callable[..., str], folder: Path, tmp_path: Path
) -> None:
    assert cli("data", "prepare", "synthetic-tiny", "--seed", 9, "--out", tmp_path / "other").code == 0
    message = fails(*online_command(folder, tmp_path / "other", tmp_path / "x"))
    assert "made for another data set" in message

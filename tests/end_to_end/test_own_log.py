"""A log of one's own, from a CSV file to slates, with commands alone, and in Python."""

import json
import random
from pathlib import Path

import pytest

from tests.conftest import Cli


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Forty people and thirty films: everybody clicks on the first ten, and hardly on the others."""
    draw = random.Random(0)
    lines = ["who,what,when,clicked"]
    for user in range(40):
        for moment in range(40):
            film = draw.randrange(30)
            clicked = int(draw.random() < (0.9 if film < 10 else 0.1))
            lines.append(f"u{user},film{film},{1_000_000 + 60 * moment},{clicked}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


SETTINGS = """
policy = "gfn"
[settings]
encoder = {dim = 8, embedding_dim = 8, num_heads = 2, num_layers = 1, feedforward_dim = 16, state_dim = 32}
hidden_dims = [32]
[training]
num_steps = 150
warmup_steps = 5
learning_rate = 5e-3
evaluate_every = 150
final_batches = 10
[users]
num_users = 32
"""


def prepare_and_simulate(cli: Cli, log: Path, folder: Path, *more: object) -> None:
    """`folder/data` and `folder/sim`."""
    columns = ["--user-column", "who", "--item-column", "what", "--time-column", "when", "--behaviour", "click=clicked"]
    assert cli("data", "prepare", log, "--out", folder / "data", *columns, "--slate-size", 3).code == 0
    (folder / "model.toml").write_text("num_epochs = 4\nbatch_windows = 8\nlearning_rate = 0.01\nmin_rows = 20\n")
    simulator = ["simulator", "train", folder / "data", "--out", folder / "sim"]
    assert cli(*simulator, "--config", folder / "model.toml", *more).code == 0


def test_from_a_csv_to_slates(cli: Cli, log: Path, tmp_path: Path) -> None:
    prepare_and_simulate(cli, log, tmp_path)
    (tmp_path / "run.toml").write_text(SETTINGS)
    train = ["train", "online", "--data", tmp_path / "data", "--simulator", tmp_path / "sim", "--out", tmp_path / "run"]
    found = json.loads(cli(*train, "--config", tmp_path / "run.toml", "--json").out)
    random_run = [*train[:-1], tmp_path / "random", "--policy", "random", "--set", "num_steps=5"]
    chance = json.loads(cli(*random_run, "--set", "final_batches=10", "--json").out)
    assert found["greedy"]["expected_reward"] > 1.5 * chance["sampled"]["expected_reward"]
    assert cli("evaluate", tmp_path / "run", "--batches", 3, "--oracle-batches", 2).code == 0
    slates = json.loads(cli("recommend", tmp_path / "run", "--user", "u3", "--slates", 2, "--json").out)["slates"]
    assert all(item.startswith("film") for slate in slates for item in slate["items"])


def test_the_same_in_python(log: Path, tmp_path: Path, cli: Cli) -> None:
    """The lines of the README."""
    prepare_and_simulate(cli, log, tmp_path)

    from gfn4rec import api

    settings = api.resolve_settings("online", "gfn", changes={"num_steps": 12, "warmup_steps": 2, "final_batches": 2})
    results = api.train(settings, data=tmp_path / "data", simulator=tmp_path / "sim", out=tmp_path / "run")
    found = api.evaluate(tmp_path / "run", temperatures=(1.0, 0.5), num_batches=2, oracle_batches=1)
    recommender = api.Recommender.open(tmp_path / "run", expected_rewards=True)
    (answer,) = recommender.recommend([api.Query(user="u3")], num_slates=2, seed=1)

    assert results is not None
    assert set(found.rows) == {"greedy", "T=1", "T=0.5"}
    assert len(answer.slates) == 2
    assert len(answer.slates[0].items) == 3

    (tmp_path / "data").rename(tmp_path / "moved")
    (tmp_path / "sim").rename(tmp_path / "users")
    run, data, users = (str(tmp_path / name) for name in ("run", "moved", "users"))  # paths may be written as text
    again = api.evaluate(run, users, data, temperatures=(1.0, 0.5), num_batches=2, oracle_batches=1)
    assert again.rows == found.rows
    assert api.evaluate_scores(run, users, data, num_batches=1)
    opened = api.Recommender.open(run, data, simulator=users)
    (same,) = opened.recommend([api.Query(user="u3")], num_slates=2, seed=1)
    assert same == answer


@pytest.fixture
def tastes(tmp_path: Path) -> Path:
    """Eighty people, of whom half watch films 0 to 29 and half 30 to 59, never twice; they like the even ones."""
    draw, lines = random.Random(1), ["who,what,when,liked"]
    for user in range(80):
        films = [film + 30 * (user % 2) for film in draw.sample(range(30), 24)]
        lines += [f"u{user},film{film},{60 * moment},{int(film % 2 == 0)}" for moment, film in enumerate(films)]
    path = tmp_path / "tastes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_default_policy_learns_from_a_log_alone_what_its_users_choose(
    cli: Cli, tastes: Path, tmp_path: Path
) -> None:
    """The lines of the README; popularity cannot tell the two halves apart."""
    data, run = tmp_path / "data", tmp_path / "run"
    columns = ["--user-column", "who", "--item-column", "what", "--time-column", "when", "--behaviour", "like=liked"]
    assert cli("data", "prepare", tastes, "--out", data, *columns, "--slate-size", 3, "--core", 5).code == 0
    trained = cli(
        "train", "offline", "--data", data, "--out", run, "--set", "learning_batch=64", "--set", "num_steps=100"
    )
    assert trained.code == 0, trained.err
    held_out = json.loads(cli("evaluate", run, "--reward-weight", "1,20", "--json").out)["runs"]["run"]["held_out"]
    rows, popularity = held_out["rows"], held_out["references"]["popularity"]
    assert list(rows) == ["greedy", "greedy, w=20", "prior alone"]
    assert rows["prior alone"]["recall"] > 2 * popularity["recall"]
    assert rows["greedy"]["recall"] > 1.1 * rows["prior alone"]["recall"]  # half of what users choose, they do not like
    assert "No warning" in cli("evaluate", run).out
    request = ["recommend", run, "--user", "u0", "--exclude-seen", "--greedy", "--json"]
    slate = json.loads(cli(*request).out)["slates"][0]["items"]
    assert all(int(item.removeprefix("film")) < 30 for item in slate)


def test_a_log_of_plays_alone_with_sampled_items(cli: Cli, tastes: Path, tmp_path: Path) -> None:
    """Nobody says what they do not like; each half watches its own films, and popularity cannot tell them apart."""
    lines = [line.rsplit(",", 1)[0] + ",1" for line in tastes.read_text().splitlines()[1:]]
    log, data, run = tmp_path / "plays.csv", tmp_path / "data", tmp_path / "run"
    log.write_text("\n".join(["who,what,when,play", *lines]) + "\n")
    columns = ["--user-column", "who", "--item-column", "what", "--time-column", "when", "--behaviour", "play"]
    prepare = ["data", "prepare", log, *columns, "--slate-size", 4, "--core", 5]
    assert "Warning: play is true in every row" in cli(*prepare, "--out", tmp_path / "plain").out
    assert "Warning" not in cli(*prepare, "--negatives", 2, "--out", data).out
    steps = ["--set", "learning_batch=64", "--set", "num_steps=40"]
    trained = cli("train", "offline", "--data", data, "--out", run, *steps)
    assert trained.code == 0, trained.err
    held_out = json.loads(cli("evaluate", run, "--json").out)["runs"]["run"]["held_out"]
    recall, popularity = held_out["rows"]["greedy"]["recall"], held_out["references"]["popularity"]["recall"]
    assert recall > 3 * popularity
    request = ["recommend", run, "--user", "u0", "--exclude-seen", "--greedy", "--json"]
    slate = json.loads(cli(*request).out)["slates"][0]["items"]
    assert all(int(item.removeprefix("film")) < 30 for item in slate)

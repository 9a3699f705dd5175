"""`gfn4rec recommend` and `score`, from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.serving.recommender import Recommender
from tests.conftest import Cli


def test_recommend(cli: Cli, folder: Path, data: SlateData) -> None:
    user = data.users["id"][0]
    command = ["recommend", folder / "run", "--user", user, "--slates", 2, "--temperature", 0.5]
    assert "expected reward" not in cli(*command).out
    result = cli(*command, "--expected-reward")
    assert result.code == 0, result.err
    assert "slate 2: log-probability" in result.out
    assert "expected reward" in result.out
    found = json.loads(cli("recommend", folder / "run", "--user", user, "--slates", 3, "--json", "--seed", 5).out)
    assert len(found["slates"]) == 3
    items = found["slates"][0]["items"]
    assert len(set(items)) == 6
    assert sum(map(__import__("math").log, found["slates"][0]["probabilities"])) == pytest.approx(
        found["slates"][0]["log_prob"], rel=1e-4
    )
    again = json.loads(cli("recommend", folder / "run", "--user", user, "--slates", 3, "--json", "--seed", 5).out)
    assert again == found
    fresh = [cli("recommend", folder / "run", "--user", user, "--slates", 3, "--json").out for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_recommend_from_a_history_alone(cli: Cli, folder: Path, data: SlateData) -> None:
    first, second = (str(data.items["id"][number]) for number in (0, 1))
    command = ["recommend", folder / "run", "--greedy", "--json", "--user", "nobody"]
    result = cli(*command, "--history", f"{first}:{data.behaviours[0]},{second},unheard-of")
    found = json.loads(result.out)
    assert found["notes"] == [
        "user nobody is not in the prepared data set; the slates are for the given history alone",
        "item unheard-of of the history is not in the catalogue; ignored",
    ]
    other = json.loads(cli(*command, "--history", f"{first}:").out)
    assert other["slates"][0]["log_prob"] != found["slates"][0]["log_prob"]


def test_recommend_from_candidates_and_without_what_was_seen(cli: Cli, folder: Path, data: SlateData) -> None:
    ids = [str(each) for each in data.items["id"].to_list()]
    command = ["recommend", folder / "run", "--json", "--slates", 5, "--user", data.users["id"][0]]
    found = json.loads(cli(*command, "--candidates", ",".join(ids[:8])).out)
    assert all(set(slate["items"]) <= set(ids[:8]) for slate in found["slates"])
    history = ",".join(ids[:52])  # more than a policy looks at
    found = json.loads(cli(*command, "--history", history, "--exclude-seen").out)
    assert all(set(slate["items"]) <= set(ids[52:]) for slate in found["slates"])
    seen = json.loads(cli(*command, "--history", history).out)
    met = [set(data.items_of(user).tolist()) for user in range(1, data.num_users + 1)]
    longest = max((n for n in range(data.num_users) if len(met[n]) <= data.num_items - 6), key=lambda n: len(met[n]))
    command[-1] = data.users["id"][longest]
    found = json.loads(cli(*command, "--exclude-seen").out)
    numbers = {ids.index(item) + 1 for slate in found["slates"] for item in slate["items"]}
    assert not numbers & met[longest]
    assert any(set(slate["items"]) & set(ids[:52]) for slate in seen["slates"])


def test_recommend_for_many(cli: Cli, folder: Path, data: SlateData, tmp_path: Path) -> None:
    users = [str(each) for each in data.users["id"].to_list()[:40]]
    item = str(data.items["id"][0])
    lines = [*users, json.dumps({"user": "new", "history": [item, {"item": item, "behaviours": []}]}), ""]
    (tmp_path / "users.txt").write_text("\n".join(lines))
    command = ["recommend", folder / "run", "--users", tmp_path / "users.txt", "--out", tmp_path / "slates.jsonl"]
    result = cli(*command, "--greedy", "--slates", 4)
    assert "41 users written to" in result.out
    answers = [json.loads(line) for line in (tmp_path / "slates.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [answer["user"] for answer in answers] == [*users, "new"]
    alone = json.loads(cli("recommend", folder / "run", "--user", users[7], "--greedy", "--json").out)
    assert answers[7]["slates"][0]["items"] == alone["slates"][0]["items"]


def test_a_knob_for_all_and_for_each(cli: Cli, fails: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    user = ["recommend", folder / "run", "--user", "x", "--json"]
    greedy = json.loads(cli(*user, "--greedy").out)["slates"]
    assert json.loads(cli(*user, "--greediness", 1).out)["slates"] == greedy
    assert cli(*user, "--greediness", 0, "--seed", 3).out == cli(*user, "--seed", 3).out
    assert "greediness 2: must lie between 0 (diverse) and 1 (greedy)" in fails(*user, "--greediness", 2)
    (tmp_path / "users").write_text('{"user": "x", "greediness": 1.0}\n{"user": "x"}\n')
    many = ["recommend", folder / "run", "--users", tmp_path / "users", "--out", tmp_path / "out"]
    assert cli(*many).code == 0
    bold, plain = (json.loads(line)["slates"] for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines())
    assert bold[0]["items"] == greedy[0]["items"] != plain[0]["items"]
    assert "greediness of a query replaces greedy and temperature" in fails(*many, "--temperature", 0.5)
    for wrong in ('"very"', "1.5", "true"):
        (tmp_path / "users").write_text(f'{{"user": "x", "greediness": {wrong}}}\n')
        assert "line 1: write" in fails(*many)


def test_a_reward_weight_needs_a_prior(cli: Cli, fails: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    user = ["recommend", folder / "run", "--user", "x"]
    assert cli(*user, "--reward-weight", 1).code == 0
    assert "has no prior; leave reward_weight at 1, or use gfn-prior" in fails(*user, "--reward-weight", 2)
    assert "reward_weight -1.0: must lie between 0 (the prior alone) and 1000" in fails(*user, "--reward-weight", -1)
    many = ["recommend", folder / "run", "--users", tmp_path / "users", "--out", tmp_path / "out"]
    for value, line in (("0.5", "has no prior"), ("-1", "line 1: write"), ("true", "line 1: write")):
        (tmp_path / "users").write_text(f'{{"user": "x", "reward_weight": {value}}}\n')
        assert line in fails(*many)


def test_score(cli: Cli, fails: Callable[..., str], folder: Path, data: SlateData) -> None:
    ids = [str(each) for each in data.items["id"].to_list()]
    one, other = ",".join(ids[:6]), ",".join(ids[6:12])
    command = ["score", folder / "run", "--user", data.users["id"][0], "--slate", one, "--slate", other]
    found = json.loads(cli(*command, "--json").out)["slates"]
    assert [each["items"] for each in found] == [ids[:6], ids[6:12]]
    recommender = Recommender.open(folder / "run", expected_rewards=True)
    request = recommender.data.latest(torch.tensor([1, 1]))
    slate_BK = torch.arange(1, 13).view(2, 6)
    torch.testing.assert_close(
        torch.tensor([each["score"] for each in found]), recommender.policy.score(request, slate_BK)
    )
    assert recommender.environment is not None
    expected_B = recommender.environment.expected_rewards(request, slate_BK)
    torch.testing.assert_close(torch.tensor([each["expected_reward"] for each in found]), expected_B)
    assert ids[0] in cli(*command).out
    agreement = json.loads(cli("score", folder / "run", "--batches", 2, "--json").out)
    assert set(agreement) == {"random", "logged", "generated"}
    assert "within a request" in cli("score", folder / "run", "--batches", 1).out
    assert "user x is not in the prepared data set; the slates are for an unknown user" in (
        cli("score", folder / "run", "--user", "x", "--slate", one).err
    )
    assert "--user and --history belong to a --slate" in fails("score", folder / "run", "--user", "x")
    assert "add --user or --history" in fails("score", folder / "run", "--slate", one)
    for option in ("--batches", "--seed"):
        assert "--batches and --seed are for measuring without --slate" in fails(*command, option, 3)
    command = ["score", folder / "run", "--user", data.users["id"][0]]
    assert "slate: item zzz is not in the catalogue" in fails(*command, "--slate", ",".join([*ids[:5], "zzz"]))
    assert f"slate {ids[0]}: has 1 items; a slate has 6" in fails(*command, "--slate", one, "--slate", ids[0])
    assert f": shows {ids[0]} twice" in fails(*command, "--slate", ",".join([*ids[:5], ids[0]]))


def test_candidates_are_for_all_who_name_none_of_their_own(
    cli: Cli, folder: Path, data: SlateData, tmp_path: Path
) -> None:
    ids = [str(each) for each in data.items["id"].to_list()]
    shared, own = ids[10:16], ids[20:26]
    lines = [str(data.users["id"][0]), json.dumps({"user": "new"}), json.dumps({"user": "new", "candidates": own})]
    (tmp_path / "users").write_text("\n".join(lines))
    command = ["recommend", folder / "run", "--users", tmp_path / "users", "--out", tmp_path / "slates"]
    assert cli(*command, "--candidates", ",".join(shared)).code == 0
    answers = [json.loads(line) for line in (tmp_path / "slates").read_text(encoding="utf-8").splitlines()]
    assert [sorted(answer["slates"][0]["items"]) for answer in answers] == [
        sorted(each) for each in (shared, shared, own)
    ]


def test_another_seed_gives_other_slates(cli: Cli, folder: Path, data: SlateData) -> None:
    command = ["recommend", folder / "run", "--user", data.users["id"][0], "--slates", 3, "--json", "--seed"]
    first, again, other = (json.loads(cli(*command, seed).out)["slates"] for seed in (1, 1, 2))
    assert first == again
    assert [slate["items"] for slate in first] != [slate["items"] for slate in other]


def test_a_colon_alone_says_that_there_was_no_response(cli: Cli, folder: Path, data: SlateData) -> None:
    item = data.items["id"][0]

    def log_prob(history: str) -> float:
        answer = json.loads(cli("recommend", folder / "run", "--greedy", "--json", "--history", history).out)
        return float(answer["slates"][0]["log_prob"])

    assert log_prob(f"{item}") == log_prob(f"{item}:{data.behaviours[0]}")
    assert log_prob(f"{item}:") != log_prob(f"{item}")

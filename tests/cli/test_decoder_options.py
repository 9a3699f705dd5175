"""`--decoder` of `gfn4rec recommend` and `evaluate`, from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.decoders import build_decoder
from gfn4rec.schema import Sampling
from gfn4rec.serving.recommender import Recommender
from tests.conftest import Cli


def test_recommend_with_a_decoder(cli: Cli, folder: Path, data: SlateData) -> None:
    user, ids = data.users["id"][0], [str(each) for each in data.items["id"].to_list()]
    command = ["recommend", folder / "run", "--user", user, "--decoder", "mmr", "--decoder-set", "relevance_weight=0.4"]
    settings = {"num_candidates": 50, "relevance_weight": 0.4, "similarity": "vectors"}
    found = json.loads(cli(*command, "--json").out)
    assert found["decoder"] == {"name": "mmr", "settings": settings}
    recommender = Recommender.open(folder / "run")
    request = recommender.data.latest(torch.tensor([1]))
    decoded = build_decoder("mmr", settings).recommend(recommender.policy, request)
    (slate,) = found["slates"]
    assert slate["items"] == [ids[item - 1] for item in decoded.slate_BK[0].tolist()]
    assert slate["log_prob"] == pytest.approx(float(decoded.log_prob_BK.sum()), abs=1e-5)
    plain = json.loads(cli("recommend", folder / "run", "--user", user, "--greedy", "--json").out)
    assert "decoder" not in plain
    assert plain["slates"][0]["items"] != slate["items"]
    shown = cli(*command).out
    assert "made by mmr (num_candidates=50, relevance_weight=0.4, similarity=vectors)" in shown
    assert "probabilities are those of the policy itself" in shown


def test_decoded_slates_of_many_users(cli: Cli, folder: Path, data: SlateData, tmp_path: Path) -> None:
    """Each user's slate is the one that they get alone, without what they have seen."""
    met = [set(data.items_of(user).tolist()) for user in range(1, data.num_users + 1)]
    users = [user for user in range(data.num_users) if len(met[user]) <= data.num_items - 6][:3]
    (tmp_path / "users").write_text("\n".join(str(data.users["id"][user]) for user in users), encoding="utf-8")
    options = ["--decoder", "dpp", "--exclude-seen"]
    assert (
        cli("recommend", folder / "run", "--users", tmp_path / "users", "--out", tmp_path / "out", *options).code == 0
    )
    lines = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    ids = [str(each) for each in data.items["id"].to_list()]
    for user, line in zip(users, lines, strict=True):
        assert line["decoder"]["name"] == "dpp"
        items = line["slates"][0]["items"]
        assert len(set(items)) == 6
        assert not {ids.index(item) + 1 for item in items} & met[user]
        alone = json.loads(cli("recommend", folder / "run", "--user", line["user"], *options, "--json").out)
        assert alone["slates"][0]["items"] == items


def test_several_slates_of_decoders_that_draw(cli: Cli, folder: Path, data: SlateData) -> None:
    command = ["recommend", folder / "run", "--user", data.users["id"][0], "--slates", 3, "--seed", 1, "--json"]
    found = json.loads(cli(*command, "--decoder", "best-of-n", "--decoder-set", "num_slates=2").out)
    assert len({tuple(slate["items"]) for slate in found["slates"]}) > 1
    assert found == json.loads(cli(*command, "--decoder", "best-of-n", "--decoder-set", "num_slates=2").out)
    searched = json.loads(cli(*command[:4], "--decoder", "local-search", "--greedy", "--json").out)
    recommender = Recommender.open(folder / "run")
    request = recommender.data.latest(torch.tensor([1]))
    decoded = build_decoder("local-search").recommend(recommender.policy, request, None, Sampling(greedy=True))
    ids = [str(each) for each in data.items["id"].to_list()]
    assert searched["slates"][0]["items"] == [ids[item - 1] for item in decoded.slate_BK[0].tolist()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--decoder", "mmrr"], "no decoder 'mmrr'; did you mean 'mmr'?"),
        (["--decoder", "dpp", "--decoder-set", "similaritie=features"], "unknown key 'similaritie'; did you mean"),
        (["--decoder", "dpp", "--decoder-set", "features"], "--decoder-set features: write key=value"),
        (["--decoder-set", "similarity=features"], "there is no decoder; name one with --decoder"),
        (["--decoder", "dpp", "--temperature", 0.5], "dpp draws nothing, so temperature has no effect; leave it out"),
        (["--decoder", "mmr", "--greediness", 0.5], "mmr draws nothing, so greediness has no effect; leave it out"),
        (["--decoder", "mmr", "--slates", 2], "mmr makes one slate for a query; ask for one"),
        (
            ["--decoder", "best-of-n", "--greedy"],
            "best-of-n chooses among drawn slates, and greedy ones are all the same",
        ),
    ],
)
def test_wrong_options_of_decoders(
    fails: Callable[..., str], folder: Path, data: SlateData, options: list[object], message: str
) -> None:
    assert message in fails("recommend", folder / "run", "--user", data.users["id"][0], *options)


def test_evaluate_with_a_decoder(cli: Cli, folder: Path) -> None:
    """Its slates have rows beside those of the policy, which stay as they are."""
    command = ["evaluate", folder / "run", "--batches", 2, "--oracle-batches", 1, "--json"]
    plain = json.loads(cli(*command).out)
    assert "decoder" not in plain
    found = json.loads(cli(*command, "--decoder", "dpp", "--decoder-set", "relevance_weight=0.1").out)
    settings = {"num_candidates": 50, "relevance_weight": 0.1, "similarity": "vectors"}
    assert found["decoder"] == {"name": "dpp", "settings": settings}
    run, before = found["runs"]["run"], plain["runs"]["run"]
    assert list(run["rows"]) == ["greedy", "T=1", "dpp"]
    assert {name: run["rows"][name] for name in before["rows"]} == before["rows"]
    assert run["rows"]["dpp"]["oracle_share"] is not None
    assert run["rows"]["dpp"]["expected_reward"] != run["rows"]["greedy"]["expected_reward"]
    assert list(run["held_out"]["rows"]) == list(run["verdict"]) == ["greedy", "dpp"]
    assert run["held_out"]["rows"]["greedy"] == before["held_out"]["rows"]["greedy"]
    assert run["held_out"]["rows"]["dpp"] != run["held_out"]["rows"]["greedy"]
    shown = cli(*command[:-1], "--decoder", "best-of-n", "--decoder-set", "num_slates=2", "--temperature", "1,0.5").out
    assert shown.count("best-of-n, T=1") == 4  # in both tables of the simulator, on the test slates, in a verdict
    assert shown.count("best-of-n, T=0.5") == 2


def test_evaluate_refuses_a_decoder_that_a_policy_cannot_have(
    cli: Cli,
    fails: Callable[..., str],
    folder: Path,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is measured."""
    command = ["train", "offline", "--data", data_folder, "--config", folder / "offline.toml", "--policy", "cf"]
    assert cli(*command, "--out", tmp_path / "run").code == 0
    for measure in ("measure_frontier", "measure_ways", "evaluate_on_log", "measure_references"):
        monkeypatch.setattr(f"gfn4rec.api.{measure}", None)
    error = fails("evaluate", tmp_path / "run", "--simulator", folder / "simulator", "--decoder", "local-search")
    assert "a CF has no flow, so it cannot score slates; the gfn policies can" in error
    assert "there is no decoder; name one" in fails(
        "evaluate", tmp_path / "run", "--decoder-set", "similarity=features"
    )

"""What a request may ask for, with the answers known."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient

from gfn4rec.live.host import Host
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Sampling
from gfn4rec.seeding import torch_generator
from gfn4rec.serving.recommender import Query, Recommender
from tests.live.http.conftest import NewHost
from tests.live.http.serving import SIZE, ask, decide, feedback, ids, new_client, recommend

ALL = [str(number) for number in range(1, 61)]


@pytest.fixture
def recommender(shared_host: Host) -> Recommender:
    """The same policy, asked without a service."""
    return Recommender(shared_host.service.desk.policy, shared_host.data)


def greedy(recommender: Recommender, query: Query, exclude_seen: bool = False) -> list[str]:
    (answer,) = recommender.recommend([query], sampling=Sampling(greedy=True), exclude_seen=exclude_seen)
    return [item.id for item in answer.slates[0].items]


def test_an_answer_says_what_was_drawn_and_how_likely_it_was(client: TestClient) -> None:
    answer = recommend(client, "whole", user="3", slates=2)
    assert list(answer) == ["request_id", "version", "decision_id", "items", "log_prob", "slates", "notes"]
    assert (answer["request_id"], answer["version"], answer["notes"]) == ("whole", 1, [])
    first, second = answer["slates"]
    assert {name: answer[name] for name in first} == first
    assert first["decision_id"] != second["decision_id"]
    for slate in (first, second):
        assert len({item["id"] for item in slate["items"]}) == SIZE
        assert all(item["title"] == f"item {item['id']}" for item in slate["items"])
        log_prob = sum(math.log(item["probability"]) for item in slate["items"])
        assert slate["log_prob"] == pytest.approx(log_prob)


@pytest.mark.parametrize("user", ["3", "17", None, "somebody new"])
def test_greediness_1_is_the_greedy_slate(client: TestClient, recommender: Recommender, user: str | None) -> None:
    answer = recommend(client, f"greedy-{user}", user=user, greediness=1, slates=2)
    expected = greedy(recommender, Query(user))
    assert [[item["id"] for item in slate["items"]] for slate in answer["slates"]] == [expected, expected]
    assert [item["probability"] for item in answer["items"]] == [1.0] * SIZE
    assert answer["log_prob"] == 0.0


def test_users_and_rules_change_the_greedy_slate(client: TestClient, recommender: Recommender) -> None:
    """Otherwise the tests here would compare one slate with itself."""
    slates = {tuple(greedy(recommender, Query(str(user)))) for user in recommender.data.users["id"].to_list()}
    assert len(slates) > 10
    weighted = []
    for reward_weight in (0.0, 1.0, 50.0):
        answer = recommend(client, f"weighted-{reward_weight}", user=3, greediness=1, reward_weight=reward_weight)
        assert ids(answer) == greedy(recommender, Query("3", reward_weight=reward_weight))
        assert answer["notes"] == []
        weighted.append(ids(answer))
    assert weighted[0] != weighted[1] == greedy(recommender, Query("3"))
    assert weighted[0] != weighted[2]


def test_excluded_items_are_not_shown(client: TestClient, recommender: Recommender) -> None:
    best = greedy(recommender, Query("3"))
    answer = recommend(client, "without", user="3", greediness=1, exclude=[best[0], int(best[2]), best[0], "gone"])
    left = [item for item in ALL if item not in (best[0], best[2])]
    assert ids(answer) == greedy(recommender, Query("3", candidates=left))
    assert answer["notes"] == ["item gone of exclude is not in the catalogue; ignored"]


def test_slates_are_chosen_from_the_candidates(client: TestClient, recommender: Recommender) -> None:
    candidates: list[str | int] = ["5", 6, "7", "8", "9"]
    answer = recommend(client, "among", user="3", greediness=1, candidates=[*candidates, "5"])
    assert ids(answer) == greedy(recommender, Query("3", candidates=candidates))
    left = {"candidates": candidates, "exclude": ["9", "60"], "reward_weight": 0}
    drawn = recommend(client, "drawn among", user="3", slates=16, **left)
    assert {item["id"] for slate in drawn["slates"] for item in slate["items"]} == {"5", "6", "7", "8"}
    exactly = recommend(client, "all of them", candidates=[5, 6, 7], slates=16)
    assert {frozenset(ids(slate)) for slate in exactly["slates"]} == {frozenset(["5", "6", "7"])}


def test_seen_items_are_left_out_on_request(client: TestClient, recommender: Recommender) -> None:
    user = next(str(raw) for raw in recommender.data.users["id"] if len(seen(recommender, str(raw))) < 50)
    answer = recommend(client, "unseen", user=user, greediness=1, exclude_seen=True)
    assert ids(answer) == greedy(recommender, Query(user), exclude_seen=True)
    drawn = recommend(client, "unseen, drawn", user=user, exclude_seen=True, slates=16)
    assert not {item["id"] for slate in drawn["slates"] for item in slate["items"]} & seen(recommender, user)
    history = [item for item in ALL if item not in seen(recommender, user)][:2]
    given = recommend(client, "unseen, given", user=user, greediness=1, exclude_seen=True, history=history)
    assert ids(given) == greedy(recommender, Query(user, history), exclude_seen=True)
    left = [item for item in ALL if item not in seen(recommender, user)][2 : 2 + SIZE]
    among = {"candidates": [*history, *left], "exclude_seen": True}
    assert set(ids(recommend(client, "unseen, rest", user=user, history=history, **among))) == set(left)


def seen(recommender: Recommender, user: str) -> set[str]:
    number = recommender.data.users["id"].cast(str).to_list().index(user) + 1
    return {str(recommender.data.items["id"][item - 1]) for item in recommender.data.items_of(number).tolist()}


def test_what_was_shown_live_is_seen_too(client: TestClient) -> None:
    answer = recommend(client, "seen live", user="a newcomer")
    event = {"event_id": "seen-1", "decision_id": answer["decision_id"], "item": ids(answer)[0], "behaviour": "click"}
    assert feedback(client, event) == ["stored"]
    others = [item for item in ALL if item not in ids(answer)][:SIZE]
    among = {"candidates": [*ids(answer), *others], "exclude_seen": True}
    assert set(ids(recommend(client, "seen live again", user="a newcomer", **among))) == set(others)


def test_a_given_history_replaces_what_is_known(client: TestClient, recommender: Recommender) -> None:
    history = [{"item": "7", "behaviours": ["like", "share"]}, 8, {"item": 9, "behaviours": []}, {"item": "10"}]
    events: list[str | tuple[str, tuple[str, ...]]] = [("7", ("like", "share")), "8", ("9", ()), "10"]
    for user in ("3", None, "a stranger"):
        answer = recommend(client, f"given-{user}", user=user, history=history, greediness=1)
        assert ids(answer) == greedy(recommender, Query(user, events))
        assert answer["notes"] == []
    assert greedy(recommender, Query("3", events)) != greedy(recommender, Query("3"))
    empty = recommend(client, "forgotten", user="3", history=[], greediness=1)
    assert ids(empty) == greedy(recommender, Query("3", []))


def test_unknown_items_of_a_history_are_ignored_with_a_note(client: TestClient, recommender: Recommender) -> None:
    answer = recommend(client, "odd history", user="3", history=["gone", "8"], greediness=1)
    assert ids(answer) == greedy(recommender, Query("3", ["8"]))
    assert answer["notes"] == ["item gone of the history is not in the catalogue; ignored"]


def test_an_unknown_user_gets_a_note(client: TestClient) -> None:
    note = "user nobody is not in the log; the slates are for "
    answer = recommend(client, "nobody-1", user="nobody")
    assert answer["notes"] == [note + "an unknown user"]
    event = {"event_id": "nobody-1", "decision_id": answer["decision_id"], "item": ids(answer)[0], "behaviour": "click"}
    feedback(client, event)
    assert recommend(client, "nobody-2", user="nobody")["notes"] == [note + "its feedback since"]


def test_a_number_and_its_text_are_the_same_id(client: TestClient) -> None:
    first = recommend(client, "same ids", user=3, exclude=[1], candidates=[2, 3, 4, 5], history=[7])
    assert (
        recommend(client, "same ids", user="3", exclude=["1"], candidates=["2", "3", "4", "5"], history=["7"]) == first
    )


def test_a_policy_without_a_prior_ignores_the_reward_weight(new_host: NewHost, plain_run: Path) -> None:
    host = new_host(of=plain_run, is_started=False, reward_weight=2.0)
    with new_client(host) as client:
        answer = recommend(client, "flat", reward_weight=3)
        assert answer["notes"] == ["reward_weight: this policy has no prior; ignored"]
        assert recommend(client, "also flat")["notes"] == []
    assert not host.service.desk.policy.has_prior


def test_the_service_s_own_settings_hold_where_a_request_has_none(new_host: NewHost) -> None:
    host = new_host(greediness=1.0, reward_weight=0.0)
    policy, data = host.service.desk.policy, host.data
    (expected,) = Recommender(policy, data).recommend([Query("3", reward_weight=0.0)], sampling=Sampling(greedy=True))
    ((own,), (other,)) = decide(host, ask("own", "3"), ask("other", "3", greediness=0.25, reward_weight=1.0))
    assert list(own.slate) == [item.id for item in expected.slates[0].items]
    assert own.sampling == {"greediness": 1.0, "reward_weight": 0.0, "epsilon": 0.0}
    assert other.sampling == {"greediness": 0.25, "reward_weight": 1.0, "epsilon": 0.0}


def test_epsilon_draws_uniformly(new_host: NewHost) -> None:
    host = new_host(epsilon=1.0)
    ((decision,),) = decide(host, ask("uniform", "3"))
    assert [math.exp(value) for value in decision.log_prob] == pytest.approx([1 / 60, 1 / 59, 1 / 58])


def test_a_disabled_item_is_not_shown(new_host: NewHost) -> None:
    host = new_host(is_started=False)
    with new_client(host) as client:
        best = ids(recommend(client, "before", user="3", greediness=1))
        assert client.delete(f"/v1/items/{best[0]}").json()["is_enabled"] is False
        left = [item for item in ALL if item != best[0]]
        query = Query("3", candidates=left)
        expected = greedy(Recommender(host.service.desk.policy, host.data), query)
        assert ids(recommend(client, "after", user="3", greediness=1)) == expected
        among = recommend(client, "among", user="3", candidates=[best[0], *left[:3]], slates=16)
        assert {item["id"] for slate in among["slates"] for item in slate["items"]} == set(left[:3])


def own_slate(policy: Policy, host: Host, user: str, request_id: str, place: int, sampling: Sampling) -> Sequence[str]:
    """What the policy draws by itself, with the random numbers that belong to a request's slate."""
    number = host.service.encoding.user(user)
    request = host.data.latest(torch.tensor([number]))
    draws = [torch_generator(0, f"{request_id}/{place}")]
    proposal = policy.recommend(request, draws, sampling)
    return [str(host.data.items["id"][item - 1]) for item in proposal.slate_BK[0].tolist()]


def test_slates_are_those_of_the_policy_with_the_request_s_random_numbers(
    client: TestClient, shared_host: Host
) -> None:
    policy = shared_host.service.desk.policy
    for user, greediness in (("3", 0.0), ("4", 0.5), ("5", 0.9)):
        answer = recommend(client, f"drawn-{user}", user=user, greediness=greediness, slates=3)
        for place, slate in enumerate(answer["slates"]):
            sampling = Sampling(greediness=greediness)
            expected = own_slate(policy, shared_host, user, f"drawn-{user}", place, sampling)
            assert ids(slate) == expected

"""The same request gets the same answer, whatever has happened in between."""

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from gfn4rec.errors import UserError
from gfn4rec.live.host import Host
from gfn4rec.live.records import ConflictError
from gfn4rec.policies.base import Policy
from tests.live.http.conftest import NewHost
from tests.live.http.serving import ask, decide, ids, new_client, problem_of, recommend, stir

BODY: dict[str, Any] = {"user": "3", "slates": 2, "exclude": [1, "gone"], "greediness": 0.5}


def other_policy(host: Host) -> Policy:
    """The policy of the service, with weights that make it choose other items."""
    policy = host.promotion._policy_for(host.promotion._versions.manifest(1))
    policy.load_state_dict(host.service.desk.policy.state_dict())
    stir(policy, seed=5)
    return policy.eval()


def test_the_same_request_gets_the_same_answer(client: TestClient) -> None:
    first = recommend(client, "again", **BODY)
    feedback = {"event_id": "again-1", "decision_id": first["decision_id"], "item": ids(first)[0], "behaviour": "like"}
    assert client.post("/v1/feedback", json=feedback).status_code == 200  # another history from now on
    assert recommend(client, "again", **BODY) == first
    assert recommend(client, "again", **BODY | {"exclude": ["1", "gone"]}) == first  # the same items, written as text
    assert ids(recommend(client, "another", **BODY)) != ids(first)  # the random numbers depend on the id


@pytest.mark.parametrize(
    "change",
    [{"user": "4"}, {"slates": 1}, {"exclude": [2]}, {"greediness": 0.4}, {"activate": "on_shown"}, {"history": []}],
    ids=str,
)
def test_another_body_with_the_same_id_is_a_conflict(client: TestClient, change: dict[str, Any]) -> None:
    first = recommend(client, f"taken by {change}", **BODY)
    body = {"request_id": f"taken by {change}", **BODY, **change}
    detail = problem_of(client.post("/v1/recommend", json=body), 409)
    assert detail == f"request_id taken by {change}: was used before with another body; choose a new one"
    assert recommend(client, f"taken by {change}", **BODY) == first


def test_an_answer_survives_a_restart_and_another_version(new_host: NewHost) -> None:
    host = new_host(is_started=False)
    with new_client(host) as client:
        first = recommend(client, "kept", **BODY)
        host.service.swap(other_policy(host), 2)
        assert recommend(client, "kept", **BODY) == first
        newer = recommend(client, "newer", **BODY)
        assert newer["version"] == 2
    with new_client(new_host(is_started=False)) as client:
        assert recommend(client, "kept", **BODY) == first
        assert recommend(client, "newer", **BODY) == newer
        problem_of(client.post("/v1/recommend", json={"request_id": "kept"}), 409)


def test_a_restarted_service_draws_the_same_random_numbers(new_host: NewHost) -> None:
    """If a process dies before the commit, the retry is drawn anew, and gets the slate that the first would have."""
    ((first,),) = decide(new_host("one"), ask("lost", "3"))
    ((second,),) = decide(new_host("other"), ask("lost", "3"))
    assert first == second


def test_a_retry_is_answered_although_the_catalogue_no_longer_allows_it(new_host: NewHost) -> None:
    candidates = ["5", "6", "7"]
    with new_client(new_host(is_started=False)) as client:
        first = recommend(client, "before", candidates=candidates)
        assert client.delete("/v1/items/6").status_code == 200
        body = {"request_id": "after", "candidates": candidates}
        assert "only 2 are left" in problem_of(client.post("/v1/recommend", json=body), 422)
        assert recommend(client, "before", candidates=candidates) == first
        other = {"request_id": "before", "candidates": candidates, "slates": 2}
        assert "used before" in problem_of(client.post("/v1/recommend", json=other), 409)


def test_the_same_id_twice_at_once(new_host: NewHost) -> None:
    """Whether they meet in one batch or not: equal bodies get one answer, and another body is a conflict."""
    host = new_host(is_started=False)
    service, asks = host.service, [ask("double", "3"), ask("double", "3"), ask("double", "3", num_slates=2)]
    futures = [service.recommend(each) for each in [*asks, ask("double", "3", num_slates=3), ask("single", "3")]]
    host.start()  # so that all of them are one batch
    first, second = futures[0].result(60), futures[1].result(60)
    assert first == second
    assert len(first) == 1
    for future in futures[2:4]:
        with pytest.raises(ConflictError):
            future.result(60)
    assert len(futures[4].result(60)) == 1


def test_two_wrong_and_one_good_request_in_a_batch(new_host: NewHost) -> None:
    host = new_host(is_started=False)
    few = ask("few", candidates=("1", "2"))
    futures = [host.service.recommend(each) for each in (few, ask("good", "3"), ask("gone", candidates=("gone",)))]
    host.start()
    with pytest.raises(UserError, match="only 2 are left"):
        futures[0].result(60)
    assert len(futures[1].result(60)) == 1
    with pytest.raises(UserError, match="item gone is not in the catalogue"):
        futures[2].result(60)


def test_concurrent_retries_over_http_get_one_decision(client: TestClient) -> None:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(recommend(client, "raced", **BODY))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all(answer == answers[0] for answer in answers)

"""Both clients against the real application: every call, and what it returns."""

import math

import pytest

from gfn4rec.client import ClientError, Event, EventStatus, ShownStatus
from gfn4rec.data.dataset import SlateData
from tests.client.conftest import Caller


def test_a_slate_has_items_with_the_probabilities_they_were_drawn_with(call: Caller, data: SlateData) -> None:
    answer = call("recommend", 3, slates=2, greediness=0.5, exclude=[1, "no such item"])
    assert answer.version == 1
    assert answer.notes == ("item no such item of exclude is not in the catalogue; ignored",)
    assert len({slate.decision_id for slate in answer.slates}) == 2
    for slate in answer.slates:
        assert len({item.id for item in slate.items} - {"1"}) == data.slate_size
        assert all(item.title == f"item {item.id}" for item in slate.items)
        assert sum(math.log(item.probability) for item in slate.items) == pytest.approx(slate.log_prob)
    first = answer.slates[0]
    assert (answer.decision_id, answer.items, answer.log_prob) == (first.decision_id, first.items, first.log_prob)


def test_a_request_id_gets_the_same_answer_and_refuses_another_question(call: Caller) -> None:
    answer = call("recommend", "7", request_id="mine")
    assert answer.request_id == "mine"
    assert call("recommend", 7, request_id="mine") == answer
    assert call("recommend", 7).decision_id != answer.decision_id
    with pytest.raises(ClientError, match="request_id mine: was used before with another body") as failure:
        call("recommend", 8, request_id="mine")
    assert failure.value.status == 409


def test_options_of_a_request_arrive(call: Caller, data: SlateData) -> None:
    choice = [str(item) for item in range(11, 11 + data.slate_size)]
    answer = call("recommend", candidates=choice, history=[5, (6, ["like"])], reward_weight=2)
    assert {item.id for item in answer.items} == set(choice)
    assert answer.notes == ("reward_weight: this policy has no prior; ignored",)
    with pytest.raises(ClientError, match="a slate has 6 items, but only 2 are left to choose from") as failure:
        call("recommend", candidates=[1, 2])
    assert failure.value.status == 422


def test_feedback_is_known_at_once_and_once(call: Caller) -> None:
    user = f"visitor of {id(call)}"
    answer = call("recommend", user)
    item, other = answer.items[0].id, answer.items[1].id
    stored = call("feedback", answer.decision_id, item, "click")
    assert stored.status == "stored"
    assert call("feedback", answer.decision_id, item, "click", event_id=stored.event_id).status == "duplicate"
    assert call("feedback", "d-unknown", item, "click").status == "unknown decision"
    events = [Event(answer.decision_id, other, "like"), Event(answer.decision_id, item, "click", value=0)]
    assert call("feedback_batch", events) == tuple(EventStatus(event.event_id, "stored") for event in events)
    history = call("history", user)
    assert (history.user, history.is_known) == (user, False)
    assert {event.item: event.behaviours for event in history.history if event.behaviours} == {other: ("like",)}
    with pytest.raises(ClientError, match="no behaviour 'bought'; choose from click, like, share, hate"):
        call("feedback", answer.decision_id, item, "bought")


def test_a_slate_waits_until_it_is_shown(call: Caller) -> None:
    decision = call("recommend", 3, on_shown=True).decision_id
    assert call("shown", [decision, "d-unknown"]) == (
        ShownStatus(decision, "activated"),
        ShownStatus("d-unknown", "unknown decision"),
    )
    assert call("shown", [decision]) == (ShownStatus(decision, "active"),)


def test_items_and_users_are_found(call: Caller, data: SlateData) -> None:
    item = call("get_item", 42)
    assert (item.id, item.title, item.is_enabled, item.features) == ("42", "item 42", True, None)
    found = call("find_items", "item 1", limit=2)
    assert (len(found.items), found.total) == (2, 11)
    assert all("item 1" in str(item.title) for item in found.items)
    assert call("find_users", "8").users == ("8", "80")
    assert call("find_users", limit=1).total == data.num_users
    with pytest.raises(ClientError, match="item \\.\\.: not in the catalogue") as failure:
        call("get_item", "..")
    assert failure.value.status == 404
    with pytest.raises(ClientError, match="item a/b é: not in the catalogue"):
        call("get_item", "a/b é")


def test_an_item_is_taken_out(call: Caller) -> None:
    assert not call("delete_item", 60).is_enabled
    assert not call("get_item", 60).is_enabled
    assert "60" not in {item.id for slate in call("recommend", 3, slates=16).slates for item in slate.items}


def test_versions_and_status(call: Caller, data: SlateData) -> None:
    versions = call("versions")
    assert (versions.promoted, versions.automatic_promotion) == (1, True)
    assert [(version.version, version.state) for version in versions.versions] == [(1, "promoted")]
    assert call("promote", 1).promoted == 1
    for version, problem in ((None, "no version was promoted before"), (9, "version 9: is not the promoted one")):
        with pytest.raises(ClientError, match=problem):
            call("rollback", version)
    call("recommend", 3)
    status = call("status")
    assert (status.policy, status.behaviours, status.versions) == ("gfn", data.behaviours, call("versions"))
    assert status.decisions == status.open + status.waiting > 0
    assert (status.learner, status.is_ready, status.wait) == (None, True, 1000)
    assert status.requests.total > 0
    assert call("ready").is_ready
    assert call("wait_until_ready").problem is None

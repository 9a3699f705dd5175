"""Items come, change and go while the service answers."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live.growth import grown_policy
from gfn4rec.live.items import LiveItems
from gfn4rec.live.records import ItemChange
from tests.live.growth.shop import Shop, first_step, forget_ids, open_shop, raw_features, small_policy


@pytest.fixture(params=["gfn-prior", "gfn"])
def shop(data: SlateData, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A service whose items differ by their features alone."""
    policy = forget_ids(small_policy(data, request.param))
    with open_shop(data, tmp_path, policy) as opened:
        yield opened


def unlike_pair(shop: Shop) -> tuple[int, int]:
    """Return two items with clearly different probabilities."""
    log_prob_N = first_step(shop)
    return int(log_prob_N.argmax()) + 1, int(log_prob_N.argmin()) + 1


def test_an_added_item_is_at_once_what_its_features_say(shop: Shop) -> None:
    """With known truth: it is as likely as the item of the log that has the same features."""
    one, other = unlike_pair(shop)
    before = first_step(shop)
    item, is_new, notes = shop.service.put_item("new", "A title", raw_features(shop.data, one))
    assert (item.number, item.title, is_new, notes) == (61, "A title", True, [])
    after = first_step(shop)
    assert after[60] == pytest.approx(float(after[one - 1]), abs=1e-5)
    assert after[60] > after[other - 1] + 1e-3
    # Old items lose the same share of their probability.
    torch.testing.assert_close(after[:60] - before, (after[0] - before[0]).expand(60), rtol=0, atol=1e-5)
    _, is_new, _ = shop.service.put_item("new", None, raw_features(shop.data, other))
    assert not is_new
    changed = first_step(shop)
    assert changed[60] == pytest.approx(float(changed[other - 1]), abs=1e-5)
    assert changed[60] < changed[one - 1] - 1e-3


def test_features_of_an_item_of_the_log_can_be_changed_and_come_back(shop: Shop) -> None:
    one, other = unlike_pair(shop)
    name, before = shop.service.items.at(one).id, first_step(shop)
    features = raw_features(shop.data, other)
    shop.service.put_item(name, None, features)
    changed = first_step(shop)
    assert changed[one - 1] == pytest.approx(float(changed[other - 1]), abs=1e-5)
    # A feature that is left out is as in the data set.
    shop.service.put_item(name, None, {"category": features["category"]})
    assert first_step(shop)[one - 1] != pytest.approx(float(changed[one - 1]), abs=1e-6)
    shop.service.disable_item(name)
    shop.service.put_item(name, None, {})
    assert torch.equal(first_step(shop), before)
    assert shop.service.items.get(name).title == shop.data.items["title"][one - 1]


def test_what_is_added_is_drawn_and_logged_with_its_probability(shop: Shop) -> None:
    for number in range(3):
        shop.service.put_item(f"new {number}", None, raw_features(shop.data, 1 + number))
    chosen = [f"new {number}" for number in range(3)] + [shop.service.items.at(number).id for number in (5, 6, 7)]
    (decision,) = shop.ask(["1"], candidates=tuple(chosen))
    assert sorted(decision.slate) == sorted(chosen)
    assert sum(decision.log_prob) == pytest.approx(sum(decision.learned_log_prob), abs=1e-5)
    users, among = [f"u{number}" for number in range(40)], (*chosen, *(str(shop.data.items["id"][n]) for n in (8, 9)))
    drawn = {item for decision in shop.ask(users, candidates=among) for item in decision.slate}
    assert {f"new {number}" for number in range(3)} <= drawn


def test_unknown_features_are_a_mistake_that_changes_nothing(shop: Shop) -> None:
    with pytest.raises(UserError, match="did you mean 'category'"):
        shop.service.put_item("new", None, {"categry": "category 1"})
    assert shop.service.items.find("new") is None
    assert shop.service.items.revision == 0


def test_the_policy_of_a_running_batch_is_left_as_it_is(data: SlateData) -> None:
    policy, items = small_policy(data, "gfn-prior").eval(), LiveItems.of(data)
    state = {name: weight.clone() for name, weight in policy.state_dict().items()}
    assert grown_policy(policy, data, items) is policy
    off = items.after([ItemChange(1, items.at(3).id, False, None, {})])
    assert grown_policy(policy, data, off) is policy  # who may be drawn is no concern of its own
    more = off.after([ItemChange(2, "new", True, None, {})])
    larger = grown_policy(policy, data, more)
    assert larger.catalogue.num_items == 61
    assert grown_policy(larger, data, more) is larger
    assert policy.catalogue.num_items == 60
    assert all(torch.equal(weight, state[name]) for name, weight in policy.state_dict().items())


def test_a_disabled_item_is_never_drawn_until_it_is_put_again(data: SlateData, tmp_path: Path) -> None:
    """Drawn uniformly, an item is missing from 250 slates of 6 among 40 with a probability below 1e-17."""
    with open_shop(data, tmp_path, small_policy(data, "gfn-prior"), epsilon=1.0) as shop:
        shop.service.put_item("new", None, {})
        items = shop.service.items
        off = {items.at(number).id for number in range(1, 22)} | {"new"}
        for name in sorted(off):
            assert not shop.service.disable_item(name).is_enabled
        users = [f"u{number}" for number in range(250)]
        drawn = {item for decision in shop.ask(users) for item in decision.slate}
        assert drawn == {items.at(number).id for number in range(1, 62)} - off
        shop.service.put_item("new", None, {})
        assert "new" in {item for decision in shop.ask(users) for item in decision.slate}
        with pytest.raises(UserError, match="only 1 are left"):
            shop.ask(["1"], candidates=(*sorted(off),))


@pytest.mark.parametrize("name", ["gfn-prior", "gfn"])
def test_feedback_of_a_new_user_changes_the_next_slate_and_nobody_elses(
    data: SlateData, tmp_path: Path, name: str
) -> None:
    with open_shop(data, tmp_path, small_policy(data, name), greediness=1.0) as shop:
        one, other = shop.ask(["stranger", "another"])
        assert (one.slate, one.history, other.history) == (other.slate, (), ())
        assert one.learned_log_prob == pytest.approx(other.learned_log_prob, abs=1e-5)
        shop.respond([one], lambda item: item in one.slate[:2])
        again, others_again = shop.ask(["stranger", "another"])
        assert others_again.slate == other.slate
        assert others_again.learned_log_prob == pytest.approx(other.learned_log_prob, abs=1e-5)
        assert again.history == tuple((item, ("click",) if item in one.slate[:2] else ()) for item in one.slate)[-5:]
        change = math.fsum(again.learned_log_prob) - math.fsum(one.learned_log_prob)
        assert again.slate != one.slate or abs(change) > 1e-4

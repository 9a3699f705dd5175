"""The learner while the catalogue grows: resumed as if never interrupted, and its new items are really learned."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.config import LearnerSettings
from tests.live.growth.shop import Shop, everything, open_shop, raw_features, small_policy

QUICK = LearnerSettings(samples_per_step=8, warmup_samples=0, learning_batch=16)


@pytest.fixture(params=["gfn-prior", "cf"])
def grown_shop(data: SlateData, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Shop, str]]:
    """72 samples, between which two items were added and the features of one and of an item of the log changed."""
    with open_shop(data, tmp_path, small_policy(data, request.param)) as shop:
        users = [str(user) for user in data.users["id"].to_list()[:9]]
        known = shop.service.items.at(4).id
        for round_ in range(8):
            if round_ == 3:
                shop.service.put_item("new", None, raw_features(data, 1))
            if round_ == 5:
                shop.service.put_item("newer", None, {"tags": ["tag 1", "tag 2", "tag 3", "tag 5"]})
                shop.service.put_item("new", None, raw_features(data, 2))
                shop.service.put_item(known, None, {"category": "category 2"})
            among = [shop.service.items.at(number).id for number in range(len(shop.service.items), 50, -1)]
            shop.respond(shop.ask(users, candidates=tuple(among)), lambda item: len(item) % 2 == 1)
            shop.close_all()
        yield shop, request.param


@pytest.mark.parametrize(("saved_after", "killed_after"), [(2, 5), (4, 5), (7, 8)], ids=["before", "between", "after"])
def test_a_learner_that_is_killed_ends_with_the_same_weights(
    grown_shop: tuple[Shop, str], tmp_path: Path, saved_after: int, killed_after: int
) -> None:
    """Its checkpoint is from before growth, between the changes, or from after them."""
    shop, name = grown_shop
    whole = shop.learner(name, QUICK, tmp_path / "whole")
    assert whole.take() == 72
    killed = shop.learner(name, QUICK, tmp_path / "killed")
    for number in range(killed_after):
        if number == saved_after:
            killed.save()
        chunks = iter([False, True])
        assert killed.take(lambda chunks=chunks: next(chunks)) > 0  # type: ignore[misc]
    resumed = shop.learner(name, QUICK, tmp_path / "killed")
    assert resumed.cursor < killed.cursor
    while resumed.take():
        pass
    assert (resumed.cursor, resumed.learner.num_learned) == (72, whole.learner.num_learned)
    assert resumed.policy.catalogue.num_items == 62
    expected = everything(whole)
    found = everything(resumed)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(found[key], value), key
    for kind in ("categorical", "multi", "numeric"):
        for feature, values in getattr(whole.policy.catalogue.item_features, kind).items():
            assert torch.equal(getattr(resumed.policy.catalogue.item_features, kind)[feature], values)
    manifest = resumed.publish()
    assert (manifest.num_items, manifest.revision) == (62, 4)


def test_a_new_item_that_users_click_is_drawn_more_often_after_learning(data: SlateData, tmp_path: Path) -> None:
    """Users always click the new item, and others with a probability of 0.05."""
    policy = small_policy(data, "gfn-prior", reward_scale=3.0)
    source = torch.Generator().manual_seed(0)
    users = [str(user) for user in data.users["id"].to_list()[:64]]

    def is_clicked(item: str) -> bool:
        return item == "new" or float(torch.rand((), generator=source)) < 0.05

    with open_shop(data, tmp_path, policy) as shop:
        shop.service.put_item("new", None, raw_features(data, 1))
        learner = shop.learner("gfn-prior")
        before = share_with(shop, users)
        for _ in range(16):
            shop.respond(shop.ask(users), is_clicked)
            shop.close_all()
            learner.take()
        learner.publish()
        shop.promotion.scan()
        assert shop.service.desk.version == 2
        after = share_with(shop, users)
    assert deviations(before, after, 6 * len(users)) > 6  # by chance in one of a billion worlds
    assert after > 2 * before


def share_with(shop: Shop, users: list[str]) -> float:
    """Return the share of slates with the new item, for requests that are the same before and after."""
    decisions = [decision for _ in range(6) for decision in shop.ask(users, history=(), is_shown_at_once=False)]
    return sum("new" in decision.slate for decision in decisions) / len(decisions)


def deviations(before: float, after: float, count: int) -> float:
    """Return the difference of two shares of so many slates each, in its standard deviations if there were none."""
    share = (before + after) / 2
    return (after - before) / math.sqrt(share * (1 - share) * 2 / count)

"""Versions of every policy, from before and after growth."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.live.config import ServiceConfig
from gfn4rec.live.growth import grown_policy, untrained_policy
from gfn4rec.live.host import policy_maker
from gfn4rec.live.items import LiveItems
from gfn4rec.live.records import ItemChange
from gfn4rec.live.service import LiveService
from gfn4rec.live.store.state import add_item_change
from gfn4rec.live.versions import Versions, probe
from gfn4rec.policies import POLICIES
from gfn4rec.schema import Sampling
from tests.live.growth.shop import build_policy_like, open_shop, raw_features, small_policy

CHANGES = [ItemChange(1, "new", True, None, {"category": "category 1"}), ItemChange(2, "newer", True, None, {})]


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_grown_policy_is_published_and_loaded_bit_for_bit(data: SlateData, tmp_path: Path, name: str) -> None:
    policy, items, versions = small_policy(data, name).eval(), LiveItems.of(data).after(CHANGES), Versions(tmp_path)
    larger = grown_policy(policy, data, items)
    values = {"parent": None, "trained_to_seq": 0, "step": 0}
    versions.publish(policy, number=1, revision=0, **values)
    versions.publish(larger, number=2, revision=2, **values)
    for number, original in ((1, policy), (2, larger)):
        manifest, loaded = versions.load(
            number, lambda manifest: untrained_policy(build_policy_like(policy, data), data, manifest.num_items)
        )
        assert manifest.num_items == loaded.catalogue.num_items == original.catalogue.num_items
        now = grown_policy(loaded, data, items)  # as the service does it
        assert now.catalogue.num_items == 62
        for key, weight in larger.state_dict().items():
            assert torch.equal(now.state_dict()[key], weight), key
        request = data.latest(torch.arange(1, 9))
        probe(loaded, request)
        one, other = (each.recommend(request, torch.Generator().manual_seed(1), Sampling()) for each in (now, larger))
        assert torch.equal(one.slate_BK, other.slate_BK)
        assert torch.equal(one.log_prob_BK, other.log_prob_BK)


def test_a_version_of_fewer_items_than_the_data_set_is_refused(data: SlateData) -> None:
    with pytest.raises(UserError, match="knows 59 items, fewer than the 60"):
        untrained_policy(small_policy(data, "cf"), data, 59)


def test_a_version_from_before_growth_can_be_rolled_back_to(data: SlateData, tmp_path: Path) -> None:
    with open_shop(data, tmp_path, small_policy(data, "gfn-prior")) as shop:
        shop.service.put_item("new", None, raw_features(data, 1))
        newer = grown_policy(small_policy(data, "gfn-prior"), data, shop.service.items)
        shop.versions.publish(newer, number=2, parent=1, trained_to_seq=0, step=1, revision=1)
        shop.promotion.scan()
        assert shop.service.desk.version == 2
        shop.promotion.rollback()
        (decision,) = shop.ask(["1"], candidates=("new", *(str(shop.service.items.at(n).id) for n in range(1, 6))))
        assert (decision.version, "new" in decision.slate) == (1, True)
        shop.promotion.promote(2)  # from its files
        assert shop.service.desk.policy.catalogue.num_items == 61


def test_a_version_that_knows_more_items_than_this_process_makes_it_look(data: SlateData, tmp_path: Path) -> None:
    """Another process of the service has added an item, and the learner knows it already."""
    with open_shop(data, tmp_path, small_policy(data, "gfn")) as shop:
        stale = LiveService(data, shop.store, shop.first, 1, ServiceConfig(), shop.clock, seed=0)
        shop.service.put_item("new", None, {})
        assert len(stale.items) == 60
        stale.swap(grown_policy(shop.first, data, shop.service.items), 2)
        assert (len(stale.items), stale.desk.policy.catalogue.num_items, stale.desk.version) == (61, 61, 2)


def test_a_version_that_is_newer_than_the_store_is_refused(data: SlateData, tmp_path: Path) -> None:
    """The store was restored from an old copy."""
    with open_shop(data, tmp_path, small_policy(data, "cf")) as shop:
        opened = SimpleNamespace(data=data, new_policy=lambda: build_policy_like(shop.first, data))
        make = policy_maker(opened, shop.store)  # type: ignore[arg-type]
        newer = grown_policy(shop.first, data, LiveItems.of(data).after(CHANGES[:1]))
        manifest = shop.versions.publish(newer, number=2, parent=1, trained_to_seq=0, step=1, revision=1)
        with pytest.raises(UserError, match="knows revision 1 of the catalogue, but the store only 0"):
            make(manifest)
        shop.store.write(lambda connection: add_item_change(connection, "new", True, None, {}, 0.0)).result()
        assert make(manifest).catalogue.num_items == 61


def test_versions_of_any_size_and_order_have_weights_of_their_own(data: SlateData, tmp_path: Path) -> None:
    with open_shop(data, tmp_path, small_policy(data, "gfn-prior")) as shop:
        shop.service.put_item("new", None, raw_features(data, 1))
        opened = SimpleNamespace(data=data, new_policy=lambda: build_policy_like(shop.first, data))
        make = policy_maker(opened, shop.store)  # type: ignore[arg-type]
        published = {
            2: small_policy(data, "gfn-prior"),
            3: grown_policy(small_policy(data, "gfn-prior"), data, shop.service.items),
            4: small_policy(data, "gfn-prior"),
        }
        for shift, (number, policy) in enumerate(published.items()):
            with torch.no_grad():
                for weight in policy.parameters():
                    weight.add_(0.1 * shift)
            changes = policy.catalogue.num_items - data.num_items
            shop.versions.publish(policy, number=number, parent=1, trained_to_seq=0, step=number, revision=changes)
        numbers = (2, 4, 3, 3, 2)
        loaded = [shop.versions.load(number, make)[1] for number in numbers]
        for number, policy in zip(numbers, loaded, strict=True):
            for key, weight in published[number].state_dict().items():
                assert torch.equal(policy.state_dict()[key], weight), (number, key)

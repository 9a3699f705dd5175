"""Effects of items on each other: worked out by hand, and as queries of steps."""

import torch

from gfn4rec.policies.pair_effects import PairEffects, added
from tests.small_catalogue import all_slates

# Item i receives 1, 2, 3 times what item j gives: 10, 20, 30. A slate of three items has two others for each.
TABLE = torch.tensor([[7.0, 7.0], [1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])


def new_effects(dim: int = 1) -> PairEffects:
    torch.manual_seed(0)
    return PairEffects(num_items=6, slate_size=3, item_dim=4, dim=dim)


def test_effects_are_products_of_what_items_receive_and_give() -> None:
    effect_BKK = new_effects().effects(torch.tensor([[2, 1, 3]]), TABLE)
    # Item 2 receives 2 * 10 from item 1 and 2 * 30 from item 3, half of each; nothing from itself.
    assert effect_BKK.tolist() == [[[0.0, 10.0, 30.0], [10.0, 0.0, 15.0], [30.0, 15.0, 0.0]]]
    other = torch.tensor([[0.0, 0.0], [1.0, 10.0], [2.0, 30.0], [3.0, 20.0]])
    effect_BKK = new_effects().effects(torch.tensor([[2, 1, 3]]), other)
    assert effect_BKK.tolist() == [[[0.0, 10.0, 20.0], [15.0, 0.0, 10.0], [45.0, 15.0, 0.0]]]
    # The second item adds 10 + 15, the third 20 + 10 + 45 + 15.
    assert added(effect_BKK).tolist() == [[0.0, 25.0, 90.0]]


@torch.no_grad()
def test_queries_of_steps_give_what_an_item_adds() -> None:
    effects, slate_BK = new_effects(dim=3), all_slates(range(1, 7), 3)
    table_ND = torch.randn(7, 6)
    query_BTD = effects.queries(slate_BK, table_ND, range(3))
    product_BK = (query_BTD * table_ND[slate_BK]).sum(dim=2)
    torch.testing.assert_close(product_BK, added(effects.effects(slate_BK, table_ND)))
    torch.testing.assert_close(effects.queries(slate_BK, table_ND, range(1, 2)), query_BTD[:, 1:2])
    later = slate_BK.clone()
    later[:, 1:] = 0  # what is not chosen yet is not read
    torch.testing.assert_close(effects.queries(later, table_ND, range(2)), query_BTD[:, :2])


def test_effects_start_at_zero_and_can_learn() -> None:
    effects, slate_BK = new_effects(dim=3), all_slates(range(1, 7), 3)
    effect_BKK = effects.effects(slate_BK, effects.table(torch.randn(7, 4)))
    assert not effect_BKK.any()
    effect_BKK[:, 0, 1].sum().backward()
    assert effects.own_ND.grad is not None
    assert bool(effects.own_ND.grad[1:].any(dim=1).all())

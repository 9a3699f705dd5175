"""While a policy learns, the ids of some items are hidden, so that what their features say of them is learned, too."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch

from gfn4rec.nn.entity_encoder import EntityEncoder
from gfn4rec.policies import POLICIES
from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Loss, Policy
from gfn4rec.policies.gfn_prior import PriorGFN
from tests.small_catalogue import generator, make_batch, make_catalogue, make_policy, stirred

ENCODING = [name for name, policy in POLICIES.items() if issubclass(policy.Config, BackboneConfig)]


def loss_of(policy: Policy, share: float, seed: int = 1, is_logged: bool = True) -> Loss:
    """Return the loss with a share of hidden items."""
    for backbone in backbones(policy):
        backbone.unknown_item_share = share
    batch = dataclasses.replace(make_batch(policy.catalogue, 12), is_logged=is_logged)
    return policy.loss(batch, generator(seed))


def backbones(policy: Policy) -> Iterator[Backbone]:
    return (module for module in policy.modules() if isinstance(module, Backbone))


def own_rows(policy: Policy) -> list[torch.Tensor]:
    """Return the weights that items have for themselves: embeddings of ids, vectors and biases."""
    encoders = [module for module in policy.modules() if isinstance(module, EntityEncoder)]
    ids = [encoder.id_embedding.weight for encoder in encoders if encoder.num_entities == policy.catalogue.num_items]
    others = [weight for name, weight in policy.named_parameters() if name.endswith(("own_ND", "bias_N"))]
    return [*ids, *others]


def test_the_share_is_that_of_the_settings_and_the_generator_stays_where_it_is() -> None:
    policy = make_policy("gfn", make_catalogue(num_items=5000), unknown_item_share=0.25)
    (backbone,) = backbones(policy)
    source, same = generator(), generator()
    first = backbone.hide_items(source)
    assert first is not None
    assert len(first) == 5001
    assert float(first.float().mean()) == pytest.approx(0.25, abs=0.02)
    assert torch.equal(source.get_state(), same.get_state())
    again = backbone.hide_items(same)
    assert again is not None
    assert torch.equal(first, again)
    torch.rand(1, generator=same)  # the next step has others
    other = backbone.hide_items(same)
    assert other is not None
    assert not torch.equal(first, other)
    # The numbers are not those that hide users.
    user_5001 = torch.rand(5001, generator=generator()) < 0.25
    assert float((first & user_5001).float().mean()) == pytest.approx(0.25**2, abs=0.02)


@pytest.mark.parametrize("name", ENCODING)
@pytest.mark.parametrize("is_logged", [True, False])
def test_with_every_id_hidden_the_loss_is_that_of_a_policy_whose_items_have_no_weights_of_their_own(
    name: str, is_logged: bool
) -> None:
    policy = stirred(name, make_catalogue(num_items=20))
    plain, hidden = (float(loss_of(policy, share, is_logged=is_logged).loss.detach()) for share in (0.0, 1.0))
    with torch.no_grad():
        for weight in own_rows(policy):
            weight.zero_()
    assert float(loss_of(policy, 0.0, is_logged=is_logged).loss.detach()) == pytest.approx(hidden, rel=1e-5)
    assert hidden != pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize("name", ENCODING)
def test_what_is_hidden_does_not_learn_in_that_step(name: str) -> None:
    """Features and networks do."""
    policy = stirred(name, make_catalogue(num_items=20))
    loss_of(policy, 1.0).loss.backward()
    assert all(weight.grad is None or not weight.grad.any() for weight in own_rows(policy))
    policy.zero_grad()
    loss_of(policy, 0.0).loss.backward()
    assert any(weight.grad is not None and weight.grad.any() for weight in own_rows(policy))


def test_only_the_default_policy_hides_items_unless_it_is_told_to() -> None:
    shares = {name: POLICIES[name].Config.model_fields["unknown_item_share"].default for name in ENCODING}
    assert shares.pop("gfn-prior") > 0
    assert set(shares.values()) == {0.0}


def test_prior_reward_model_and_correction_hide_the_same_items(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = stirred("gfn-prior", make_catalogue(num_items=20))
    assert isinstance(policy, PriorGFN)
    seen: list[torch.Tensor | None] = []

    def watched(table: Callable[..., torch.Tensor], is_hidden_N: torch.Tensor | None = None) -> torch.Tensor:
        seen.append(is_hidden_N)
        return table(is_hidden_N)

    for module in policy.modules():
        if isinstance(module, EntityEncoder) and module.num_entities == 20:
            monkeypatch.setattr(module, "table", partial(watched, module.table))
    loss_of(policy.train(), 0.4)
    assert len(seen) >= 4
    first = seen[0]
    assert first is not None
    assert 0 < int(first.sum()) < 20
    assert all(mask is not None and torch.equal(mask, first) for mask in seen)

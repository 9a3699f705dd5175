"""The policy and the learner for a live catalogue, in which items are added and changed while the service runs."""

from collections.abc import Mapping

import torch

from gfn4rec.config import nearest
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.feature_tensors import with_items
from gfn4rec.data.features import ValueEncoder
from gfn4rec.errors import UserError
from gfn4rec.live.items import LiveItems
from gfn4rec.live.records import Features
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.growth import grown
from gfn4rec.schema import FeatureTensors
from gfn4rec.training.online_learner import OnlineLearner


def grown_policy(policy: Policy, data: SlateData, items: LiveItems) -> Policy:
    """Return the policy for all items of a revision, with their features as they are there.

    The given policy is left as it is, because it may be answering requests; if it is up to date it is returned.
    """
    catalogue = _catalogue(policy, data, len(items), items.features())
    return policy if _is_same(catalogue, policy.catalogue) else grown(policy, catalogue)


def grow_learner(learner: OnlineLearner, data: SlateData, items: LiveItems) -> None:
    """Let a learner's policy know all items of a revision, with their features as they are there."""
    catalogue = _catalogue(learner.policy, data, len(items), items.features())
    if not _is_same(catalogue, learner.policy.catalogue):
        learner.grow(catalogue)


def untrained_policy(policy: Policy, data: SlateData, num_items: int) -> Policy:
    """Return a policy for so many items, to load weights into, given one for those of the data set."""
    if num_items < data.num_items:
        raise UserError(f"knows {num_items} items, fewer than the {data.num_items} of the data set")
    return grown(policy, _catalogue(policy, data, num_items, {}))


def feature_notes(data: SlateData, features: Features) -> list[str]:
    """Return notes on values that the data set does not know; raise a `UserError` for features it does not have."""
    entries, notes = {entry.name: entry for entry in data.manifest.item_features}, []
    for name, value in features.items():
        if name not in entries:
            remedy = nearest(name, list(entries)) if entries else "its items have no features"
            raise UserError(f"the data set has no feature {name!r} of items; {remedy}")
        if not_known := ValueEncoder(entries[name]).not_known(value):
            notes.append(f"feature {name}: the data set does not know {', '.join(not_known)}; taken as unknown")
    return notes


def _catalogue(policy: Policy, data: SlateData, num_items: int, given: Mapping[int, Mapping[str, object]]) -> Catalogue:
    features = with_items(data.item_features, data.manifest.item_features, num_items, given)
    return policy.catalogue.with_items(num_items, features)


def _is_same(one: Catalogue, other: Catalogue) -> bool:
    return one.num_items == other.num_items and all(
        map(torch.equal, _tensors(one.item_features), _tensors(other.item_features))
    )


def _tensors(features: FeatureTensors) -> list[torch.Tensor]:
    kinds = (features.categorical, features.multi, features.numeric)
    return [tensor for kind in kinds for _, tensor in sorted(kind.items())]

"""The policy for a catalogue that has grown."""

from collections.abc import Mapping
from typing import Any

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.items import LiveItems
from gfn4rec.policies.base import Policy
from gfn4rec.training.online_learner import OnlineLearner


def grown_policy(policy: Policy, data: SlateData, items: LiveItems) -> Policy:
    """Return the policy for all items of a revision; the same policy if it knows them."""
    if len(items) == policy.catalogue.num_items:
        return policy
    raise NotImplementedError(data)


def grow_learner(learner: OnlineLearner, data: SlateData, items: LiveItems) -> None:
    """Let a learner's policy know all items of a revision."""
    if len(items) != learner.policy.catalogue.num_items:
        raise NotImplementedError(data)


def feature_notes(data: SlateData, features: Mapping[str, Any]) -> list[str]:
    """Return notes on values that the data set does not know; raise a `UserError` for features it does not have."""
    raise NotImplementedError(data, features)


def untrained_policy(policy: Policy, data: SlateData, num_items: int) -> Policy:
    """Return an untrained policy for so many items."""
    if num_items != policy.catalogue.num_items:
        raise NotImplementedError(data)
    return policy

"""The policy for a catalogue with more items, or with other features of items."""

import torch

from gfn4rec.nn.rows import add_rows
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue


def grown(policy: Policy, catalogue: Catalogue) -> Policy:
    """Return a policy that knows all items of a catalogue; the given one, which knows the first of them, is unchanged.

    What a policy has of each item are rows of its weights, num_items + 1 of them. Old rows stay bit for bit. New ones
    are 0, so that an item is encoded by its features alone until the policy learns of it, as a hidden item in training.
    """
    assert catalogue.num_items >= policy.catalogue.num_items, "a catalogue never shrinks"
    with torch.random.fork_rng(devices=[]):  # its initial weights, which are replaced, draw from the global generator
        larger = type(policy)(catalogue, policy.config)
    weights = policy.state_dict()
    for name, weight in larger.state_dict().items():
        is_grown = weight.shape != weights[name].shape
        weights[name] = add_rows(weights[name], len(weight)) if is_grown else weights[name].clone()
    larger.load_state_dict(weights, assign=True)
    larger.frozen = set(policy.frozen)
    return larger.train(policy.training)

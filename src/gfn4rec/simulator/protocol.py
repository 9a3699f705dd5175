"""The interface between the environment and a model of users; any object with its three members fits."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from gfn4rec.schema import Request


@runtime_checkable
class UserModel(Protocol):
    """Predicts the probabilities of responses.

    `item_embedding_ND` has a vector per item; row 0 is padding. The similarity of two items is the dot product of their
    vectors, which is the cosine if the vectors have length 1. A model whose item influence includes the similarity of
    an item to itself has a true attribute `influence_includes_self`.

    Three attributes are optional, too: `history_length`, the number of events that the model reads of a history, and
    `rho` and `effects`, the strengths of item influence and of other list effects (`ListEffects`) that it was made
    with. So is a method `slate_probabilities`, with the arguments of `probabilities`: the probabilities of the items of
    slates, if they depend on the positions (and not on the other items); an attribute `has_positions` that is false
    says that they do not. A method `trust` with these arguments returns the share of an item's probabilities that is
    believed, (B, C).
    """

    item_embedding_ND: Tensor

    def encode(self, request: Request) -> Tensor:
        """Return the state of each request, a row each, in a form of the model's own."""
        ...

    def probabilities(self, state: Tensor, item_BC: Tensor) -> Tensor:
        """Return the probability of each behaviour for C items of each request, (B, C, R), before item influence."""
        ...


def trusted(model: UserModel, state: Tensor, item_BC: Tensor) -> Tensor:
    """Return the share of the items' probabilities, with item influence, that a model believes, (B, C)."""
    trust = getattr(model, "trust", None)
    share_BC: Tensor = torch.ones(item_BC.shape, device=item_BC.device) if trust is None else trust(state, item_BC)
    return share_BC

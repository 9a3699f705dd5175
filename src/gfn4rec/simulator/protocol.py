"""The interface between the environment and a model of users; any object with its three members fits."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from gfn4rec.schema import Request


@runtime_checkable
class UserModel(Protocol):
    """Predicts the probabilities of responses.

    `item_embedding_ND` has a vector per item; row 0 is padding. The similarity of two items is the dot product of their
    vectors, which is the cosine if the vectors have length 1. A model whose item influence includes the similarity of
    an item to itself has a true attribute `influence_includes_self`.

    Two attributes are optional, too: `history_length`, the number of events that the model reads of a history, and
    `rho`, the strength of item influence that it was made with. So is a method `slate_probabilities`, with the
    arguments of `probabilities`: the probabilities of the items of slates, if they depend on the positions.
    """

    item_embedding_ND: Tensor

    def encode(self, request: Request) -> Tensor:
        """Return the state of each request, a row each, in a form of the model's own."""
        ...

    def probabilities(self, state: Tensor, item_BC: Tensor) -> Tensor:
        """Return the probability of each behaviour for C items of each request, (B, C, R), before item influence."""
        ...

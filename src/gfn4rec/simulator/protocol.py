"""What the environment asks of a simulated user. Anything with these three members will do."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from gfn4rec.schema import Request


@runtime_checkable
class UserModel(Protocol):
    """Answers slates with probabilities.

    `item_embedding_ND`: one vector per item, row 0 padding. The similarity of two items is the product of their
    vectors, so a model whose similarity is the cosine gives vectors of length 1. A model whose similarity counts an
    item's likeness to itself, too, has an attribute `influence_includes_self` that is true.
    """

    item_embedding_ND: Tensor

    def encode(self, request: Request) -> Tensor:
        """What the model needs to know of the requests, one row each."""
        ...

    def probabilities(self, state: Tensor, item_BC: Tensor) -> Tensor:
        """The probability of each behaviour for any items of each request, (B, C, R), before item influence."""
        ...

"""The properties of a data set that policies need: sizes, features, rewards."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.nn.rows import add_rows
from gfn4rec.schema import FeatureTensors


@dataclass(frozen=True)
class Catalogue:
    """The properties of a data set that a policy needs: users, items and the rewards of behaviours.

    >>> from gfn4rec import SlateData
    >>> Catalogue.of(SlateData.open("data/tiny")).num_items
    60
    """

    num_users: int
    num_items: int
    slate_size: int
    weight_R: Tensor  # reward of each behaviour
    user_features: FeatureTensors
    item_features: FeatureTensors
    count_N: Tensor  # occurrences of each item in the training part of the log; column 0 is padding
    has_whole_histories: bool = True  # whether histories also hold items without a response

    @classmethod
    def of(cls, data: SlateData) -> "Catalogue":
        """Return the catalogue of a data set."""
        return cls(
            num_users=data.num_users,
            num_items=data.num_items,
            slate_size=data.slate_size,
            weight_R=data.weight_R,
            user_features=data.user_features,
            item_features=data.item_features,
            count_N=torch.bincount(data.item_at(data.training_rows()), minlength=data.num_items + 1),
            has_whole_histories=not data.is_responded_only,
        )

    def with_items(self, num_items: int, features: FeatureTensors) -> "Catalogue":
        """Return the catalogue with more items, which do not occur in the log, and with these features of all items."""
        count_N = add_rows(self.count_N, num_items + 1)
        return replace(self, num_items=num_items, item_features=features, count_N=count_N)

    def scale_reward(self, reward: Tensor) -> Tensor:
        """Return rewards scaled from the attainable range to [0, 1]."""
        least, most = float(self.weight_R.clamp(max=0).sum()), float(self.weight_R.clamp(min=0).sum())
        return ((reward - least) / max(most - least, 1e-12)).clamp(0.0, 1.0)

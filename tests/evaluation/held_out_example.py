"""A log that is small enough to write down what each user should be shown, and a policy with a prior."""

from pathlib import Path
from typing import ClassVar

import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.policies.base import Context, Plan, pointwise_plan
from gfn4rec.policies.popularity import Popularity
from tests.conftest import make_interactions

# Items are numbered in the order of appearance: a 1, b 2, c 3, d 4, e 5. The last two rows are the test slate.
LOG = {
    1: "a1 b0 c1 a1",  # a was met before
    2: "d1 c0 e1 b1",
    3: "b1 c0 d0 a0",  # nothing is liked
}
NEARLY_ALL = {4: "a1 b1 c1 d1 e1 a1"}  # of the five items, only e has not been met
JUST_ENOUGH = {5: "a1 b1 c0 b1 d1 e0"}  # d and e have not been met


def make_data(folder: Path, log: dict[int, str], test_slates: int = 1) -> SlateData:
    """Prepare a log, written as the items of each user with their responses, in slates of two."""
    events = [(user, time, event) for user, text in log.items() for time, event in enumerate(text.split())]
    interactions = make_interactions([(user, event[0], time, int(event[1])) for user, time, event in events])
    prepare(interactions, PrepareConfig(core=1, slate_size=2, test_slates=test_slates, val_slates=0), folder, "small")
    return SlateData.open(folder, history_length=4)


class WeighedPrior(Popularity):
    """Popularity as the prior; the reward, which prefers high item numbers, counts as much as its weight says."""

    description: ClassVar = "popularity with a reward"
    has_prior: ClassVar = True

    def plan(self, context: Context) -> Plan:
        item_N = torch.arange(len(self.log_count_N), dtype=self.log_count_N.dtype)
        matrix = context.candidates.matrix(torch.stack([self.log_count_N, item_N], dim=1))
        num_requests = len(context.request.user_B)
        weight_B = torch.as_tensor(context.reward_weight, dtype=item_N.dtype).expand(num_requests)
        return pointwise_plan(context.candidates, matrix, torch.stack([torch.ones(num_requests), weight_B], dim=1))

"""What a policy with a prior makes of items that it has never seen, from their features alone.

    python benchmarks/new_items.py split data/ml-100k data/without     # the log without a tenth of the items
    gfn4rec train offline --data data/without --out runs/without
    python benchmarks/new_items.py measure data/ml-100k runs/without

`measure` adds the missing items to the run's policy and asks its prior for the test slates of the whole log.
"""

import dataclasses
import random
import sys
from pathlib import Path

import polars as pl
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.feature_tensors import with_items
from gfn4rec.data.features import decode_features
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.policies.gfn_prior import PriorGFN
from gfn4rec.policies.growth import grown
from gfn4rec.schema import Request
from gfn4rec.training.opened_run import OpenedRun

SHARE, SHOWN = 0.1, 6


def split(whole: Path, out: Path) -> None:
    """Prepare the log without some of its items."""
    log = SlateData.open(whole).interactions()
    items = log.log["item"].unique().sort().to_list()
    left_out = random.Random(0).sample(items, round(SHARE * len(items)))
    rest = dataclasses.replace(log, log=log.log.filter(~pl.col("item").is_in(left_out)), raw_files=())
    prepare(rest, PrepareConfig(core=1), out)


def add_items(policy: PriorGFN, own: SlateData, whole: SlateData) -> tuple[PriorGFN, Tensor]:
    """Return the policy with the items it lacks, and the number of each item of the whole log in it."""
    own_number = {item: number for number, item in enumerate(own.items["id"].to_list(), start=1)}
    features = decode_features(whole.items, whole.manifest.item_features).frame.drop("id").collect().to_dicts()
    number_N, given = [0], {}
    for item, values in zip(whole.items["id"].to_list(), features, strict=True):
        if item not in own_number:
            own_number[item] = len(own_number) + 1
            given[own_number[item]] = values
        number_N.append(own_number[item])
    tensors = with_items(own.item_features, own.manifest.item_features, len(own_number), given)
    larger = grown(policy, policy.catalogue.with_items(len(own_number), tensors))
    assert isinstance(larger, PriorGFN)
    return larger, torch.tensor(number_N)


@torch.no_grad()
def measure(whole: SlateData, run: Path) -> dict[str, float]:
    """Return metrics of the prior on those test items that the run's log does not have, and on the others."""
    opened = OpenedRun.open(run)
    own, policy = opened.data, opened.policy
    assert isinstance(policy, PriorGFN)
    assert own.users["id"].to_list() == whole.users["id"].to_list(), "the users differ"
    policy, number_N = add_items(policy, own, whole)
    is_new_N = torch.arange(policy.catalogue.num_items + 1) > own.num_items
    found: dict[str, list[Tensor]] = {name: [] for name in ("new", "known", "mass", "better", "hit")}
    for slate_B in whole.split("test").split(128):
        batch = whole.slates(slate_B)
        request = Request(batch.request.user_B, number_N[batch.request.history_BH], batch.request.response_BHR)
        slate_BK = number_N[batch.slate_BK]
        scores = policy.prior.encode(request)
        score_BN = scores.query_BD @ scores.vector_ND.T
        score_BN[:, 0] = -torch.inf
        for row, first in enumerate(whole.first_rows(slate_B).tolist()):
            user = int(request.user_B[row])
            met = whole.item_at(torch.arange(int(whole.first_row_U[user]), first))
            score_BN[row, number_N[met]] = -torch.inf
        log_prob_BN = score_BN.log_softmax(dim=1)
        for row, slate_K in enumerate(slate_BK):
            open_K = slate_K[score_BN[row, slate_K].isfinite()]
            log_prob_K, is_new_K = log_prob_BN[row, open_K], is_new_N[open_K]
            others = score_BN[row, is_new_N & score_BN[row].isfinite()]
            rank_K = (others > score_BN[row, open_K][is_new_K, None]).sum(dim=1)
            found["new"].append(log_prob_K[is_new_K])
            found["known"].append(log_prob_K[~is_new_K])
            found["mass"].append(log_prob_BN[row, is_new_N].exp().sum()[None])
            found["better"].append(1 - rank_K / max(1, len(others) - 1))
            found["hit"].append((rank_K < SHOWN).float())
    values = {name: torch.cat(parts) for name, parts in found.items()}
    return {
        "test items that are new": len(values["new"]) / (len(values["new"]) + len(values["known"])),
        "probability that an item is new": float(values["mass"].mean()),
        "log-likelihood of new items": float(values["new"].mean()),
        "log-likelihood of others": float(values["known"].mean()),
        "share of new items ranked lower": float(values["better"].mean()),
        f"among the best {SHOWN} of the new": float(values["hit"].mean()),
    }


if __name__ == "__main__":
    command, data, *places = sys.argv[1:]
    if command == "split":
        split(Path(data), Path(places[0]))
    else:
        for place in places:
            metrics = measure(SlateData.open(data), Path(place))
            print(place, *(f"{name} {value:.4f}" for name, value in metrics.items()), sep="; ")

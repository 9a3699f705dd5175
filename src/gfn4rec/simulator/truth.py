"""What is known of a synthetic log: the AUC that its true probabilities attain."""

import polars as pl
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.synthetic import SyntheticConfig, true_probabilities
from gfn4rec.simulator.calibration import auc


def bayes_auc(data: SlateData, row_N: Tensor) -> list[float] | None:
    """The AUC of the true probabilities on log rows, per behaviour: nobody can do better but by luck.

    None where the log was not made by the synthetic world.
    """
    origin = data.manifest.origin
    if "world" not in origin:
        return None
    truth = true_probabilities(SyntheticConfig.parse(origin["world"], "manifest"), origin["seed"])
    log = data.interactions().log.select("user", "item", "time")[row_N.cpu().numpy()]
    found = log.join(truth, on=["user", "item", "time"], how="left", maintain_order="left")
    score_NR = torch.tensor(found.select(pl.col(*data.behaviours)).to_numpy())
    label_NR = data.response_at(row_N).cpu()
    return [auc(score_NR[:, number], label_NR[:, number]) for number in range(len(data.behaviours))]

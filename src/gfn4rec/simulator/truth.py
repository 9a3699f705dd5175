"""The best AUC that is possible on a synthetic log: that of its true probabilities."""

import polars as pl
import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.synthetic import SyntheticOrigin, true_probabilities
from gfn4rec.simulator.calibration import auc


def bayes_auc(data: SlateData, row_N: Tensor) -> list[float] | None:
    """Return the AUC of the true probabilities on log rows, per behaviour, or None if the log is not synthetic."""
    origin = data.manifest.origin
    if "world" not in origin:
        return None
    made_by = SyntheticOrigin.parse(origin, "manifest")
    truth = true_probabilities(made_by.world, made_by.seed)
    log = data.interactions().log.select("user", "item", "time")[row_N.cpu().numpy()]
    joined = log.join(truth, on=["user", "item", "time"], how="left", maintain_order="left")
    score_NR = torch.tensor(joined.select(pl.col(*data.behaviours)).to_numpy())
    label_NR = data.response_at(row_N).cpu()
    return [auc(score_NR[:, number], label_NR[:, number]) for number in range(len(data.behaviours))]

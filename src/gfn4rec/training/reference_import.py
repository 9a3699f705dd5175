"""The published response model, evaluated on the rows its authors evaluated it on, and saved as a simulator."""

import math
from pathlib import Path

import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.simulator.calibration import auc, reliability
from gfn4rec.simulator.checkpoint import WEIGHTS, Metric, SimulatorManifest, identity_of, save_simulator
from gfn4rec.simulator.reference import read_reference
from gfn4rec.training.response_loop import TEST, VAL, ResponseTrainingConfig, split_rows

_ROWS_AT_ONCE = 1024


@torch.inference_mode()
def import_reference(weights: Path, data: SlateData, out: Path, rho: float) -> SimulatorManifest:
    """Read the weights, measure AUC and calibration on the last rows of each user, and save a simulator."""
    model = read_reference(weights, data)
    split = split_rows(data, ResponseTrainingConfig())
    metrics: dict[str, dict[str, Metric]] = {}
    for kind, name in ((VAL, "val"), (TEST, "test")):
        row_N = torch.nonzero(split == kind).squeeze(1)
        logits = [
            model.logits(model.encode(data.requests(rows)), data.item_at(rows)[:, None])[:, 0]
            for rows in row_N.split(_ROWS_AT_ONCE)
        ]
        logit_NR, label_NR = torch.cat(logits), data.response_at(row_N)
        metrics[name] = {}
        for number, behaviour in enumerate(data.behaviours):
            value = auc(logit_NR[:, number], label_NR[:, number])
            metrics[name][behaviour] = Metric(
                auc=None if math.isnan(value) else value,
                calibration_error=reliability(torch.sigmoid(logit_NR[:, number]), label_NR[:, number]).error,
                rate=float(label_NR[:, number].mean()),
                num_rows=len(row_N),
            )
    manifest = SimulatorManifest(
        kind="reference",
        data=identity_of(data),
        model=model.config.model_dump(mode="json"),
        rho=rho,
        metrics=metrics,
    )
    return save_simulator(out, manifest, {WEIGHTS: model.state_dict()})

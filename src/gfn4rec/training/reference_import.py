"""Import of the published response model: evaluated on the rows its authors used, and saved as a simulator."""

from pathlib import Path

import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import identity_of
from gfn4rec.nn.weights import write_directory
from gfn4rec.simulator.checkpoint import WEIGHTS, SimulatorManifest
from gfn4rec.simulator.effects import NO_EFFECTS, ListEffects
from gfn4rec.simulator.reference import read_reference
from gfn4rec.training.response_loop import TEST, VAL, Predictions, ResponseTrainingConfig, split_rows
from gfn4rec.training.response_training import measure, reliabilities

_ROWS_AT_ONCE = 1024


@torch.inference_mode()
def import_reference(
    weights: Path, data: SlateData, out: Path, rho: float, effects: ListEffects = NO_EFFECTS
) -> SimulatorManifest:
    """Read the weights, measure AUC and calibration on the last rows of each user, and save a simulator."""
    effects.categories(data)  # an error, if there are none, comes before anything is written
    model = read_reference(weights, data)
    split = split_rows(data, ResponseTrainingConfig())
    no_calibration = torch.tensor([[1.0], [0.0]], device=data.device)
    metrics = {}
    for number, name in ((VAL, "val"), (TEST, "test")):
        row_N = torch.nonzero(split == number).squeeze(1)
        logits = [
            model.logits(model.encode(data.requests(rows)), data.item_at(rows)[:, None])[:, 0]
            for rows in row_N.split(_ROWS_AT_ONCE)
        ]
        predictions = Predictions(torch.cat(logits), data.response_at(row_N))
        metrics[name] = measure(predictions, reliabilities(predictions, no_calibration, data), data, row_N)
    manifest = SimulatorManifest(
        kind="reference",
        data=identity_of(data.manifest),
        model=model.config.model_dump(mode="json"),
        rho=rho,
        effects=effects,
        metrics=metrics,
    )
    return write_directory(out, manifest, {WEIGHTS: model.state_dict()})

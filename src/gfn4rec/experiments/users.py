"""Simulated users for an experiment that names none."""

from collections.abc import Callable
from pathlib import Path

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.read import default_rho
from gfn4rec.errors import UserError
from gfn4rec.simulator.checkpoint import read_simulator_manifest
from gfn4rec.training.response_loop import ResponseTrainingConfig
from gfn4rec.training.response_training import train_response_model

Report = Callable[[int, int, int, float], None]


def trained_users(data_path: Path, target: Path, device: str = "cpu", report: Report = lambda *_: None) -> Path:
    """Those at `target`; they are trained on the log unless they are there, from where that was interrupted."""
    try:
        is_finished = read_simulator_manifest(target).is_finished
    except UserError:
        is_finished, is_begun = False, False
    else:
        is_begun = not is_finished
    if not is_finished:
        config = ResponseTrainingConfig()
        data = SlateData.open(data_path, config.model.history_length, device)
        train_response_model(data, config, target, default_rho(data.manifest.name), is_begun, report)
    return target

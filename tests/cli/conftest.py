"""A simulator, settings and a finished run, for the commands that open them."""

from pathlib import Path

import pytest

from gfn4rec.cli import main

ENCODER = "encoder = {dim = 8, embedding_dim = 4, num_heads = 2, num_layers = 1, feedforward_dim = 8, state_dim = 16}"
CONFIG = f"""
policy = "gfn"
[settings]
{ENCODER}
hidden_dims = [16]
[training]
num_steps = 12
learning_batch = 16
evaluate_every = 6
final_batches = 2
checkpoint_every = 4
"""
ONLINE = "warmup_steps = 2\nevaluation_batches = 1\n[users]\nnum_users = 8\n"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Path:
    """A simulator, settings and a finished run."""
    made = tmp_path_factory.mktemp("runs")
    (made / "online.toml").write_text(CONFIG + ONLINE)
    (made / "offline.toml").write_text(CONFIG + "[users]\nnum_users = 8\n")
    (made / "model.toml").write_text(
        "num_epochs = 1\nbatch_windows = 64\n[model]\ndim = 8\nembedding_dim = 8\nnum_heads = 2\nnum_layers = 1\n"
    )
    simulator = ["simulator", "train", data_folder, "--out", made / "simulator", "--config", made / "model.toml"]
    assert main([str(part) for part in simulator]) == 0
    online = ["train", "online", "--data", data_folder, "--simulator", made / "simulator"]
    assert main([str(part) for part in [*online, "--config", made / "online.toml", "--out", made / "run"]]) == 0
    return made


def online_command(folder: Path, data_folder: Path, out: Path, *more: object) -> list[object]:
    command = ["train", "online", "--data", data_folder, "--simulator", folder / "simulator"]
    return [*command, "--config", folder / "online.toml", "--out", out, *more]

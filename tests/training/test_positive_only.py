"""Learning from clicks alone, with sampled items as what users do not click on."""

from dataclasses import replace
from pathlib import Path

from gfn4rec import api
from gfn4rec.data.prepare import PrepareConfig, prepare
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.evaluation.held_out_protocol import POPULARITY, RANDOM

SIZES = {"dim": 16, "embedding_dim": 16, "num_layers": 1, "feedforward_dim": 16, "state_dim": 32, "history_length": 20}
TRAINING = {"num_steps": 150, "learning_batch": 64, "learning_rate": 0.01, "evaluate_every": 50}


def test_cf_learns_from_sampled_items_what_users_click_on(tmp_path: Path) -> None:
    """Without sampled items, its recall is 0.007, below that of random slates."""
    everything = generate(PRESETS["small"].model_copy(update={"num_users": 300, "num_rows": 30_000}), seed=0)[1]
    clicks = replace(everything, log=everything.log.filter("click"), behaviours=everything.behaviours[:1])
    prepare(clicks, PrepareConfig(core=5, negatives=3), tmp_path / "data")
    changes = {**TRAINING, "hidden_dims": [32], "encoder.dropout": 0.0}
    changes |= {f"encoder.{name}": value for name, value in SIZES.items()}
    settings = api.resolve_settings("offline", "cf", changes=changes)
    results = api.train(settings, data=tmp_path / "data", simulator=None, out=tmp_path / "run")
    assert results is not None
    assert results.held_out is not None
    assert results.held_out.num_relevant > 250
    rows = results.held_out.rows | results.held_out.references
    recall = {name: row["recall"] or 0.0 for name, row in rows.items()}
    assert recall["greedy"] > 1.1 * recall[POPULARITY]
    assert recall["greedy"] > 3 * recall[RANDOM]

"""The search that comes before an experiment: each policy that is to be compared gets the same number of trials."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gfn4rec.experiments.engines import Engine
from gfn4rec.experiments.models import MODELS
from gfn4rec.experiments.protocol import Need, Protocol, has_setting
from gfn4rec.experiments.search import Progress, SearchConfig, search
from gfn4rec.experiments.tuned import Tuned, write_tuned
from gfn4rec.experiments.world import World
from gfn4rec.training.config import Kind


def tune(
    protocol: Protocol,
    needs: Sequence[Need],
    num_trials: int,
    world: World,
    engine: Engine,
    out: Path,
    device: str = "cpu",
    report: Progress = lambda *_: None,
) -> Protocol:
    """The protocol with the best settings of a line search, learned online and offline each for itself."""
    found: dict[Kind, Tuned] = {}
    for kind, name in needs:
        model = MODELS[name]
        if not model.is_compared or model.policy in found.get(kind, {}):
            continue
        config = SearchConfig(
            kind=kind,
            num_trials=num_trials,
            num_steps=protocol.budget.trial_steps,
            num_batches=protocol.budget.num_batches,
            changes=_changes(protocol, kind, model.policy),
        )
        best = search(model.policy, config, world, engine, out, device=device, report=report)
        found.setdefault(kind, {})[model.policy] = dict(best.changes)
        write_tuned(out / f"tuned-{kind}.toml", found[kind])
    return replace(protocol, tuned=found)


def _changes(protocol: Protocol, kind: Kind, policy: str) -> dict[str, object]:
    """What all trials of a policy have."""
    wanted = {"warmup_steps": protocol.budget.warmup_steps, **protocol.changes}
    return {key: value for key, value in wanted.items() if has_setting(kind, policy, key)}

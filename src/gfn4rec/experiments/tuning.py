"""The search that comes before an experiment: each model that is to be compared gets the same number of trials."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gfn4rec.experiments.lab import Lab
from gfn4rec.experiments.models import MODELS
from gfn4rec.experiments.protocol import KINDS, Need, Protocol, has_setting
from gfn4rec.experiments.published import published_for
from gfn4rec.experiments.search import Progress, SearchConfig, search
from gfn4rec.experiments.tuned import Tuned, write_tuned
from gfn4rec.experiments.world import World
from gfn4rec.training.config import Kind


def tune(
    protocol: Protocol,
    needs: Sequence[Need],
    num_trials: int,
    lab: Lab,
    out: Path,
    report: Progress = lambda *_: None,
) -> Protocol:
    """The protocol with the best settings of a line search, learned online and offline each for itself."""
    protocol = with_published_settings(protocol, lab.world)
    found: dict[Kind, Tuned] = {}
    for need in needs:
        kind, name = need
        model = MODELS[name]
        if model.variant_of is not None:
            continue
        budget = protocol.budget
        config = SearchConfig(
            kind=kind,
            num_trials=num_trials,
            num_steps=budget.study_trial_steps if model.is_study else budget.trial_steps,
            changes=_that_it_has(need, {**protocol.changes, **model.fixed}),
            start=_that_it_has(need, {**protocol.start(need), "warmup_steps": budget.warmup_steps}),
            values=dict(model.values),
        )
        best = search(model.policy, config, lab, out, report=report)
        found.setdefault(kind, {})[name] = dict(best.changes)
        write_tuned(out / f"tuned-{kind}.toml", found[kind])
    return replace(protocol, tuned={kind: {**protocol.tuned.get(kind, {}), **tuned} for kind, tuned in found.items()})


def with_published_settings(protocol: Protocol, world: World) -> Protocol:
    """Where no search has been made, GFN4Rec gets what the paper's search ended with."""
    of_paper = published_for(world.data.name)
    if of_paper is None:
        return protocol
    tuned = {kind: {"gfn": of_paper.settings, **protocol.tuned.get(kind, {})} for kind in KINDS}
    return replace(protocol, tuned=tuned)


def _that_it_has(need: Need, settings: Mapping[str, Any]) -> dict[str, Any]:
    kind, name = need
    return {key: value for key, value in settings.items() if has_setting(kind, MODELS[name].policy, key)}
